"""Places of the remote profile, shared by callers."""

from __future__ import annotations

import pytest
from django.conf import LazySettings

from mcphub.features.remote_profile import connections as remote
from sessions_app.caller import Caller
from sessions_app.models import McpSession, RemoteConnection
from sessions_app.protocol.errors import ServerBusy
from sessions_app.store import SessionView

pytestmark = pytest.mark.django_db

PROCESS = "a" * 32


def opened(number: int) -> SessionView:
    caller = Caller(principal=f"key:{number}", label=f"key {number}", scopes=frozenset())
    return remote.open(caller, PROCESS, lambda process_id: False)


@pytest.fixture(autouse=True)
def three_places(settings: LazySettings) -> None:
    settings.MCPHUB_MAX_CLIENTS = 3


def test_a_caller_without_a_place_gets_the_one_that_was_idle_longest_of_who_has_most() -> None:
    first, second, third = opened(1), opened(1), opened(1)
    fourth = opened(2)
    assert set(RemoteConnection.objects.values_list("pk", flat=True)) == {
        second.session_id,
        third.session_id,
        fourth.session_id,
    }
    ended = McpSession.objects.get(pk=first.session_id)
    assert (ended.state, ended.end_reason) == ("closed", "its place went to another caller")


def test_a_caller_who_has_as_many_places_as_others_is_refused() -> None:
    opened(1), opened(1), opened(2)
    for number in (1, 2):
        with pytest.raises(ServerBusy):
            opened(number)
    assert RemoteConnection.objects.count() == 3


def test_a_connection_with_a_request_under_way_keeps_its_place() -> None:
    busy = [opened(1), opened(1), opened(1)]
    for view in busy:
        assert remote.claim(view.session_id, "1", "tools/call")
    with pytest.raises(ServerBusy):
        opened(2)
    remote.release(busy[2].session_id, "1")
    opened(2)
    assert not RemoteConnection.objects.filter(pk=busy[2].session_id).exists()
