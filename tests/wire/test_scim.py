"""SCIM as others speak it: the client and the tester of scim2, and what a deactivation ends at the wire."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire import signing_in
from tests.wire.test_keys_of_people import Held, ends_all, held
from tests.wire.toolbox import Box

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
OFF = {
    "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
    "Operations": [{"op": "Replace", "path": "active", "value": "False"}],
}
DEVIATIONS = {
    ("search_with_attributes", "User", ""),  # the tester searches at the root, over people and groups at once
    ("search_with_attributes", "Group", ""),
    ("check_remove_attribute", "User", "active"),  # an account is active or not: there is no third
    ("check_add_attribute", "User", "emails"),  # the one address is always the primary one
    ("check_replace_attribute", "User", "emails"),
}
"""What the tester may find, and why it stays."""


def directory_of(hub: Hub) -> httpx2.Client:
    key = hub.operate(operations.issue_key, f"directory-{uuid.uuid4().hex[:8]}", ["people:write"])
    return httpx2.Client(
        base_url=f"{hub.url}/scim/v2", headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS
    )


@pytest.fixture(params=["hub", "pair"])
def each(request: pytest.FixtureRequest) -> Hub:
    """One process on SQLite, then two on PostgreSQL."""
    served: Hub = request.getfixturevalue(request.param)
    return served


@pytest.fixture
def directory(each: Hub) -> Iterator[httpx2.Client]:
    with directory_of(each) as client:
        for _often_enough_to_meet_both_workers in range(6):  # each reads the library when a directory first comes
            client.get("/ServiceProviderConfig", timeout=PATIENCE_SECONDS).raise_for_status()
        yield client
    each.settle()  # no news of these people and groups is told on a stream of the next test


def test_the_tester_of_scim2_finds_nothing_but_what_is_meant(directory: httpx2.Client) -> None:
    from scim2_client.engines.httpx2 import SyncSCIMClient  # the import takes a second of a core
    from scim2_tester import Status, check_server

    results = check_server(SyncSCIMClient(directory))
    amiss = [result for result in results if result.status not in (Status.SUCCESS, Status.SKIPPED)]
    found = {(each.title, each.resource_type or "", _attribute(each.data)): each.reason for each in amiss}
    assert {name: reason for name, reason in found.items() if name not in DEVIATIONS} == {}
    assert len(results) > 20


def _attribute(data: Any) -> str:
    return str(data.get("urn", "")) if isinstance(data, dict) else ""


def test_a_deactivation_ends_what_is_open_in_time(each: Hub, directory: httpx2.Client) -> None:
    def deactivate(hub: Hub, anna: Held) -> None:
        answer = directory.patch(f"/Users/{anna.user}", json=OFF)
        assert (answer.status_code, answer.json()["active"]) == (200, False)

    for anna in held(each):
        ends_all(each, anna, Box(each), deactivate)


def test_a_deactivation_ends_tokens_and_logins(each: Hub, directory: httpx2.Client) -> None:
    name = f"ada-{uuid.uuid4().hex[:8]}"
    with signing_in.Person(each, name) as person, signing_in.Client(each) as client:
        tokens = client.sign_in(person)
        headers = {"authorization": f"Bearer {tokens['access_token']}", "accept": "application/json, text/event-stream"}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert httpx2.post(f"{each.url}/mcp", json=ping, headers=headers, timeout=PATIENCE_SECONDS).status_code != 401
        assert person.asked("/me/").status_code == 200
        assert directory.patch(f"/Users/{person.id}", json=OFF).status_code == 200

        def is_out() -> bool:
            return (
                httpx2.post(f"{each.url}/mcp", json=ping, headers=headers, timeout=PATIENCE_SECONDS).status_code == 401
            )

        until(is_out)
        assert client.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
        assert person.asked("/me/").status_code == 302


def test_of_many_requests_for_one_name_one_makes_the_account(each: Hub, directory: httpx2.Client) -> None:
    body = {"schemas": [USER], "userName": f"once-{uuid.uuid4().hex[:8]}"}
    with ThreadPoolExecutor(6) as crowd:
        seen = sorted(crowd.map(lambda _: directory.post("/Users", json=body).status_code, range(6)))
    assert seen == [201, 409, 409, 409, 409, 409]
