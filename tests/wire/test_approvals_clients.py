"""Calls that wait for a yes, as unmodified clients of several years and all transports see them.

The table in docs/secure/approvals.md has the results. `mcp` 1.9.4 and 1.2.0 know no forms, 1.2.0 shows no progress.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests import operations
from tests.clients import install
from tests.servers import Hub, until
from tests.wire import approving
from tests.wire.conftest import TOOLBOX
from tests.wire.programs import Sdk, inspected, over_http, over_stdio
from tests.wire.sdks import ERAS, SDKS
from tests.wire.toolbox import Box
from tests.wire.waiters import Waiter

pytestmark = pytest.mark.rig

EVERY_WAY = bool(os.environ.get("MCPHUB_TEST_EVERY_WAY"))
WAYS = SDKS if EVERY_WAY else list({(sdk.runtime, sdk.script): sdk for sdk in reversed(SDKS)}.values())
"""One way for each library among the rigs; all 27 with MCPHUB_TEST_EVERY_WAY=1, which takes a quarter of an hour."""
INSPECTED = [*(era for era, _ in ERAS), "stdio"]
YES = {"action": "accept", "content": {"approve": True}}
NO = {"action": "accept", "content": {"approve": False, "reason": "Too early."}}


def hub_of(folder: Any, hold_seconds: str) -> Iterator[Hub]:
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": f"approval_hold_seconds={hold_seconds}"}
    with Hub(folder, environment=environment, **TOOLBOX) as running:
        (running.data / "toolbox").mkdir(exist_ok=True)
        rule = {"name": "own", "effect": "ask", "applies_to": "tool", "target": "hold", "ask_decider": "caller"}
        running.operate(operations.create, "tools_catalog.McpPolicyRule", **rule)
        running.operate(approving.demand, "count")
        running.settle()
        yield running


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    yield from hub_of(tmp_path_factory.mktemp("asking"), "0.2")


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    yield from hub_of(tmp_path_factory.mktemp("holding"), "120")


def asked_about(hub: Hub, name: str) -> str:
    (id_,) = until(lambda: hub.operate(approving.waiting_with, {"name": name}))
    return str(id_)


def is_pending(seen: dict[str, Any], id_: str) -> bool:
    return not seen["isError"] and seen["text"].startswith("Not run yet") and id_ in seen["text"]


@pytest.mark.parametrize("sdk", WAYS, ids=str)
def test_a_client_is_told_pending_and_calls_again(hub: Hub, sdk: Sdk) -> None:
    box, edited = Box(hub), Box(hub)
    with Waiter(hub, sdk) as client:

        def waits(name: str) -> str:
            seen = client.calls("count", {"name": name})
            id_ = asked_about(hub, name)
            assert is_pending(seen, id_), seen
            return id_

        assert hub.operate(approving.decide, waits(box.name), True) == "approved"
        assert client.calls("count", {"name": box.name})["text"] == "call number 1"

        other = {"name": edited.name}
        assert hub.operate(approving.decide, waits(f"{box.name}-e"), True, arguments=other) == "approved"
        assert client.calls("count", {"name": f"{box.name}-e"})["text"] == "call number 1"
        assert edited.times("counted") == 1

        assert hub.operate(approving.decide, waits(f"{box.name}-d"), False, reason="Not today.") == "denied"
        denied = client.calls("count", {"name": f"{box.name}-d"})
        assert denied["isError"]
        assert "Not today." in denied["text"]

        late = waits(f"{box.name}-x")
        hub.operate(approving.let_expire, late)
        assert waits(f"{box.name}-x") != late
    assert box.times("counted") == 1


@pytest.mark.parametrize("sdk", WAYS, ids=str)
def test_a_client_waits_while_its_call_is_held(patient: Hub, sdk: Sdk) -> None:
    box = Box(patient)
    with Waiter(patient, sdk) as client:
        client.sends("count", {"name": box.name})
        id_ = asked_about(patient, box.name)
        if sdk.runtime != "1.2.0":
            assert id_ in client.hears() or sdk.version < "2025-03-26"
        assert not box.has("counted")
        assert patient.operate(approving.decide, id_, True) == "approved"
        seen = client.gets()
        assert seen["text"] == "call number 1"
        client.sends("count", {"name": f"{box.name}-d"})
        patient.operate(approving.decide, asked_about(patient, f"{box.name}-d"), False, reason="Not today.")
        denied = client.gets()
        assert denied["isError"]
        assert "Not today." in denied["text"]


@pytest.mark.parametrize("sdk", WAYS, ids=str)
def test_a_client_s_own_person_is_asked_by_a_form(hub: Hub, sdk: Sdk) -> None:
    boxes = {name: Box(hub) for name in ("yes", "no", "declined", "closed")}
    for box in boxes.values():
        box.release()
    with Waiter(hub, sdk) as client:

        def answers(name: str, answer: dict[str, Any]) -> dict[str, Any]:
            return client.calls("hold", {"name": boxes[name].name}, answer)

        if sdk.runtime in ("1.9.4", "1.2.0"):
            assert answers("yes", YES)["text"].startswith("Not run yet")
            return
        seen = answers("yes", YES)
        assert seen["text"] == f"{boxes['yes'].name} was released"
        assert [boxes["yes"].name in form for form in seen["asked"]] == [True]
        refused = answers("no", NO)
        assert refused["isError"]
        assert "Too early." in refused["text"]
        assert answers("declined", {"action": "decline"})["isError"]
        assert answers("closed", {"action": "cancel"})["text"].startswith("Not run yet")
    assert [name for name, box in boxes.items() if box.has("began")] == ["yes"]


def reached(hub: Hub, way: str) -> list[str]:
    return over_stdio(hub, "modern") if way == "stdio" else over_http(hub, way)


def call_of(tool: str, name: str) -> list[str]:
    return ["--method", "tools/call", "--tool-name", tool, "--tool-arg", f"name={name}"]


@pytest.mark.parametrize("way", INSPECTED)
def test_the_inspector_shows_what_waits_and_what_came_of_it(hub: Hub, way: str) -> None:
    box, edited = Box(hub), Box(hub)

    def calls(name: str, status: int = 0) -> dict[str, Any]:
        return inspected([*reached(hub, way), *call_of("count", name)], status)

    shown = calls(box.name)
    id_ = asked_about(hub, box.name)
    assert id_ in shown["content"][0]["text"]
    assert shown["_meta"]["mcphub/approval"]["status"] == "pending"
    hub.operate(approving.decide, id_, True)
    assert calls(box.name)["content"][0]["text"] == "call number 1"
    calls(f"{box.name}-d")
    hub.operate(approving.decide, asked_about(hub, f"{box.name}-d"), False, reason="Not today.")
    assert "Not today." in calls(f"{box.name}-d", status=5)["content"][0]["text"]
    if way == "stdio":
        return  # each of its calls starts a hub; what follows is the hub's answer, the same on all ways
    calls(f"{box.name}-e")
    hub.operate(approving.decide, asked_about(hub, f"{box.name}-e"), True, arguments={"name": edited.name})
    assert calls(f"{box.name}-e")["content"][0]["text"] == "call number 1"
    assert edited.times("counted") == 1
    calls(f"{box.name}-x")
    late = asked_about(hub, f"{box.name}-x")
    hub.operate(approving.let_expire, late)
    again = calls(f"{box.name}-x")["content"][0]["text"]
    assert again.startswith("Not run yet")
    assert asked_about(hub, f"{box.name}-x") in again
    assert late not in again


@pytest.mark.parametrize("way", INSPECTED)
def test_the_inspector_has_nobody_to_ask(hub: Hub, way: str) -> None:
    box = Box(hub)
    box.release()
    shown = inspected([*reached(hub, way), *call_of("hold", box.name)])
    assert shown["content"][0]["text"].startswith("Not run yet")
    assert not box.has("began")


def test_the_inspector_waits_while_its_call_is_held(patient: Hub) -> None:
    install.needed("node")  # a skip in the other thread would leave this one waiting
    box = Box(patient)
    with ThreadPoolExecutor() as apart:
        shown = apart.submit(inspected, [*reached(patient, "modern"), *call_of("count", box.name)])
        id_ = asked_about(patient, box.name)
        assert not box.has("counted")
        patient.operate(approving.decide, id_, True)
        assert shown.result()["content"][0]["text"] == "call number 1"
