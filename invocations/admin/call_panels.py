"""The page of one call besides its head and steps: related calls, its proof, and its copies."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _t

from invocations.admin import call_head, call_steps
from invocations.admin.reading import may_read_bodies
from invocations.chain import service
from invocations.chain.keys import KeyProblem
from invocations.chain.log import Log
from invocations.chain.tables import INVOCATION
from invocations.chain.verifier import Bad, canonical, checkpoint_text, leaf_hash, root_from_inclusion
from invocations.copying import Copy, copies
from invocations.models import McpToolInvocation
from invocations.rest.audit import log, prove
from sessions_app.kit.admin.base import mark
from sessions_app.kit.lists import searching
from sessions_app.kit.shown import INLINE_CHARACTERS, clipped, duration, pretty
from sessions_app.protocol.json import Json
from tools_catalog.models import McpToolVersion

_LIST = "admin:invocations_mcptoolinvocation_changelist"
_MOST_SHOWN = 5
_NEAR = 5_000
"""Request ids have no index: the same one is looked for among so many calls before and after, of the same session."""


def shown(request: HttpRequest, row: McpToolInvocation) -> dict[str, object]:
    """Return the context of `admin/hub/call.html` below a call's fields."""
    may_verify = request.user.has_perm("invocations.view_auditblock")
    return {
        "head": call_head.headline(request, row),
        "waterfall": call_steps.waterfall(row),
        "neighbours": neighbours(row),
        "related": related(row),
        "copies": copied(request, row),
        "integrity": integrity(row, verify="verify" in request.GET) if may_verify else None,
    }


# Relatives -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relation:
    """Calls that have something to do with this one; `all` is where the rest is listed."""

    title: str
    calls: list[Any]
    all: str = ""


def neighbours(row: McpToolInvocation) -> list[dict[str, Json]]:
    """Return the call before and the call after, in the session and of the same tool."""
    calls = McpToolInvocation.objects.defer("arguments", "result", "error", "left_out")
    same = calls.filter(target=row.target) if row.method else calls.filter(tool_name=row.tool_name)
    of_same = _list(target=row.target or "") if row.method else _list(q=searching.written("tool", row.tool_name))
    places = [
        (_t("In this session"), calls.filter(session=row.session_id), _list(session=row.session_id)),
        (_t("Related"), same, of_same),
    ]
    return [
        {"title": title, "all": link, "calls": [_shown(call, row) for call in _beside(rows, row)]}
        for title, rows, link in places
    ]


def related(row: McpToolInvocation) -> list[Relation]:
    """Return the call's relatives by kind, those kinds left out of which there are none."""
    calls = McpToolInvocation.objects.defer("arguments", "result", "error", "left_out")
    others = calls.exclude(pk=row.pk).order_by("id")
    near = others.filter(session=row.session_id, id__gt=row.pk - _NEAR, id__lt=row.pk + _NEAR)
    found = []
    if row.request_id is not None:
        found.append(Relation(_t("Same request ID, same session"), _some(near.filter(request_id=row.request_id))))
    first = row.duplicate_of or row.invocation_id
    found.append(Relation(_t("Repeats and their original"), _family(others, "duplicate_of", first, row)))
    first = row.continues or row.invocation_id
    found.append(Relation(_t("Rounds of one call"), _family(others, "continues", first, row)))
    first = row.replay_of or row.invocation_id
    found.append(Relation(_t("Replays and their original"), _family(others, "replay_of", first, row)))
    asked = _some(others.filter(asked_by=row.invocation_id)) if not row.asked_by else []
    asking = _some(others.filter(invocation_id=row.asked_by)) if row.asked_by else []
    found.append(Relation(_t("Asked of the client"), asked, _list(asked_by=row.invocation_id)))
    found.append(Relation(_t("The call that asked"), asking))
    first = row.called_by or row.invocation_id
    found.append(Relation(_t("Calls of one program"), _family(others, "called_by", first, row), _list(called_by=first)))
    if row.turn_id:
        same = others.filter(turn_id=row.turn_id)
        found.append(Relation(_t("Same chat turn"), _some(same), _list(turn_id__exact=row.turn_id)))
    if row.trace_id:
        found.append(
            Relation(
                _t("Same trace"),
                _some(others.filter(trace_id=row.trace_id).exclude(trace_id="")),
                _list(q=row.trace_id),
            )
        )
    return [Relation(each.title, [_shown(call, row) for call in each.calls], each.all) for each in found if each.calls]


def _list(**filters: str) -> str:
    return f"{reverse(_LIST)}?{urlencode(filters)}"


def _beside(calls: QuerySet[McpToolInvocation], row: McpToolInvocation) -> list[McpToolInvocation]:
    before = calls.filter(id__lt=row.pk).order_by("-id").first()
    after = calls.filter(id__gt=row.pk).order_by("id").first()
    return [call for call in (before, after) if call is not None]


