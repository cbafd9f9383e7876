"""The sources of notices in the database: current states, and events of the history since a position.

Each worker can find it out, so the one that holds the lease does, and the next one goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Count, Max
from django.utils import timezone
from django.utils.translation import gettext as _t

from invocations.figures.tallies import HOUR, MINUTE, TOOL, Tally
from invocations.models import CallTally
from mcphub.features.notifications import noticing
from mcphub.features.notifications.catalogue import KINDS
from mcphub.features.notifications.models import Notice
from mcphub.features.signin.models import Consent
from mcphub.parts import NoticeKind
from sessions_app.history.models import AuditEvent, WaitingChange
from sessions_app.history.reading import in_words
from sessions_app.kit.features import declared, loaded
from sessions_app.models import ApiKey
from sessions_app.protocol.json import Json
from tools_catalog.models import McpConnection, McpUpstreamTool
from tools_catalog.models.links import McpConnectionLink

Found = dict[tuple[str, str], dict[str, Json]]
"""(kind, subject) -> facts."""

MOST_OF_A_STATE = 200
"""Rows of one kind that are read; more are not reported one by one in any case."""
MOST_EVENTS = 500
"""Of the history, read in one turn."""
_LATE_SECONDS = 60
"""On PostgreSQL an event may come to light after one of a higher number; for so long it is read once more."""
TOUCHED = ("audit.alarm", "ledger.failing")
"""Reported by each process that sees it; over after `UNTOUCHED_SECONDS` without a report."""
UNTOUCHED_SECONDS = 60

RECENT = timedelta(minutes=15)
USUAL = timedelta(days=7)
LEAST_RECENT_CALLS = 20
LEAST_USUAL_CALLS = 100
"""Below this number of calls there is no baseline."""


_DECLARED = tuple(kind for kind in declared(NoticeKind) if kind.states)
"""Kinds of features whose states are asked of them."""


def states() -> Found:
    """Return all current states that notices cover."""
    found = {**_changes(), **_connections_down(), **_definitions()}
    for kind in _DECLARED:
        facts = loaded(kind.states)()
        found |= {(kind.name, subject): each for subject, each in facts.items()}
    return found


def reconcile(found: Found, kinds: tuple[str, ...]) -> None:
    """Write new states of these kinds, increment recurring ones, end those that are over."""
    people = _people(found)
    for (kind, subject), facts in found.items():
        noticing.note(kind, subject, facts, person=people.get(_concerned(kind, facts)))
    still = Notice.objects.filter(kind__in=kinds, ended_at=None, is_current=True)
    over = [row.pk for row in still if (row.kind, row.subject) not in found]
    noticing.end(Notice.objects.filter(pk__in=over))


STATES = ("change.waits", "connection.down", "definition.changed", *(kind.name for kind in _DECLARED))
FIGURES = ("tool.errors", "tool.slow")


def end_untouched() -> None:
    horizon = timezone.now() - timedelta(seconds=UNTOUCHED_SECONDS)
    noticing.end(Notice.objects.filter(kind__in=TOUCHED, last_at__lt=horizon))


def _within(workspace: str | None) -> dict[str, Json]:
    """Return the fact that names the workspace of a matter."""
    return {"workspace": workspace} if workspace else {}


def _changes() -> Found:
    rows = WaitingChange.objects.filter(state=WaitingChange.State.WAITING, expires_at__gt=timezone.now())
    return {
        ("change.waits", str(row.pk)): {
            "by": row.proposer_label,
            "subject": row.subject_label,
            "expires": moment_of(row.expires_at),
        }
        for row in rows[:MOST_OF_A_STATE]
    }


def _connections_down() -> Found:
    """A connection is down where a process failed to reach it and none reaches it."""
    up = McpConnectionLink.objects.filter(status=McpConnection.Status.CONNECTED, paused_until=None).values("connection")
    rows = (
        McpConnectionLink.objects.filter(connection__enabled=True, status=McpConnection.Status.ERROR)
        .exclude(connection__in=up)
        .select_related("connection__workspace")
        .order_by("connection_id", "-updated_at")
    )
    found: Found = {}
    for row in rows[:MOST_OF_A_STATE]:
        owner = row.connection.workspace
        facts: dict[str, Json] = {
            "connection": row.connection.slug,
            "error": row.error_message or "?",
            **_within(owner.slug if owner is not None else None),
        }
        found.setdefault(("connection.down", str(row.connection_id)), facts)
    return found


def _definitions() -> Found:
    rows = (
        McpUpstreamTool.objects.filter(state=McpUpstreamTool.State.CHANGED)
        .order_by("connection_id")
        .values("connection_id", "connection__slug", "connection__workspace__slug")
        .annotate(count=Count("pk"), newest=Max("pk"))
    )
    return {
        ("definition.changed", str(row["connection_id"])): {
            "connection": row["connection__slug"],
            "count": row["count"],
            **_within(row["connection__workspace__slug"]),
        }
        for row in rows[:MOST_OF_A_STATE]
    }


def _concerned(kind: str, facts: dict[str, Json]) -> str:
    """Return the person or key that may read a notice of its own; empty for none."""
    return str(facts.get("principal", "")) if KINDS[kind].of_person else ""


def _people(found: Found) -> dict[str, User]:
    """Return, by person and key, the people who read notices about themselves without an operator's permission."""
    wanted = [_concerned(kind, facts).partition(":") for (kind, _subject), facts in found.items()]
    users = [int(number) for kind, _colon, number in wanted if kind == "user"]
    keys = [int(number) for kind, _colon, number in wanted if kind == "key"]
    rows = ApiKey.objects.filter(pk__in=keys, owner__isnull=False).select_related("owner")
    people = {f"user:{person.pk}": person for person in User.objects.filter(pk__in=users)}
    return people | {f"key:{row.pk}": row.owner for row in rows if row.owner is not None}


