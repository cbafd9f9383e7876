"""What costs nothing before it is used, and what is not there yet."""

from __future__ import annotations

from tests.servers import Hub, until
from tests.upstreams.conftest import Operator, Peer

_LOOK = """
import sys
import mcphub.asgi, mcphub.runtime, tools_catalog.admin, tools_catalog.api_connections
print(sorted(name for name in sys.modules if name in ("mcp", "mcp_types", "tools_catalog.upstream.session")))
"""


def test_the_sdk_is_not_imported_before_a_connection_is_used(upstream_hub: Hub) -> None:
    assert upstream_hub.shell(_LOOK) == "[]"


def test_an_upstream_that_comes_late_is_found(operator: Operator) -> None:
    """What could not be reached when it was added is tried on until its tools are known."""
    with Peer("sdk_v2.py", "http") as peer:
        peer.kill()
        operator.connect("late", url=peer.url)
        assert operator.row("late")["status"] == "error"
        peer.start()
        until(lambda: operator.row("late")["discovered"], 30)
        operator.change("late", enabled=False)
