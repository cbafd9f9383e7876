"""Chat completions beside the provider asked directly: what it adds to the first word, and what streams cost to hold.

The provider is the scripted one of the tests. It and the client share core 1; the hub has core 0 for itself.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median
from typing import Any

from benchmarks import processes
from benchmarks.calls import Place
from benchmarks.environments import ROOT
from benchmarks.measuring import Bench, say
from benchmarks.servers import CLIENT_CORE, Failed, client, hub, pinning, stop
from tests.features.chat.script import say as answer
from tests.features.chat.script import script

_STREAMS = 200
_PAUSE_MS = 50
"""Between two words: 20 a second."""
_SET_UP = """
from mcphub.features.chat.models import ChatModel, ChatProvider
from sessions_app.models import ApiKey
row = ChatProvider(slug="up", kind="compatible", base_url={url!r}, idle_seconds=120)
row.full_clean()
row.save()
ChatModel(provider=row, name="scripted", is_default=True).save()
print(ApiKey.issue("chat", scopes=["chat"])[1])
"""


def chat(bench: Bench, place: Place) -> None:
    part = "chat"
    provider = subprocess.Popen(
        [sys.executable, "-m", "tests.features.chat.provider"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=pinning(CLIENT_CORE),
    )
    try:
        assert provider.stdout is not None
        url = provider.stdout.readline().split()[1]
        where = place.hub("chat")
        where.settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1", "MCPHUB_LIMITS": "chat_burst=0"}
        key = where.command("shell", "-c", _SET_UP.format(url=url)).split()[-1]
        with hub("hub", where) as server:
            direct = {"port": int(url.split(":")[2].partition("/")[0]), "key": "none", "model": "scripted"}
            through = {"port": server.port, "key": key, "model": "up/scripted"}
            say("\nchat:")
            _first_word(bench, part, direct, through)
            _streams(bench, part, direct, through, server.process.pid)
    finally:
        stop(provider)


def _first_word(bench: Bench, part: str, direct: dict[str, Any], through: dict[str, Any]) -> None:
    asked = {"content": script(answer("x", pieces=1)), "clients": 1, "requests": 100}
    _ask(through | asked | {"requests": 20})  # the first requests open connections and load what is loaded late
    added, ratios = [], []
    for _ in range(bench.rounds):
        ours, theirs = (median(_ask(target | asked)["first_ms"]) for target in (through, direct))
        added.append(ours - theirs)
        ratios.append(ours / theirs)
    bench.limit(part, "hub minus provider, time to the first word, median", added, 5, "ms")
    bench.limit(part, "hub / provider, the same", ratios, None, "")


def _streams(bench: Bench, part: str, direct: dict[str, Any], through: dict[str, Any], pid: int) -> None:
    words = int(max(5.0, bench.seconds * 2) * 1000 / _PAUSE_MS)
    asked = {"content": script(answer("x" * words, pieces=1, pause_ms=_PAUSE_MS)), "clients": _STREAMS, "requests": 1}
    rates, cores = [], []
    for _ in range(bench.rounds):
        began, used = time.monotonic(), processes.processor_seconds(processes.tree(pid))
        ours = _ask(through | asked)
        cores.append((processes.processor_seconds(processes.tree(pid)) - used) / (time.monotonic() - began))
        theirs = _ask(direct | asked)
        if not ours["tokens"] == theirs["tokens"] == _STREAMS * words:
            raise Failed(f"{ours['tokens']} and {theirs['tokens']} words came, not {_STREAMS * words}.")
        rates.append((ours["tokens"] / ours["seconds"]) / (theirs["tokens"] / theirs["seconds"]))
    what = f"{_STREAMS} streams of {1000 // _PAUSE_MS} words a second"
    bench.limit(part, f"{what}: cores of the hub", cores, 1, "")
    bench.limit(part, f"{what}: words a second, hub / provider", rates, None, "")


def _ask(job: dict[str, Any]) -> dict[str, Any]:
    figures = client("benchmarks.chatting", job)
    if "error" in figures:
        raise Failed(f"chat: {figures['error']}")
    return figures
