"""The steps of one call with the times that are on record: from its session to the seal, each a bar beside its words.

Nothing is guessed: a step without a recorded time shows that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext as _t

from invocations.chain.tables import INVOCATION
from invocations.models import McpRequestEnvelope, McpToolInvocation
from invocations.rest.audit import log
from sessions_app.kit.shown import clipped, duration
from sessions_app.models import McpSession

_WIDE = 1000
"""Of the drawing; the call is as wide as it."""
_LEAST = 4


@dataclass(frozen=True, slots=True)
class CallStep:
    """`begin` and `width` position the bar, None without a time; `link` leads to the step's subject."""

    word: str
    what: str = ""
    link: str = ""
    at: datetime | None = None
    after: str = ""
    took: str = ""
    begin: int | None = None
    width: int = 0
    kind: str = "ran"
    note: str = ""


@dataclass(frozen=True, slots=True)
class Waterfall:
    steps: list[CallStep]
    has_run: bool
    whole: str


@dataclass(frozen=True, slots=True)
class _Scale:
    first: datetime
    whole: float

    def place(self, begin: datetime, end: datetime) -> tuple[int, int]:
        left = min(_WIDE - _LEAST, max(0, round(_WIDE * (begin - self.first).total_seconds() / self.whole)))
        right = min(_WIDE, max(left + _LEAST, round(_WIDE * (end - self.first).total_seconds() / self.whole)))
        return left, right - left


def waterfall(row: McpToolInvocation) -> Waterfall:
    """Return the steps in their order."""
    has_run = row.finished_at > row.started_at
    scale = _Scale(row.received_at, max((row.finished_at - row.received_at).total_seconds(), 1e-6))
    whole = duration(_ms(row.received_at, row.finished_at))
    return Waterfall([*_before(row), *_during(row, scale, has_run), *_after(row)], has_run, whole)


def _before(row: McpToolInvocation) -> Iterator[CallStep]:
    session = reverse("admin:sessions_app_mcpsession_change", args=[quote(row.session_id)])
    known = McpSession.objects.filter(pk=row.session_id).only("created_at").first()
    opened = timezone.localtime(known.created_at) if known is not None else None
    what = clipped(row.session_id, 12)
    since = _t("opened %(span)s earlier") % {"span": _span(known.created_at, row.received_at)} if known else ""
    yield CallStep(_t("Session"), what, session, at=opened, note=since)
    if row.turn_id:
        link = _listed("chat_query", row.turn_id)
        note = _t("model answer %(round)d") % {"round": row.turn_round or 0}
        yield CallStep(_t("Chat turn"), clipped(row.turn_id, 12), link, note=note)
    if row.asked_by:
        yield CallStep(_t("Asked by a call"), clipped(row.asked_by, 12), _search(row.asked_by))
    if row.called_by:
        yield CallStep(_t("Called by a call"), clipped(row.called_by, 12), _search(row.called_by))
    if row.replay_of:
        yield CallStep(_t("Replay of"), clipped(row.replay_of, 12), _search(row.replay_of))


def _during(row: McpToolInvocation, scale: _Scale, has_run: bool) -> Iterator[CallStep]:
    intent = McpRequestEnvelope.objects.filter(invocation_id=row.invocation_id).values_list("id", "received_at").first()
    noted = max(intent[1], row.received_at) if intent is not None else None
    checked = min(noted or row.started_at, row.started_at)
    note = _t("capacity, arguments, limits; not timed separately")
    yield _timed(_t("Received and checked"), row.received_at, checked, scale, kind="waited", note=note)
    if row.policy_rule or row.policy_watched:
        said = f"{row.policy_rule}@{row.policy_version}: {row.policy_said}" if row.policy_said else row.policy_watched
        link = _listed("tools_catalog_mcppolicyrule", row.policy_rule or "")
        note = _t("part of the checks; not timed separately")
        yield CallStep(_t("Call rule"), clipped(said or "", 120), link if row.policy_rule else "", note=note)
    if intent is not None and noted is not None:
        link = reverse("admin:invocations_mcprequestenvelope_change", args=[intent[0]])
        step = _timed(_t("Intent recorded"), noted, max(noted, row.started_at), scale, kind="waited")
        yield _with(step, what=f"#{intent[0]}", link=link)
    if has_run:
        step = _timed(_t("Tool running"), row.started_at, row.finished_at, scale)
        yield _with(step, what=clipped(row.what, 64))
        if row.connection:
            link = f"{reverse('admin:tools_catalog_mcpconnection_changelist')}?{urlencode({'q': row.connection})}"
            note = _t("part of the tool's time; see the trace for the request itself")
            yield CallStep(_t("Upstream"), clipped(row.connection, 64), link, note=note)
    else:
        yield CallStep(_t("Tool running"), note=_t("not called"))


def _after(row: McpToolInvocation) -> Iterator[CallStep]:
    ended = timezone.localtime(row.finished_at)
    word = _t("answered") if row.status == "ok" else row.error_code
    yield CallStep(
        _t("Outcome"), word, at=ended, after=_since(row, row.finished_at), kind="ran" if row.status == "ok" else "bad"
    )
    found = log()
    block = found.block_of(INVOCATION.name, row.pk, found.size())
    if block is None:
        yield CallStep(_t("Sealed"), note=_t("not yet"))
        return
    sealed = datetime.fromisoformat(block.header["sealed_at"])
    number = block.header["number"]
    link = reverse("admin:invocations_auditblock_change", args=[number])
    yield CallStep(_t("Sealed"), f"#{number}", link, at=timezone.localtime(sealed), after=_since(row, sealed))


def _timed(word: str, begin: datetime, end: datetime, scale: _Scale, *, kind: str = "ran", note: str = "") -> CallStep:
    left, width = scale.place(begin, end)
    after = "+" + duration(_ms(scale.first, begin))
    took = duration(_ms(begin, end))
    return CallStep(
        word, at=timezone.localtime(begin), after=after, took=took, begin=left, width=width, kind=kind, note=note
    )


def _with(step: CallStep, *, what: str, link: str = "") -> CallStep:
    return CallStep(step.word, what, link, step.at, step.after, step.took, step.begin, step.width, step.kind, step.note)


def _since(row: McpToolInvocation, moment: datetime) -> str:
    return "+" + duration(_ms(row.received_at, moment))


def _ms(begin: datetime, end: datetime) -> int:
    return max(0, round((end - begin).total_seconds() * 1000))


def _span(begin: datetime, end: datetime) -> str:
    seconds = max(0, int((end - begin).total_seconds()))
    if seconds < 120:
        return _t("%(count)d s") % {"count": seconds}
    if seconds < 7200:
        return _t("%(count)d min") % {"count": seconds // 60}
    return (
        _t("%(count)d h") % {"count": seconds // 3600}
        if seconds < 172_800
        else _t("%(count)d d") % {"count": seconds // 86_400}
    )


def _listed(page: str, text: str) -> str:
    """Return the address of a feature's list with a search; empty where the feature is off."""
    try:
        return f"{reverse(f'admin:{page}_changelist')}?{urlencode({'q': text})}"
    except NoReverseMatch:
        return ""


def _search(invocation_id: str) -> str:
    return f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?{urlencode({'q': invocation_id})}"
