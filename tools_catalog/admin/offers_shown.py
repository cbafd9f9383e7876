"""The preview before a bulk approval of offers: each difference, its effects, and its permitted users.

The page posts back the digest of each definition that it showed. Changes by the upstream in the meantime are not
approved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _t

from sessions_app.kit.admin.base import mark
from sessions_app.kit.admin.difference import FieldDifference, difference
from sessions_app.kit.shown import clipped, pretty, visible
from sessions_app.protocol.json import Json
from tools_catalog.discovery.proposals import hints
from tools_catalog.models import McpUpstreamTool
from tools_catalog.models.offer_kinds import handler_of
from tools_catalog.upstream.listing import TOOL

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

MOST = 50
"""Offers on one page: nobody reads more of them before one yes."""
_MOST_CHARACTERS = 4_000
"""Of one description; the page of the offer has it whole."""


@dataclass(frozen=True, kw_only=True)
class ShownOffer:
    key: object
    """Its key in the requesting list."""
    field: str
    """The name under which its digest is posted."""
    digest: str
    name: str
    here: str
    kind: str
    connection: str
    link: str
    state: SafeString
    effects: SafeString | str
    effects_before: SafeString | str
    description: str
    is_first: bool
    decided_by: str
    decided_at: datetime | None
    refusal: str
    whole: str
    differences: list[FieldDifference]


def shown(rows: Iterable[McpUpstreamTool], keys: Mapping[int, object] | None = None) -> list[ShownOffer]:
    """Return the page's description of each; `keys` are those of the requesting list if its rows are not offers."""
    return [_shown(row, row.pk if keys is None else keys[row.pk]) for row in rows]


def looked_at(request: HttpRequest, row: McpUpstreamTool) -> str:
    """Return the digest that the page showed of an offer; empty where it was not asked there."""
    return request.POST.get(_field(row), "")


def differences(approved: Mapping[str, Json], row: McpUpstreamTool) -> list[FieldDifference]:
    """Return what is different since the approval: the definition's members, and texts behind it such as files."""
    return [*difference(dict(approved), row.seen), *text_differences(row)]


def text_differences(row: McpUpstreamTool) -> list[FieldDifference]:
    further = handler_of(row.kind)
    return difference(*further.texts(row)) if further is not None else []


def _shown(row: McpUpstreamTool, key: object) -> ShownOffer:
    approved: Mapping[str, Json] = row.approved if row.approved_digest else {}
    effects = _effects(row.kind, row.seen)
    before = _effects(row.kind, approved) if approved else ""
    return ShownOffer(
        key=key,
        field=_field(row),
        digest=row.seen_digest,
        name=clipped(row.upstream_name, 100),
        here=clipped(row.name, 100),
        kind=row.get_kind_display(),
        connection=clipped(" · ".join(filter(None, (row.connection.slug, row.connection.title))), 120),
        link=reverse("admin:tools_catalog_mcpupstreamtool_change", args=[row.pk]),
        state=mark("wait" if not approved else "warn", McpUpstreamTool.State(row.state).label),
        effects=effects,
        effects_before=before if before != effects else "",
        description=visible(str(row.seen.get("description", ""))[:_MOST_CHARACTERS]),
        is_first=not approved,
        decided_by=visible(row.decided_by, one_line=True),
        decided_at=row.decided_at,
        refusal=visible(row.refusal, one_line=True),
        whole="" if approved else pretty(row.seen),
        differences=differences(approved, row) if approved else text_differences(row),
    )


def _field(row: McpUpstreamTool) -> str:
    return f"seen-{row.pk}"


def _effects(kind: str, definition: Mapping[str, Json]) -> SafeString | str:
    """Return the upstream's hints about a tool's effects; missing ones count as MCP's default, the worst."""
    if kind != TOOL:
        return ""
    hinted = hints(definition)
    more = [_t("open world")] if hinted.get("openWorldHint") is not False else []
    if hinted.get("readOnlyHint") is True:
        return mark("good", ", ".join([_t("Read-only"), *more]))
    if hinted.get("idempotentHint") is True:
        more.insert(0, _t("idempotent"))
    if hinted.get("destructiveHint") is False:
        return mark("edit", ", ".join([_t("Writes"), *more]))
    return mark("warn", ", ".join([_t("Destructive"), *more]))
