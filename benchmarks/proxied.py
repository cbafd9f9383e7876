"""A call that goes on to another server: what the hub adds to it, beside what FastMCP's proxy adds.

The upstream is the Python SDK's low-level server. It has core 0 for itself, whoever calls it; hub, proxy and client
share core 1. Hub minus direct, and hub over direct, are of one round. All is measured twice: by a client that does
nothing but send bytes and compare the answer, and by the official one, which is what a direct call costs its users.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.calls import Place
from benchmarks.measuring import Bench, Rounds
from benchmarks.servers import CLIENT_CORE, PEERS, Failed, Server, an_answer, hub, peer, ratios
from tests.clients import install

_PATIENCE_SECONDS = 60
_RAW, _OFFICIAL = "benchmarks.load", "benchmarks.official"
_CLIENTS = {_RAW: "", _OFFICIAL: ", official client"}
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
        ours = running.enter_context(hub("hub", where, core=CLIENT_CORE, tool="up_add"))
        _await_tool(ours)
        fast = running.enter_context(
            peer("FastMCP proxy", place.python.fast, "proxy.py", place.folder, "--upstream", url, core=CLIENT_CORE)
        )
        for program, who in _CLIENTS.items():
            for clients in (1, 32):
                _compare(bench, f"{part}{who}", (upstream, ours, fast), clients, program)
    ways(bench, place)


@dataclass(frozen=True)
class Way:
    """One way to an upstream. `stdio` has no address, and is started by the hub."""

    name: str
    script: str
    words: tuple[str, ...]
    transport: str = "streamable-http"
    path: str = "/mcp"
    era: str = ""
    """In which the bench's own client calls it directly; the official one does where this is empty."""


WAYS = (
    Way("bare, stateless", "upstream.py", ("stateless",), era="stateless"),
    Way("bare, sessions", "upstream.py", ("sessions",), era="handshake"),
    Way("bare, HTTP+SSE", "upstream.py", ("sse",), "sse", "/sse"),
    Way("bare, stdio", "upstream.py", ("stdio",), "stdio"),
    Way("SDK 1.30, sessions", "sdk_v1.py", ("streamable-http",)),
    Way("SDK 1.30, HTTP+SSE", "sdk_v1.py", ("sse",), "sse", "/sse"),
    Way("SDK 1.30, stdio", "sdk_v1.py", ("stdio",), "stdio"),
)
_WAY = """
import json
from tools_catalog.models import LaunchProfile, McpConnection
words = json.loads({words!r})
if profile := words.pop("profile", None):
    words["profile"], _ = LaunchProfile.objects.get_or_create(name=profile["name"], defaults=profile)
row = McpConnection(policy="trust", starts_eagerly=True, **words)
row.full_clean()
row.save()
"""

_GRANTED = """
from tools_catalog.bindings import origin_of
from tools_catalog.models import McpConnection, UpstreamAccount
row = McpConnection(policy="trust", starts_eagerly=True, slug="granted", transport="streamable-http", url={url!r})
row.account = "shared"
row.full_clean()
row.save()
account = UpstreamAccount(connection=row, state="connected", server=origin_of(row.url), kind="shared")
account.access = account.sealed("access", "a" * 40)
account.save()
"""
"""An account for all callers, whose token lasts: the least upstream asks for none, and takes any."""


def granted(bench: Bench, place: Place) -> None:
    """What a valid grant adds to a proxied call: the same call with and without one, in turns, through one hub."""
    part = "granted"
    where = place.hub(part)
    where.settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    with contextlib.ExitStack() as running:
        upstream = running.enter_context(peer("least", place.python.hub, "upstream.py", place.folder, "stateless"))
        url = f"http://127.0.0.1:{upstream.port}/mcp"
        words = {"slug": "open", "transport": "streamable-http", "url": url}
        where.command("shell", "-c", _WAY.format(words=json.dumps(words)))
        where.command("shell", "-c", _GRANTED.format(url=url))
        ours = running.enter_context(hub("hub", where, core=CLIENT_CORE))
        without, with_one = (ours.with_tool(name, f"{name}_add") for name in ("open", "granted"))
        for each in (without, with_one):
            _await_tool(each)
        for clients in (1, 32):
            found = bench.turns(part, [without, with_one], clients)
            bench.compare(part, f"with a grant / without, {clients} client(s)", found["granted"], found["open"], 0.95)


