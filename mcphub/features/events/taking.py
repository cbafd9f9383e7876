"""Events of upstreams, into the log: checked, each once, in bounded numbers, with the place to go on from.

All of a batch, its cursor too, is one transaction of the worker that holds the upstream's lease. So a worker that is
killed loses nothing, and an event that comes once more from the last cursor is known by its ID there.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from mcphub.features.events.models import EventLog, EventSource, Occurrence, UpstreamEvent
from mcphub.features.events.recording import OCCURRED
from sessions_app import bus
from sessions_app.kit.database import delete_in_slices
from sessions_app.protocol import json, schemas
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

LEASE_SECONDS = 30
MOST_AN_HOUR = 5000
"""Of one upstream. Then it is left alone until the hour is over."""
MOST_IN_BATCH = 1000
MOST_KEPT_OF_TYPE = 5000
MOST_BYTES = 64 * 1024
"""Of the data of one event."""
_LONGEST_ID = 200
_LONGEST_CURSOR = 4096
_HOUR = timedelta(hours=1)
_LONGEST_PAUSE_SECONDS = 600.0


class LeaseLost(Exception):
    """Another worker receives for the upstream now, or nobody does: the type is not approved, the connection is off."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The outcome of a batch."""

    stored: int = 0
    repeated: int = 0
    refused: int = 0
    is_paused: bool = False
    """The upstream is left alone for a while; the cursor stays before the first event that was not stored."""


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """A well-formed event of an upstream."""

    id_there: str
    data: dict[str, Json]
    dated: datetime | None
    cursor: Json


class NotTaken(Exception):
    """The reason for which an event of an upstream is refused."""


def claim(
    process_id: str,
    declaring: Iterable[int],
    within: Iterable[int],
    is_gone: Callable[[str], bool] = lambda process_id: False,
) -> set[int]:
    """Take the lease of upstreams that have events, and keep those that this worker has; return all that it has.

    `declaring` are connections that declare the extension now, `within` those that this worker can use. The lease of a
    process that `is_gone` is free at once.
    """
    now = timezone.now()
    known = set(EventSource.objects.values_list("pk", flat=True))
    fresh = [EventSource(connection_id=pk) for pk in declaring if pk not in known]
    EventSource.objects.bulk_create(fresh, ignore_conflicts=True)
    usable = EventSource.objects.filter(pk__in=list(within), connection__enabled=True)
    wanted = UpstreamEvent.objects.served().exclude(offered={}).values("connection_id")
    rows = usable.filter(Q(pk__in=list(declaring)) | Q(pk__in=wanted))
    until = now + timedelta(seconds=LEASE_SECONDS)
    is_aging = Q(leased_by=process_id, leased_until__lt=until - timedelta(seconds=LEASE_SECONDS / 3))
    others = usable.filter(leased_until__gte=now).exclude(leased_by__in=["", process_id])
    gone = [each for each in set(others.values_list("leased_by", flat=True)) if is_gone(each)]
    is_free = Q(leased_until=None) | Q(leased_until__lt=now) | is_aging | Q(leased_by__in=gone)
    for pk in list(rows.filter(is_free).values_list("pk", flat=True)):
        EventSource.objects.filter(is_free, pk=pk).update(leased_by=process_id, leased_until=until)
    return set(rows.filter(leased_by=process_id).values_list("pk", flat=True))


def release(process_id: str, connection_ids: Iterable[int] | None = None) -> None:
    """Release the lease of these upstreams; None: of all."""
    held = EventSource.objects.filter(leased_by=process_id)
    if connection_ids is not None:
        held = held.filter(pk__in=list(connection_ids))
    held.update(leased_by="", leased_until=None)