def _family(
    others: QuerySet[McpToolInvocation], name: str, first: str, row: McpToolInvocation
) -> list[McpToolInvocation]:
    """Return the call that others point at, where it is not this one, and those that point at it."""
    head = [] if first == row.invocation_id else _some(others.filter(invocation_id=first))
    # Not being empty is the condition of the partial index.
    return (head + _some(others.filter(**{name: first}).exclude(**{name: ""})))[:_MOST_SHOWN]


def _some(calls: QuerySet[McpToolInvocation]) -> list[McpToolInvocation]:
    return list(calls[:_MOST_SHOWN])


def _shown(call: McpToolInvocation, row: McpToolInvocation) -> dict[str, Json]:
    return {
        "address": reverse("admin:invocations_mcptoolinvocation_change", args=[call.pk]),
        "place": _t("earlier") if call.pk < row.pk else _t("later"),
        "moment": timezone.localtime(call.started_at),
        "tool": clipped(call.what, 64),
        "status": mark("good" if call.status == "ok" else "bad", call.get_status_display()),
        "took": duration(call.duration_ms),
        "code": call.error_code or "-",
    }


# The proof -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Integrity:
    """`block` is None while the row is not sealed. `steps` are sentences and whether they hold, once verified."""

    sequence: int
    leaf: str = ""
    block: int | None = None
    index: int = 0
    rows: int = 0
    sealed_at: datetime | None = None
    steps: list[tuple[bool, str]] = field(default_factory=list)
    problem: str = ""

    @property
    def holds(self) -> bool:
        return bool(self.steps) and not self.problem and all(good for good, _sentence in self.steps)


def integrity(row: McpToolInvocation, *, verify: bool) -> Integrity:
    """Return the row's place in the log; with `verify`, follow its proof to the signed root."""
    panel = Integrity(row.pk)
    found = log()
    size = found.size()
    proof = prove(found, INVOCATION, row.pk, size)
    if proof is None:
        return panel
    header = proof["block"]
    panel.leaf, panel.index, panel.block = proof["leaf"], proof["index"], header["number"]
    panel.rows, panel.sealed_at = header["count"], datetime.fromisoformat(header["sealed_at"])
    if verify:
        try:
            panel.steps = _followed(found, proof, size)
        except (Bad, KeyProblem) as error:
            panel.problem = str(error)
    return panel


def _followed(found: Log, proof: dict[str, Json], size: int) -> list[tuple[bool, str]]:
    header = proof["block"]
    leaf = bytes.fromhex(proof["leaf"])
    root = root_from_inclusion(proof["index"], header["count"], leaf, proof["row_path"])
    tree = root_from_inclusion(header["number"], size, leaf_hash(canonical(header)), proof["block_path"])
    last = found.block(size - 1)
    assert last is not None
    public = next((key for key in service.keys().publics() if key.key_id == last.key_id), None)
    if public is None:
        raise KeyProblem(_t("The public key %(key)s is not stored here.") % {"key": last.key_id})
    signed = public.has_signed(
        base64.b64decode(last.signature), checkpoint_text(public.name, size, last.tree_root).encode()
    )
    place = {"number": header["number"], "size": size, "key": last.key_id}
    return [
        (root.hex() == header["root"], _t("The current row matches the root of block %(number)d.") % place),
        (tree == last.tree_root, _t("Block %(number)d is part of the log of %(size)d blocks.") % place),
        (signed, _t("Key %(key)s signed that root.") % place),
    ]


# Making it again -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copies:
    """`why` is the reason if there is none; `caution` names arguments that differ from the original."""

    forms: list[Copy]
    why: str = ""
    caution: str = ""


def copied(request: HttpRequest, row: McpToolInvocation) -> Copies:
    """Return the call as copyable text, for readers of its arguments."""
    if row.method:
        return Copies([], _t("This row is a read. Only tool calls can be replayed."))
    if not may_read_bodies(request):
        return Copies([], _t("The arguments are hidden: your account can't read bodies."))
    if not isinstance(row.arguments, dict):
        return Copies([], _t("The arguments are no longer stored."))
    if len(pretty(row.arguments)) > INLINE_CHARACTERS:
        return Copies([], _t("The arguments are too large for this page; download them above."))
    gone = (row.left_out or {}).get("arguments")
    if gone and gone.get("truncated"):
        return Copies([], _t("The arguments were truncated when they were recorded."))
    caution = _t("Some arguments were redacted: enter the real values in their places.") if gone else ""
    version = McpToolVersion.objects.filter(digest=row.tool_digest).first() if row.tool_digest else None
    definition = version.definition if version is not None else {}
    schema = definition.get("input_schema") or {}
    return Copies(copies(row, f"{settings.MCPHUB_PUBLIC_URL.rstrip('/')}/mcp", schema), caution=caution)
