"""A call that goes on to another server: what the hub adds to it, beside what FastMCP's proxy adds.

The upstream is the Python SDK's low-level server. It has core 0 for itself, whoever calls it; hub, proxy and client
share core 1. Hub minus direct, and hub over direct, are of one round. All is measured twice: by a client that does
nothing but send bytes and compare the answer, and by the official one, which is what a direct call costs its users.
"""

from __future__ import annotations

import contextlib
import time

from benchmarks.calls import Place
from benchmarks.measuring import Bench, Rounds
from benchmarks.servers import CLIENT_CORE, Failed, Server, an_answer, hub, peer, ratios

_PATIENCE_SECONDS = 60
_RAW = "benchmarks.load"
_CLIENTS = {_RAW: "", "benchmarks.official": ", official client"}
CONNECT = """
from tools_catalog.models import McpConnection
row, _ = McpConnection.objects.get_or_create(slug="up", defaults={{"transport": "streamable-http", "url": {url!r}}})
row.policy, row.url, row.starts_eagerly = "trust", {url!r}, True
row.full_clean()
row.save()
"""


def proxied(bench: Bench, place: Place) -> None:
    part = "proxied"
    with contextlib.ExitStack() as running:
        upstream = running.enter_context(peer("direct", place.python.sdk, "sdk.py", place.folder))
        url = f"http://127.0.0.1:{upstream.port}/mcp"
        where = place.hub("proxied")
        where.settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
        where.command("shell", "-c", CONNECT.format(url=url))
        ours = running.enter_context(hub("hub", where, core=CLIENT_CORE, tool="up.add"))
        _await_tool(ours)
        fast = running.enter_context(
            peer("FastMCP proxy", place.python.fast, "proxy.py", place.folder, "--upstream", url, core=CLIENT_CORE)
        )
        for program, who in _CLIENTS.items():
            for clients in (1, 32):
                _compare(bench, f"{part}{who}", (upstream, ours, fast), clients, program)


def _compare(bench: Bench, part: str, servers: tuple[Server, Server, Server], clients: int, program: str) -> None:
    upstream, ours, fast = servers
    found = bench.turns(part, servers, clients, program=program)
    many = f"{clients} client{'s' if clients > 1 else ''}"
    direct = found[upstream.name]
    is_raw = program == _RAW
    for proxy, added, share in ((ours, 1.5, 0.8), (fast, None, None)):
        through = found[proxy.name]
        bench.limit(
            part, f"{proxy.name} minus direct, median, {many}", _added(through, direct),
            added if clients == 1 and is_raw else None, "ms",
        )  # fmt: skip
        bench.limit(
            part, f"{proxy.name} adds so many times what direct takes, {many}",
            ratios(_added(through, direct), [one["p50_ms"] for one in direct]), 1 if proxy is ours else None, "",
        )  # fmt: skip
        bench.compare(
            part, f"{proxy.name} / direct, {many}", through, direct, share if clients > 1 and is_raw else None
        )
    bench.compare(part, f"hub / FastMCP proxy, {many}", found[ours.name], found[fast.name])
    beside = ratios(_added(found[fast.name], direct), _added(found[ours.name], direct))
    bench.limit(part, f"FastMCP proxy adds so many times what the hub adds, {many}", beside, None, "")


def _added(through: Rounds, direct: Rounds) -> list[float]:
    return [max(1e-3, one["p50_ms"] - other["p50_ms"]) for one, other in zip(through, direct, strict=True)]


def _await_tool(server: Server) -> None:
    """Wait until the hub knows the upstream's tool."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if server.tool.encode() in an_answer(server, 1, method="tools/list"):
            return
        time.sleep(0.2)
    raise Failed("The hub did not learn the upstream's tools.")
