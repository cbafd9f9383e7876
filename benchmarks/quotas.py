"""The part that measures quotas: none, one for another tool, one that counts each call and never refuses."""

from __future__ import annotations

from benchmarks.calls import READ_ONLY, RECORDED, Place
from benchmarks.measuring import Bench
from benchmarks.servers import hub

_QUOTA = """
from mcphub.features.quotas.models import McpQuota
McpQuota.objects.create(
    name="bench", applies_to="tool", target="TARGET", per="person", period="month", hard_limit=10**12
)
"""


def quotas(bench: Bench, place: Place) -> None:
    """What quotas cost a call. A read-only tool pays for an intent, too, in whose commit its call is counted."""
    part = "quotas"
    made = {"no quota": place.hub("sqlite")}
    for name, target in (("one for another tool", "nothing"), ("one that counts", "add*")):
        made[name] = place.hub(f"quota-{name.replace(' ', '-')}")
        made[name].command("shell", "--verbosity", "0", "-c", _QUOTA.replace("TARGET", target))
    plain, other, own = made
    with hub(plain, made[plain]) as first, hub(other, made[other]) as second, hub(own, made[own]) as third:
        for tool, kind, least in ((RECORDED, "recorded", 0.9), (READ_ONLY, "read-only", None)):
            servers = [server.with_tool(f"{server.name}, {kind}", tool) for server in (first, second, third)]
            for clients in (1, 32):
                found = bench.turns(part, servers, clients)
                counted = f"{kind}, {clients} client{'s' if clients > 1 else ''}"
                without, beside, counting = (found[server.name] for server in servers)
                bench.compare(part, f"{other} / {plain}, {counted}", beside, without, 0.99)
                bench.compare(part, f"{own} / {plain}, {counted}", counting, without, least)
