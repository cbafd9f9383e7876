"""The part that measures guardrails: none, one for another tool, all detectors; and detectors over 100 KB of text."""

from __future__ import annotations

import time

from benchmarks.calls import READ_ONLY, Place
from benchmarks.measuring import Bench
from benchmarks.servers import hub
from sessions_app.protocol import json
from tools_catalog.detectors.scanning import GROUPS, named, scanner_of

_GUARDRAIL = """
from mcphub.features.guardrails.models import McpGuardrail
McpGuardrail.objects.create(
    name="bench", applies_to="tool", target="TARGET", detectors="secrets personal hidden injection", action="mask"
)
"""
_ROUNDS = 20
_PROSE = "The report of the fourth quarter is with the team, and nobody has asked for more than that yet. "
_RUSSIAN = "Отчёт за четвёртый квартал уже у команды, и больше пока никто ничего не просил. "


def guardrails(bench: Bench, place: Place) -> None:
    """What guardrails cost a call."""
    part = "guardrails"
    made = {"no guardrail": place.hub("sqlite")}
    for name, target in (("one for another tool", "nothing"), ("all detectors", READ_ONLY)):
        made[name] = place.hub(name.replace(" ", "-"))
        made[name].command("shell", "--verbosity", "0", "-c", _GUARDRAIL.replace("TARGET", target))
    plain, other, own = made
    with hub(plain, made[plain]) as first, hub(other, made[other]) as second, hub(own, made[own]) as third:
        servers = [server.with_tool(server.name, READ_ONLY) for server in (first, second, third)]
        for clients in (1, 32):
            found = bench.turns(part, servers, clients)
            counted = f"{clients} client{'s' if clients > 1 else ''}"
            bench.compare(part, f"{other} / {plain}, {counted}", found[other], found[plain], 0.99)
            bench.compare(part, f"{own} / {plain}, {counted}", found[own], found[plain], 0.90)
    for words, text in (("prose", _PROSE), ("Russian prose", _RUSSIAN)):
        bench.limit(part, f"all detectors, 100 KB of {words}", [look_ms(text)], 1.0, "ms")


def look_ms(text: str) -> float:
    """Return the milliseconds of one look by all detectors over 100 KB, in this process."""
    value = {"content": [{"type": "text", "text": (text * 2000)[: 100_000 if text.isascii() else 55_000]}]}
    written = json.canonical(value)
    scanner = scanner_of(named(GROUPS), 1 << 20, 64)
    scanner.scan(value, written)
    began = time.perf_counter()
    for _ in range(_ROUNDS):
        scanner.scan(value, written)
    return (time.perf_counter() - began) / _ROUNDS * 1000