def take(
    process_id: str | None,
    event_id: int,
    came: Sequence[Json | NotTaken],
    cursor: Json,
    *,
    skipped: bool = False,
    asked_with: dict[str, Json] | None = None,
) -> Taken:
    """Store a batch of one type. `cursor` is the place after the batch; None: the upstream has no places.

    Without a process, for deliveries of an upstream, any worker may. A NotTaken in `came` stands for an event that is
    refused. `skipped`: the upstream states that it left out events. `asked_with`: the arguments of the request, which
    may have been approved with others meanwhile. Raises LeaseLost.
    """
    with transaction.atomic():
        row = _held(process_id, event_id)
        if asked_with is not None and asked_with != row.arguments:
            raise LeaseLost
        source = EventSource.objects.get(pk=row.connection_id)
        validator = _validator(json.canonical(row.approved["payloadSchema"]))
        batch, repeated, refusals = _sorted(row, validator, came[:MOST_IN_BATCH])
        refused = len(refusals)
        room, now = _room(source), timezone.now()
        chosen = list(batch.values())[:room]
        is_paused = len(chosen) < len(batch)
        _store(row, chosen)
        source.hour_count += len(chosen)
        if is_paused:
            source.paused_until = source.hour_began_at + _HOUR
            logger.warning("The upstream event %s comes too often; it is read on at %s", row.name, source.paused_until)
        source.save(update_fields=["hour_began_at", "hour_count", "paused_until"])
        place = _place(cursor, row.cursor)
        if not is_paused and place is not None:
            row.cursor = place
        is_lost = len(came) > MOST_IN_BATCH or (is_paused and cursor is None)
        row.gaps += int(skipped or is_lost)
        row.received, row.repeated, row.refused = (
            row.received + len(chosen),
            row.repeated + repeated,
            row.refused + refused,
        )
        if refused:
            row.last_refusal = refusals[-1][:300]
            logger.warning("The upstream event %s: %d refused, the last: %s", row.name, refused, row.last_refusal)
        if chosen:
            row.last_received_at = now
        row.problem, row.failures = "", 0
        row.save(
            update_fields=[
                *("cursor", "gaps", "received", "repeated", "refused"),
                *("last_refusal", "last_received_at", "problem", "failures"),
            ]
        )
        if chosen:
            bus.publish(OCCURRED, row.name)
    return Taken(len(chosen), repeated, refused, is_paused)


def _sorted(
    row: UpstreamEvent, validator: schemas.Validator, came: Sequence[Json | NotTaken]
) -> tuple[dict[str, ReceivedEvent], int, list[str]]:
    """Return the new events by their IDs there, the number of repeated ones, and the reasons of refusals."""
    batch: dict[str, ReceivedEvent] = {}
    repeated, refusals = 0, []
    for entry in came:
        try:
            if isinstance(entry, NotTaken):
                raise entry
            event = _read(row, validator, entry)
            if event.id_there in batch:
                _same(event, batch[event.id_there].data)
                repeated += 1
            else:
                batch[event.id_there] = event
        except NotTaken as error:
            refusals.append(str(error))
    for id_there, data in _known(row.name, batch).items():
        try:
            _same(batch.pop(id_there), data)
            repeated += 1
        except NotTaken as error:
            refusals.append(str(error))
    return batch, repeated, refusals


def postpone(process_id: str | None, event_id: int, seconds: float, problem: str = "") -> None:
    """Set when a type is asked for again; a problem is shown, and counted."""
    with transaction.atomic():
        try:
            row = _held(process_id, event_id)
        except LeaseLost:
            return
        row.due_at = timezone.now() + timedelta(seconds=seconds)
        if problem:
            row.problem, row.failures = problem[:300], row.failures + 1
        row.save(update_fields=["due_at", "problem", "failures"])


def pause(failures: int) -> float:
    """Return for how many seconds a type is left alone that failed so often before."""
    return min(_LONGEST_PAUSE_SECONDS, 2.0 ** min(failures + 1, 20))


def forget_place(process_id: str, event_id: int) -> None:
    """Begin a type anew from now on: the upstream does not take its cursor any more."""
    with transaction.atomic():
        row = _held(process_id, event_id)
        row.cursor, row.gaps = "", row.gaps + 1
        row.save(update_fields=["cursor", "gaps"])


def _held(process_id: str | None, event_id: int) -> UpstreamEvent:
    """Lock the source of a type that is received, under this worker's lease or by webhook; return the type.

    Raises LeaseLost.
    """
    row = UpstreamEvent.objects.select_related("connection").filter(pk=event_id).first()
    if row is None or not row.approved or not row.connection.enabled:
        raise LeaseLost
    source = EventSource.objects.filter(pk=row.connection_id)
    # The write waits for any other worker that stores, and the condition is looked at after that.
    if process_id is None:
        is_held = source.update(hour_count=F("hour_count"))
    else:
        until = timezone.now() + timedelta(seconds=LEASE_SECONDS)
        is_held = source.filter(leased_by=process_id).update(leased_until=until)
    if not is_held:
        raise LeaseLost
    row.refresh_from_db()
    if not row.approved:
        raise LeaseLost
    return row


@functools.lru_cache(maxsize=200)
def _validator(schema: str) -> schemas.Validator:
    return schemas.compile(json.loads_stored(schema))


