"""A child that tries to own its hub gets nothing: files, processes, the network, the kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Hub
from tests.upstreams.attacking import CANARY, attacked, hostile_hub
from tools_catalog.upstream.confinement.machine import this_machine

pytestmark = pytest.mark.skipif(not this_machine().can_confine, reason="This kernel has no Landlock")


@pytest.fixture(scope="module", params=["root", "plain"])
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    with hostile_hub(request.param) as running:
        yield running


def test_a_confined_child_gets_nothing_of_the_hub(hub: Hub) -> None:
    told = attacked(hub, "tight")
    got = {name: what for name, what in told["attacks"].items() if not what.startswith("held")}
    assert got == {}
    assert len(told["attacks"]) > 60


def test_a_confined_child_may_do_its_work(hub: Hub) -> None:
    own = attacked(hub, "working")["own"]
    assert (own["program"], own["script"], own["threads"]) == ("42", "ran ./script.sh", 1)
    assert own["children of the same profile"]
    assert own["core"] == 0
    status = dict(line.split(":\t", 1) for line in own["status"].splitlines() if ":\t" in line)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert int(status["CapBnd"], 16) == 0 or own["user"] != 0


def test_a_child_gets_no_variable_of_the_hub(hub: Hub) -> None:
    own = attacked(hub, "variables", environment={"MINE": "x"})["own"]
    given = set(own["environment"]) - {"LANG", "LC_ALL", "LC_CTYPE", "TZ"}
    assert given == {"PATH", "HOME", "TMPDIR", "MINE", "MCPHUB_UPSTREAM_OF"}
    assert CANARY not in str(own)


def test_an_unconfined_child_gets_it(hub: Hub) -> None:
    """So the attacks are real."""
    names = ["read secret_key", "read encryption_keys", "insert a key", "signal the hub"]
    names += ["set the hub's limit of files", "set the hub's priority", "semaphores", "signal by an open file"]
    names += [f"connect to loopback:{hub.port}", "send a datagram", "list /tmp"]
    told = attacked(hub, "loose", only=names, is_unconfined=True)["attacks"]
    got = {name for name, what in told.items() if what.startswith("got")}
    assert got >= set(names)