# Figures ---------------------------------------------------------------------------------------------------


def figures() -> Found:
    """Return the tools with a worse last quarter of an hour than last week, by the tallies of the audit."""
    now = datetime.now(UTC)
    recent = _tallies(MINUTE, now - RECENT, now + timedelta(minutes=1))
    busy = {name: tally for name, tally in recent.items() if tally.calls >= LEAST_RECENT_CALLS}
    usual = _tallies(HOUR, now - USUAL, now - timedelta(hours=1), list(busy)[:MOST_OF_A_STATE])
    found: Found = {}
    for name, tally in busy.items():
        before = usual.get(name)
        if before is not None and before.calls >= LEAST_USUAL_CALLS:
            found |= judged(name, tally, before)
    return found


def judged(name: str, now: Tally, usual: Tally) -> Found:
    """Compare: failures at least five, a tenth of the calls and three times the usual share; p95 three times, and
    a second more."""
    found: Found = {}
    share, before = now.errors / now.calls, usual.errors / usual.calls
    if now.errors >= 5 and share >= 0.1 and share >= 3 * before:
        found["tool.errors", name] = {
            "tool": name,
            "failed": now.errors,
            "calls": now.calls,
            "share": round(100 * share),
            "usual": round(100 * before, 1),
        }
    slow, fast = now.percentile(95), usual.percentile(95)
    if slow is not None and fast is not None and slow >= 3 * fast and slow - fast >= 1000:
        found["tool.slow", name] = {"tool": name, "calls": now.calls, "now": slow, "usual": fast}
    return found


def _tallies(span: int, after: datetime, before: datetime, names: list[str] | None = None) -> dict[str, Tally]:
    rows = CallTally.objects.filter(subject=TOOL, span=span, slot__gte=after, slot__lt=before)
    if names is not None:
        rows = rows.filter(name__in=names)
    found: dict[str, Tally] = {}
    for name, calls, errors, durations in rows.values_list("name", "calls", "errors", "durations").iterator():
        if name:
            found.setdefault(name, Tally()).add(Tally(calls, errors, Tally.load(durations)))
    return found


# Events of the history ---------------------------------------------------------------------------------------


def newest_event() -> int:
    return AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def tell_events(position: int) -> int:
    """Write notices of events after this one; return the position that follows."""
    late = timezone.now() - timedelta(seconds=_LATE_SECONDS)
    kinds = list(_EVENTS)
    once_more = AuditEvent.objects.filter(
        kind__in=kinds, pk__lte=position, pk__gt=position - 1000, happened_at__gt=late
    )
    fresh = AuditEvent.objects.filter(pk__gt=position).order_by("pk")[:MOST_EVENTS]
    read = list(fresh)
    for event in [*once_more.order_by("pk"), *(each for each in read if each.kind in _EVENTS)]:
        for kind, facts, person in _EVENTS[event.kind](event):
            noticing.note(kind, f"event {event.pk}", facts, person=person)
    return read[-1].pk if read else position


def _connection_changed(event: AuditEvent) -> Iterator[tuple[str, dict[str, Json], User | None]]:
    deed = event.kind.partition(".")[2]
    fields = ", ".join(sorted(event.after)) if deed == "changed" and isinstance(event.after, dict) else deed
    facts: dict[str, Json] = {
        "by": event.actor_label or event.actor,
        "connection": event.subject_label,
        "fields": fields,
    }
    yield "connection.changed", facts, None


def edit_of_connection(facts: Mapping[str, object]) -> dict[str, object]:
    """Return what was done to a connection, the changed fields by the names that forms show."""
    told = {name: facts[name] for name in ("by", "connection", "fields")}
    names = dict.fromkeys(str(told["fields"]).split(", "))
    if told["fields"] == "created" or "created_at" in names:  # facts of before named the columns of a new row
        return {"what": _t("%(by)s created the connection %(connection)s.") % told}
    if told["fields"] == "deleted":
        return {"what": _t("%(by)s deleted the connection %(connection)s.") % told}
    told["fields"] = ", ".join(in_words(McpConnection, names))
    return {"what": _t("%(by)s changed the connection %(connection)s: %(fields)s.") % told}


def _key_ends(event: AuditEvent) -> Iterator[tuple[str, dict[str, Json], User | None]]:
    key = ApiKey.objects.filter(pk=_number(event)).select_related("owner").first()
    after: Any = event.after if isinstance(event.after, dict) else {}
    facts: dict[str, Json] = {"key": event.subject_label, "expires": str(after.get("expires_at") or "?")}
    if key is not None:
        facts["principal"] = key.principal
    yield "key.ends", facts, key.owner if key is not None else None


def _consented(event: AuditEvent) -> Iterator[tuple[str, dict[str, Json], User | None]]:
    row = Consent.objects.filter(pk=_number(event)).select_related("user", "client").first()
    if row is not None:
        client = row.client.name or row.client.client_id
        yield (
            "client.consented",
            {"person": row.user.get_username(), "client": client, "endpoint": row.endpoint},
            row.user,
        )


_EVENTS = {
    "mcpconnection.changed": _connection_changed,
    "mcpconnection.created": _connection_changed,
    "mcpconnection.deleted": _connection_changed,
    "key.ends_soon": _key_ends,
    "consent.given": _consented,
}


def _number(event: AuditEvent) -> int:
    return int(event.subject_id) if event.subject_id.isascii() and event.subject_id.isdecimal() else 0


def moment_of(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
