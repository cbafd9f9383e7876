"""Sessions through their store: opened within bounds, found by their owner alone, ended once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from sessions_app import bus, store
from sessions_app.caller import Caller
from sessions_app.models import BusEvent, McpSession
from sessions_app.protocol.errors import AlreadyInitialized, ServerBusy, SessionNotFound
from sessions_app.protocol.lifecycle import SessionEvent

pytestmark = pytest.mark.usefixtures("transactional_db")

CLIENT = {"client_name": "cli\x00ent", "client_version": "1" * 200, "client_capabilities": {"roots": {}}}
HTTP = "streamable-http"


def caller(name="key:1"):
    return Caller(principal=name, label=name, scopes=frozenset())


@pytest.fixture
def sessions(settings):
    settings.MCPHUB_LEDGER_TIMEOUT_SECONDS = 20  # a loaded machine may take seconds for a commit
    return store.Sessions()


def opened(sessions, who=None, **client):
    client = client or {**CLIENT, "protocol_version": "2025-11-25"}
    return async_to_sync(sessions.open)(who or caller(), HTTP, **client)


def find(sessions, view, who=None, transport=HTTP):
    return async_to_sync(sessions.find)(view.session_id, who or caller(), transport)


def test_opened_session_is_initialized_and_holds_what_the_client_said(sessions):
    view = opened(sessions)
    row = McpSession.objects.get()
    assert (row.state, row.session_id, row.principal) == ("initialized", view.session_id, "key:1")
    assert (row.client_name, len(row.client_version)) == ("client", 100)
    assert view.client_capabilities == row.client_capabilities == {"roots": {}}
    assert view.initialized
    assert row.initialized_at is not None
    assert row.expires_at > row.created_at


def test_session_opened_before_initialize_is_initialized_once(sessions):
    view = async_to_sync(sessions.open)(caller(), "sse")
    assert not view.initialized
    again = async_to_sync(sessions.initialize)(view.session_id, **CLIENT, protocol_version="2025-11-25")
    assert (again.initialized, again.protocol_version) == (True, "2025-11-25")
    assert McpSession.objects.get().state == "initialized"
    for session_id, error in ((view.session_id, AlreadyInitialized), ("nobody", SessionNotFound)):
        with pytest.raises(error):
            async_to_sync(sessions.initialize)(session_id, protocol_version="2025-11-25")
    assert BusEvent.objects.filter(subject=bus.SESSION_CHANGED, payload=view.session_id).exists()


@pytest.mark.parametrize("known", [True, False], ids=["from the view", "from the row"])
def test_session_is_found_by_its_owner_over_its_transport_alone(sessions, known):
    view = opened(sessions)
    if not known:
        sessions.forget(view.session_id)
    assert find(sessions, view) == view
    for who, transport in ((caller("key:2"), HTTP), (caller(), "sse")):
        if not known:
            sessions.forget(view.session_id)
        with pytest.raises(SessionNotFound):
            find(sessions, view, who, transport)


@pytest.mark.parametrize("session_id", ["", "nobody", "x" * 65, "a\x00b"])
def test_session_that_is_none_is_not_found(sessions, session_id):
    with pytest.raises(SessionNotFound):
        async_to_sync(sessions.find)(session_id, caller(), HTTP)


def test_session_over_its_time_is_not_found_even_before_the_sweep(sessions):
    view = opened(sessions)
    McpSession.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    sessions.forget(view.session_id)
    with pytest.raises(SessionNotFound):
        find(sessions, view)


def test_session_ends_once_and_is_announced(sessions):
    view = opened(sessions)
    assert async_to_sync(sessions.end)(view.session_id, SessionEvent.CLOSE, "r" * 200) is True
    assert async_to_sync(sessions.end)(view.session_id) is False
    row = McpSession.objects.get()
    assert (row.state, len(row.end_reason), row.ended_at is not None) == ("closed", 100, True)
    assert BusEvent.objects.filter(subject=bus.SESSION_ENDED).count() == 1
    with pytest.raises(SessionNotFound):
        find(sessions, view)


def test_caller_at_its_bound_loses_the_session_it_used_least_recently(sessions, settings):
    settings.MCPHUB_MAX_SESSIONS_PER_CALLER = 2
    first, second = opened(sessions), opened(sessions)
    other = opened(sessions, caller("key:2"))
    McpSession.objects.filter(pk=first.session_id).update(last_activity_at=timezone.now() + timedelta(hours=1))
    third = opened(sessions)
    live = set(McpSession.objects.filter(state="initialized").values_list("pk", flat=True))
    assert live == {first.session_id, third.session_id, other.session_id}
    assert McpSession.objects.get(pk=second.session_id).state == "expired"


def test_sessions_wanted_at_once_are_opened_together_and_bounds_hold_among_them(sessions, settings):
    settings.MCPHUB_MAX_SESSIONS_PER_CALLER = 3

    async def crowd():
        return await asyncio.gather(*(sessions.open(caller(), HTTP, **CLIENT) for _ in range(10)))

    views = async_to_sync(crowd)()
    assert len({view.session_id for view in views}) == 10
    live = McpSession.objects.filter(ended_at__isnull=True)
    assert (live.count(), McpSession.objects.count()) == (3, 10)


def test_session_that_cannot_be_written_does_not_keep_others_of_its_moment_from_opening(sessions):
    async def crowd():
        spoilt = {**CLIENT, "client_name": "\ud800"}
        wanted = [CLIENT, spoilt, CLIENT]
        return await asyncio.gather(
            *(sessions.open(caller(), HTTP, **client) for client in wanted), return_exceptions=True
        )

    first, second, third = async_to_sync(crowd)()
    assert isinstance(second, Exception)
    assert set(McpSession.objects.values_list("pk", flat=True)) == {first.session_id, third.session_id}


def test_hub_at_its_bound_is_busy_for_newcomers(sessions, settings):
    settings.MCPHUB_MAX_SESSIONS = 1
    opened(sessions)
    with pytest.raises(ServerBusy) as caught:
        opened(sessions, caller("key:2"))
    assert caught.value.retry_after_seconds
    assert McpSession.objects.count() == 1


def test_idle_sessions_expire_a_few_at_a_time(sessions):
    for _ in range(3):
        opened(sessions)
    fresh = opened(sessions, caller("key:2"))
    McpSession.objects.exclude(pk=fresh.session_id).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert [store.sweep(limit=2), store.sweep(limit=2), store.sweep(limit=2)] == [2, 1, 0]
    assert McpSession.objects.filter(state="expired", end_reason="idle").count() == 3


def test_log_level_is_kept_and_told_to_the_other_processes(sessions):
    view = opened(sessions)
    async_to_sync(sessions.set_log_level)(view.session_id, "debug")
    assert find(sessions, view).log_level == "debug"
    assert BusEvent.objects.filter(subject=bus.SESSION_CHANGED).count() == 1


def test_stateless_caller_and_program_share_one_row(sessions):
    implicit = async_to_sync(sessions.implicit)
    who = caller()
    ids = [implicit(who, transport=HTTP, client_name=name, client_version="1") for name in ("a", "a", "b")]
    ids.append(implicit(caller(), transport=HTTP, client_name="a", client_version="1"))
    ids.append(implicit(caller("key:2"), transport=HTTP, client_name="a", client_version="1"))
    assert ids[0] == ids[1] == ids[3]
    assert len(set(ids)) == 3 == McpSession.objects.filter(is_implicit=True).count()
    with pytest.raises(SessionNotFound):
        async_to_sync(sessions.find)(ids[0], who, HTTP)


@pytest.mark.slow
def test_caller_with_countless_program_names_gets_a_bounded_number_of_rows(sessions):
    who = caller()
    for number in range(store._IMPLICIT_PER_CALLER + 20):
        async_to_sync(sessions.implicit)(who, transport=HTTP, client_name=f"program {number}")
    assert McpSession.objects.count() == store._IMPLICIT_PER_CALLER + 1


def test_stateless_caller_whose_row_expired_gets_a_new_one(sessions):
    """The id is remembered in the process; a call must not be recorded under a session that has ended."""
    who = caller()
    first = async_to_sync(sessions.implicit)(who, transport=HTTP, client_name="a")
    store.end([first], SessionEvent.EXPIRE, "idle")
    sessions.forget(first)
    assert async_to_sync(sessions.implicit)(who, transport=HTTP, client_name="a") != first


def test_activity_of_implicit_sessions_is_written_from_time_to_time(sessions):
    session_id = async_to_sync(sessions.implicit)(caller(), transport=HTTP)
    before = McpSession.objects.get().last_activity_at
    store.touch([session_id])
    assert McpSession.objects.get().last_activity_at > before


def test_views_are_bounded(sessions):
    view = opened(sessions)
    for number in range(store._KEPT_VIEWS):
        sessions._keep(store.SessionView.of(McpSession(session_id=str(number), state="initialized")))
    assert view.session_id not in sessions._views
    assert find(sessions, view) == view