def ways(bench: Bench, place: Place, *, beside: bool = True) -> None:
    """What a call costs in the hub on each way to an upstream; `beside` FastMCP's proxy, where that has one."""
    old = install.python("1.30.0")
    assert old is not None
    where = place.hub("ways")
    where.settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    with contextlib.ExitStack() as running:
        proxies: dict[str, Server] = {}
        upstreams: dict[str, Server] = {}
        for number, way in enumerate(WAYS):
            python = old if way.script == "sdk_v1.py" else place.python.hub
            slug = f"way{number}"
            words: dict[str, Any] = {"slug": slug, "transport": way.transport}
            if way.transport == "stdio":
                command = [str(PEERS / way.script), *way.words]
                words["profile"] = {"name": slug, "command": str(python), "arguments": command}
            else:
                upstream = running.enter_context(
                    peer(way.name, python, way.script, place.folder, *way.words, deleted=202)
                )
                upstreams[way.name] = upstream.in_era("direct", way.era)
                words["url"] = f"http://127.0.0.1:{upstream.port}{way.path}"
                flags = ("--upstream", words["url"])
                if beside:
                    proxies[way.name] = running.enter_context(
                        peer(f"FastMCP {slug}", place.python.fast, "proxy.py", place.folder, *flags, core=CLIENT_CORE)
                    )
            where.command("shell", "-c", _WAY.format(words=json.dumps(words)))
        ours = running.enter_context(hub("hub", where, core=CLIENT_CORE))
        for number, way in enumerate(WAYS):
            through = ours.with_tool("hub", f"way{number}.add")
            _await_tool(through)
            _cost(bench, way, through, proxies.get(way.name))
            if way.name in upstreams:
                _directly(bench, way, upstreams[way.name], through)


def _directly(bench: Bench, way: Way, upstream: Server, ours: Server) -> None:
    """Compare the rate with that of direct calls by the same client, which shares its core with the hub.

    A bare upstream does next to nothing, and has a core for itself: that ratio has no goal.
    """
    program, more = (_RAW, {}) if way.era else (_OFFICIAL, {"transport": way.transport})
    part, who = f"way: {way.name}{_CLIENTS[program]}", f"32 clients{_CLIENTS[program]}"
    direct = bench.turns(part, [upstream], 32, program=program, **more)[upstream.name]
    through = bench.turns(part, [ours], 32, program=program)[ours.name]
    bench.compare("ways", f"{way.name}: hub / direct, {who}", through, direct, None if way.era else 0.8)


def _cost(bench: Bench, way: Way, ours: Server, beside: Server | None) -> None:
    part = f"way: {way.name}"
    found = bench.turns(part, [ours], 32, without=f"peers/{way.script}")[ours.name]
    costs = [one["server_us_per_call"] / 1000 for one in found]
    bench.limit("ways", f"{way.name}: processor time in the hub, 32 clients", costs, 0.25, "ms")
    if beside is None:
        return
    try:
        other = bench.turns(part, [beside], 32)[beside.name]
    except Failed as error:
        bench.notes.append(f"{way.name}: FastMCP's proxy did not bear 32 clients: {str(error).splitlines()[0]}")
        return
    bench.compare("ways", f"{way.name}: hub / FastMCP proxy, 32 clients", found, other)


def _compare(bench: Bench, part: str, servers: tuple[Server, Server, Server], clients: int, program: str) -> None:
    upstream, ours, fast = servers
    found = bench.turns(part, servers, clients, program=program)
    many = f"{clients} client{'s' if clients > 1 else ''}"
    direct = found[upstream.name]
    is_raw = program == _RAW
    for proxy, added, share in ((ours, 1.5, 0.8), (fast, None, None)):
        through = found[proxy.name]
        bench.limit(
            part,
            f"{proxy.name} minus direct, median, {many}",
            _added(through, direct),
            added if clients == 1 and is_raw else None,
            "ms",
        )
        bench.limit(
            part,
            f"{proxy.name} adds so many times what direct takes, {many}",
            ratios(_added(through, direct), [one["p50_ms"] for one in direct]),
            1 if proxy is ours else None,
            "",
        )
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
