"""What costs nothing before it is used, and what is not there yet."""

from __future__ import annotations

from tests.servers import Hub, until
from tests.upstreams import imports
from tests.upstreams.conftest import Operator, Peer


def test_no_module_of_the_hub_imports_the_sdk(upstream_hub: Hub) -> None:
    """It judges the hub in its tests, and is no part of it."""
    assert upstream_hub.operate(imports.of_the_sdk) == []


def test_an_upstream_that_comes_late_is_found(operator: Operator) -> None:
    """What could not be reached when it was added is tried on until its tools are known."""
    with Peer("sdk_v2.py", "http") as peer:
        peer.kill()
        operator.connect("late", url=peer.url)
        until(lambda: operator.row("late")["status"] == "error")
        peer.start()
        until(lambda: operator.row("late")["discovered"])
        operator.change("late", enabled=False)
