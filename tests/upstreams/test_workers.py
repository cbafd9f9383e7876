"""Two workers on PostgreSQL: each holds its own connections, and what one learns the other serves."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
import pytest

from tests import servers
from tests.servers import Hub, postgres_database, until
from tests.upstreams.conftest import PEERS, Operator, Peer
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker
from tests.wire.workers import attempts

pytestmark = pytest.mark.rig


def test_either_worker_reaches_every_upstream(tmp_path: Path) -> None:
    try:
        psycopg.connect(f"{servers.POSTGRES}/postgres", connect_timeout=PATIENCE_SECONDS).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"No PostgreSQL to make databases on (MCPHUB_TEST_POSTGRES): {error}")
    profile = {"name": "kid", "command": sys.executable, "arguments": [str(PEERS / "chaos.py"), "stdio"]}
    with postgres_database() as address, Peer("sdk_v2.py", "http") as peer:
        environment = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1", "MCPHUB_DATABASE_URL": address}
        with Hub(tmp_path / "hub", flags=["--workers", "2"], environment=environment) as hub:
            operator = Operator(hub)
            operator.connect("up", url=peer.url, starts_eagerly=True, policy="hold_changes")
            operator.connect("kid", transport="stdio", profile=profile)
            until(lambda: operator.row("up")["links"] == 2)
            assert set(operator.row("up")["states"].values()) == {"approved"}
            key = hub.command("token", "create", "worker").split()[-1]
            for number in attempts(hub, tool="up.echo"):
                with Speaker(hub.url, key) as speaker:
                    until(lambda: "kid.echo" in speaker.modern("tools/list").text)
                    for tool, arguments in (("up.echo", {"text": str(number)}), ("kid.echo", {})):
                        answer = speaker.modern_call(tool, arguments).json()
                        assert answer["result"].get("isError") is not True, answer
            until(lambda: operator.row("kid")["links"] == 2)
            operator.change("up", prefix="up_")
            for number in attempts(hub, tool="up_echo"):
                with Speaker(hub.url, key) as speaker:
                    until(lambda: '"up_echo"' in speaker.modern("tools/list").text)
                    for tool in ("up.echo", "up_echo"):
                        answer = speaker.modern_call(tool, {"text": f"renamed {number}"}).json()
                        assert answer["result"].get("isError") is not True, answer
                assert {row["tool_name"] for row in hub.rows(limit=2)} == {"up_echo"}
