"""Types of events that upstreams list: read with bounds, kept as offers, served once an operator approved them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from mcphub.features.events import arguments
from mcphub.features.events.arguments import ArgumentsMisfit
from mcphub.features.events.models import EventSource, UpstreamEvent
from sessions_app.history import events
from sessions_app.history.events import Actor
from sessions_app.protocol import json, schemas
from sessions_app.protocol.json import Json
from sessions_app.protocol.schemas import SchemaRejected
from tools_catalog.models import McpConnection

MOST_TYPES = 100
"""Of one upstream."""
_MOST_BYTES = 64 * 1024
"""Of one definition."""
_MOST_WORDS = 1000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}")
WAYS = ("push", "poll", "webhook")
"""In the order in which the hub prefers them. The last is used where an upstream has no other."""


@dataclass(frozen=True, slots=True)
class EventOffers:
    """The list of an upstream: definitions by name, and a problem of the list."""

    definitions: Mapping[str, dict[str, Json]]
    problem: str = ""


def read(listed: list[Json], problem: str = "") -> EventOffers:
    """Read the entries of `events/list`. Entries that cannot be offered are left out and named. Pure."""
    found: dict[str, dict[str, Json]] = {}
    for entry in listed:
        definition, refusal = _definition(entry)
        if definition is None:
            problem = problem or refusal
        elif (name := str(definition["name"])) in found:
            problem = problem or f"It lists {name} twice."
        elif len(found) == MOST_TYPES:
            problem = problem or f"The hub takes {MOST_TYPES} types of events."
        else:
            found[name] = definition
    return EventOffers(found, problem[:300])


def _definition(entry: Json) -> tuple[dict[str, Json] | None, str]:
    """Return the parts of an entry that are served, or why there are none."""
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(name, str) or not _NAME.fullmatch(name):
        return None, "A type of events has a name that the hub does not serve."
    ways = entry.get("delivery")
    offered = [way for way in WAYS if isinstance(ways, list) and way in ways]
    if not offered:
        return None, f"{name} comes in no way that the hub receives: push, poll or webhook."
    if len(offered) > 1:  # a definition that is approved does not change with a way that is not used
        offered = [way for way in offered if way != "webhook"]
    schema, wish = entry.get("payloadSchema", {"type": "object"}), entry.get("inputSchema", {"type": "object"})
    try:
        schemas.check(schema)
        schemas.check(wish)
        if wish.get("type", "object") != "object":
            return None, f"{name} has arguments that are no object."
        if len(json.canonical(entry)) > _MOST_BYTES:
            return None, f"The definition of {name} is larger than {_MOST_BYTES} bytes."
    except (SchemaRejected, ValueError, TypeError, RecursionError) as error:
        return None, f"The schemas of {name} cannot be used: {error}"
    words = entry.get("description")
    return {
        "name": name,
        "description": words[:_MOST_WORDS] if isinstance(words, str) else "",
        "delivery": list[Json](offered),
        "payloadSchema": schema,
        **({"inputSchema": wish} if arguments.taken(wish) else {}),
    }, ""


@transaction.atomic
def reconcile(connection_id: int, offers: EventOffers) -> None:
    """Keep the types that an upstream lists. A changed definition waits; the approved one is served and checked on."""
    slug = McpConnection.objects.values_list("slug", flat=True).get(pk=connection_id)
    rows = {row.name_there: row for row in UpstreamEvent.objects.filter(connection_id=connection_id)}
    for name, definition in offers.definitions.items():
        row = rows.pop(name, None)
        if row is None:
            row = UpstreamEvent(connection_id=connection_id, name_there=name, name=f"{slug}/{name}")
        if row.offered != definition:
            row.offered = definition
            row.save()
    for row in rows.values():
        if row.approved:
            UpstreamEvent.objects.filter(pk=row.pk).update(offered={})
        else:
            row.delete()
    EventSource.objects.filter(pk=connection_id).update(listed_at=timezone.now(), problem=offers.problem)


@transaction.atomic
def approve(row: UpstreamEvent, by: Actor, why: str, given: Json = None) -> bool:
    """Serve and receive a type by the definition that the row has; return False where nothing changes.

    `given` are the arguments that it is received with; None: those of the approval before, of a type that takes some.
    Raises ArgumentsMisfit.
    """
    now = UpstreamEvent.objects.select_for_update().get(pk=row.pk)
    kept = now.arguments if "inputSchema" in now.offered else {}
    wanted = kept if given is None else given
    is_same = now.approved == now.offered and now.arguments == wanted
    if not now.offered or now.offered != row.offered or is_same:
        return False
    if words := arguments.problem(now.offered, wanted):
        raise ArgumentsMisfit(f"{now.name}: {words}")
    before = _bound(now)
    if now.arguments != wanted:  # a place is one among the events of the arguments
        now.cursor = ""
    now.approved, now.arguments, now.due_at, now.problem = now.offered, wanted, timezone.now(), ""
    now.save(update_fields=["approved", "arguments", "cursor", "due_at", "problem"])
    _record("upstream_event.approved", now, by, why, before, _bound(now))
    return True


@transaction.atomic
def stop(row: UpstreamEvent, by: Actor, why: str) -> bool:
    """Receive a type no more: subscriptions to it end, and it waits for approval."""
    now = UpstreamEvent.objects.select_for_update().get(pk=row.pk)
    if not now.approved:
        return False
    before, now.approved, now.cursor = _bound(now), {}, ""
    now.save(update_fields=["approved", "cursor"])
    _record("upstream_event.stopped", now, by, why, before, {})
    return True


def _bound(row: UpstreamEvent) -> dict[str, Json]:
    """Return all that an approval binds to."""
    return {**row.approved, "arguments": row.arguments} if row.approved and row.arguments else row.approved


def _record(
    kind: str, row: UpstreamEvent, by: Actor, why: str, before: dict[str, Json], after: dict[str, Json]
) -> None:
    events.record(
        kind, actor=by, model=UpstreamEvent, subject=row.pk, label=row.name, before=before, after=after, reason=why
    )