def _read(row: UpstreamEvent, validator: schemas.Validator, entry: Json) -> ReceivedEvent:
    """Check one event against the type that it should be of. Raises NotTaken."""
    if not isinstance(entry, dict):
        raise NotTaken("An event is no object.")
    id_there, data = entry.get("eventId"), entry.get("data")
    if entry.get("name") != row.name_there:
        raise NotTaken(f"An event of another type came: {str(entry.get('name'))[:100]!r}.")
    if not isinstance(id_there, str) or not 0 < len(id_there) <= _LONGEST_ID or not id_there.isprintable():
        raise NotTaken(f"An event has no ID of 1 to {_LONGEST_ID} printable characters.")
    if problem := wrong_data(data):
        raise NotTaken(f"The data of {id_there} {problem}.")
    if validator.may_hold(json.canonical(data)) or not validator.is_valid(data):
        raise NotTaken(f"The data of {id_there} do not fit the approved schema.")
    return ReceivedEvent(id_there, entry["data"], moment(entry.get("timestamp")), entry.get("cursor"))


def wrong_data(data: Json) -> str:
    """Return why data of any event cannot be kept; empty where they can."""
    if not isinstance(data, dict):
        return "are missing or no object"
    try:
        text = json.canonical(data)
    except (ValueError, RecursionError) as error:
        return f"cannot be kept: {error}"
    return f"are larger than {MOST_BYTES} bytes" if len(text.encode()) > MOST_BYTES else ""


def moment(words: Json) -> datetime | None:
    try:
        found = datetime.fromisoformat(words) if isinstance(words, str) and len(words) <= 40 else None
    except ValueError:
        return None
    if found is None or not 1970 <= found.year < 2200:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _same(event: ReceivedEvent, data: dict[str, Json]) -> None:
    """Raise NotTaken where an ID comes again with other contents."""
    if json.canonical(event.data) != json.canonical(data):
        raise NotTaken(f"The event {event.id_there} came again with other data.")


def _known(name: str, batch: Mapping[str, ReceivedEvent]) -> dict[str, dict[str, Json]]:
    """Return the data of those of the batch that are in the log."""
    ids, found = list(batch), dict[str, dict[str, Json]]()
    for start in range(0, len(ids), 500):
        rows = Occurrence.objects.filter(name=name, id_there__in=ids[start : start + 500])
        found.update(rows.values_list("id_there", "facts"))
    return found


def _room(source: EventSource) -> int:
    now = timezone.now()
    if now - source.hour_began_at >= _HOUR:
        source.hour_began_at, source.hour_count, source.paused_until = now, 0, None
    return max(0, MOST_AN_HOUR - source.hour_count)


def _store(row: UpstreamEvent, events: list[ReceivedEvent]) -> None:
    if not events:
        return
    first = EventLog.next_position(len(events))
    workspace = row.connection.workspace
    Occurrence.objects.bulk_create(
        Occurrence(
            position=first + number,
            name=row.name,
            state="happened",
            facts=event.data,
            connection=row.connection.slug,
            workspace="" if workspace is None else workspace.slug,
            id_there=event.id_there,
            dated_there=event.dated,
        )
        for number, event in enumerate(events)
    )


def _place(cursor: Json, before: str) -> str | None:
    """Return a cursor as it is kept; None where it cannot be, and the one before stays."""
    if cursor is None:
        return before
    text = json.dumps(cursor).decode() if isinstance(cursor, str) else ""
    return text if 0 < len(text) <= _LONGEST_CURSOR else None


def purge() -> None:
    """Delete the oldest events of types that have more than are kept."""
    for row in UpstreamEvent.objects.filter(received__gt=MOST_KEPT_OF_TYPE):
        rows = Occurrence.objects.filter(name=row.name).order_by("-position")
        last = rows.values_list("position", flat=True)[MOST_KEPT_OF_TYPE : MOST_KEPT_OF_TYPE + 1].first()
        if last is not None:
            UpstreamEvent.objects.filter(pk=row.pk, removed_upto__lt=last).update(removed_upto=last)
            delete_in_slices(Occurrence.objects.filter(name=row.name, position__lte=last))


def flooding() -> dict[str, dict[str, str]]:
    """Return the upstreams that are left alone because they send too many events, as notices have it."""
    paused = EventSource.objects.filter(paused_until__gt=timezone.now()).select_related("connection")
    return {
        source.connection.slug: {
            "connection": source.connection.slug,
            "count": str(source.hour_count),
            "until": f"{source.paused_until:%H:%M} UTC",
        }
        for source in paused
    }
