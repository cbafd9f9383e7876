"""Sessions, keys, processes and buckets: the rules that hold in the database, for raw SQL too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone

from sessions_app.models import ApiKey, BusEvent, McpSession, RateLimitBucket, ServerProcess
from tests.factories import McpSessionFactory, ServerProcessFactory

pytestmark = pytest.mark.django_db


def change(row, **columns):
    """Update columns by raw SQL."""
    words = ", ".join(f"{column} = %s" for column in columns)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {row._meta.db_table} SET {words} WHERE {row._meta.pk.column} = %s", [*columns.values(), row.pk]
        )


def test_a_session_does_not_begin_in_the_future():
    tomorrow = timezone.now() + timedelta(days=1)
    with pytest.raises(IntegrityError, match="does not begin in the future"), transaction.atomic():
        McpSessionFactory(created_at=tomorrow)
    with pytest.raises(IntegrityError, match="does not begin in the future"), transaction.atomic():
        McpSession.objects.bulk_create([McpSessionFactory.build(created_at=tomorrow)])
    row = McpSessionFactory(created_at=timezone.now() + timedelta(seconds=30))  # clocks differ
    with pytest.raises(IntegrityError, match="does not begin in the future"):
        change(row, created_at=tomorrow, last_activity_at=tomorrow)


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "asleep"},
        {"transport": ""},
        {"session_id": ""},
        {"initialized_at": None},
        {"state": "closed"},
        {"ended_at": datetime(2020, 1, 1, tzinfo=UTC)},
        {"principal": None},
    ],
)
def test_session_keeps_to_the_rules(columns):
    with pytest.raises(IntegrityError):
        change(McpSessionFactory(), **columns)


def test_session_is_not_active_before_it_was_made():
    row = McpSessionFactory()
    with pytest.raises(IntegrityError):
        change(row, last_activity_at=row.created_at - timedelta(seconds=1))


def test_session_id_is_unique():
    with pytest.raises(IntegrityError), transaction.atomic():
        McpSession.objects.create(session_id=McpSessionFactory().session_id, transport="sse", principal="x")


@pytest.mark.parametrize("end", ["closed", "expired"])
@pytest.mark.parametrize("back", ["created", "initialized", "closed", "expired"])
def test_ended_session_stays_ended_whatever_is_written(end, back):
    """The trigger refuses; the check of `ended_at` alone would let a session come back with both columns changed."""
    row = McpSessionFactory(state=end, ended_at=timezone.now())
    if back == end:
        change(row, state=back)
        return
    ended = row.ended_at if back in ("closed", "expired") else None
    with pytest.raises(DatabaseError):
        change(row, state=back, ended_at=ended)
    row.refresh_from_db()
    assert row.state == end


def test_live_session_may_be_initialized_and_ended():
    row = McpSessionFactory(state="created", initialized_at=None)
    change(row, state="initialized", initialized_at=timezone.now())
    change(row, state="expired", ended_at=timezone.now())


def test_one_live_implicit_session_stands_for_a_caller():
    McpSessionFactory(state="created", implicit_key="k", is_implicit=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        McpSessionFactory(state="created", implicit_key="k", is_implicit=True)
    change(McpSession.objects.get(), state="expired", ended_at=timezone.now())
    McpSessionFactory(state="created", implicit_key="k", is_implicit=True)


def test_operator_ends_sessions_once_and_every_process_is_told():
    live, ended = McpSessionFactory(), McpSessionFactory(state="closed", ended_at=timezone.now())
    assert McpSession.objects.all().close("because") == 1
    assert McpSession.objects.all().close("again") == 0
    live.refresh_from_db()
    assert (live.state, live.end_reason, live.ended_at is not None) == ("closed", "because", True)
    events = BusEvent.objects.filter(subject="session_ended").values_list("payload", flat=True)
    assert live.session_id in events
    assert ended.session_id not in events


@pytest.mark.parametrize("columns", [{"status": "asleep"}, {"version": "one"}, {"pid": None}])
def test_process_keeps_to_the_rules(columns):
    with pytest.raises(IntegrityError):
        change(ServerProcessFactory(), **columns)


STEPS = {("stopped", "starting"), ("starting", "running"), ("running", "stopping"), ("stopping", "stopped")}
STATES = ["stopped", "starting", "running", "stopping", "error"]


@pytest.mark.parametrize("after", STATES)
@pytest.mark.parametrize("before", STATES)
def test_a_process_takes_the_steps_of_its_life_and_no_others(before, after):
    row = ServerProcessFactory(status=before)
    if before == after or (before, after) in STEPS or (after == "error" and before != "error"):
        change(row, status=after)
    else:
        with pytest.raises(IntegrityError):
            change(row, status=after)


def test_a_process_serves_each_transport_once():
    process = ServerProcessFactory()
    process.transports.create(type="sse")
    with pytest.raises(IntegrityError), transaction.atomic():
        process.transports.create(type="sse")
    with pytest.raises(IntegrityError):
        change(process.transports.get(), last_error="without a time")


def test_a_process_has_an_id_of_its_own():
    row = ServerProcess.objects.create(process_id="one", version="0.1.0", host="host", pid=1)
    assert row.status == "starting"
    with pytest.raises(IntegrityError), transaction.atomic():
        ServerProcess.objects.create(process_id="one", version="0.1.0", host="other", pid=2)


@pytest.mark.parametrize(
    "columns", [{"tokens": -10.1}, {"tokens": 11}, {"refill_per_second": 0}, {"refill_per_second": -1}]
)
def test_bucket_keeps_to_the_rules(columns):
    row = RateLimitBucket.objects.create(
        client_id="c", tokens=5, capacity=10, refill_per_second=1, last_refill=timezone.now()
    )
    with pytest.raises(IntegrityError):
        change(row, **columns)


def test_key_is_told_once_and_kept_as_a_digest():
    key, token = ApiKey.issue("machine", scopes=["tools:list"])
    assert token.startswith(f"{key.prefix}_")
    assert key.secret_hash == ApiKey.hash(token)
    assert token not in str(ApiKey.objects.values().get())
    assert key.scopes == ["tools:list"]


def test_rotated_key_has_a_new_text_and_the_old_one_is_dead():
    key, token = ApiKey.issue("machine")
    new = key.rotate()
    key.refresh_from_db()
    assert ApiKey.hash(new) == key.secret_hash != ApiKey.hash(token)


def test_key_with_an_unknown_scope_is_refused():
    with pytest.raises(ValidationError):
        ApiKey.issue("machine", scopes=["everything"])


def test_key_is_usable_until_it_expires_or_is_revoked():
    now = timezone.now()
    assert ApiKey().is_usable()
    assert not ApiKey(expires_at=now).is_usable(now)
    assert ApiKey(expires_at=now + timedelta(1)).is_usable(now)
    assert not ApiKey(revoked_at=now).is_usable(now)
    key, _ = ApiKey.issue("machine")
    assert (ApiKey.objects.all().revoke("lost"), ApiKey.objects.all().revoke("again")) == (1, 0)
    key.refresh_from_db()
    assert not key.is_usable()


def test_rows_say_who_they_are():
    assert "machine" in str(ApiKey(name="machine", prefix="mcph_1"))
    assert str(ServerProcessFactory()) == "host:4242"
    assert "client" in str(McpSessionFactory())
    assert str(RateLimitBucket(client_id="c")) == "c"
    assert str(BusEvent(id=1, subject="x")) == "1 x"
