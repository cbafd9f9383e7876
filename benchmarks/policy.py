"""The part that measures call rules: none, one for another tool, one of the tool, one over its arguments."""

from __future__ import annotations

import time
from types import SimpleNamespace

from benchmarks.calls import READ_ONLY, Place
from benchmarks.measuring import Bench
from benchmarks.servers import hub
from mcphub.features.call_rules import expressions
from mcphub.features.call_rules.rule import Facts, Policy, Rule, arguments_for, combined, finding
from sessions_app.caller import ANONYMOUS

_RULE = """
from mcphub.features.call_rules.models import McpPolicyRule
McpPolicyRule.objects.create(name="bench", applies_to="tool", target="TARGET", condition="CONDITION")
"""
_NEVER = "principal.id == 'nobody'"
_ROUNDS = 2_000


def policy(bench: Bench, place: Place) -> None:
    """What rules cost a call."""
    part = "policy"
    made = {"no rule": place.hub("sqlite")}
    for name, target in (("a rule for another tool", "nothing"), ("one rule without arguments", READ_ONLY)):
        made[name] = place.hub(name.replace(" ", "-"))
        script = _RULE.replace("TARGET", target).replace("CONDITION", _NEVER)
        made[name].command("shell", "--verbosity", "0", "-c", script)
    plain, other, own = made
    with hub(plain, made[plain]) as first, hub(other, made[other]) as second, hub(own, made[own]) as third:
        servers = [server.with_tool(server.name, READ_ONLY) for server in (first, second, third)]
        for clients in (1, 32):
            found = bench.turns(part, servers, clients)
            counted = f"{clients} client{'s' if clients > 1 else ''}"
            bench.compare(part, f"{other} / {plain}, {counted}", found[other], found[plain], 0.99)
            bench.compare(part, f"{own} / {plain}, {counted}", found[own], found[plain], 0.97)
    for words, condition in (
        ("a member", "args.key7 == 'x'"),
        ("whether a member is there", "'x' in args"),
        ("all members walked over", "args.exists(key, key == 'x')"),
    ):
        bench.limit(part, f"2 KB of arguments, {words}", [decision_ms(condition)], 0.1, "ms")


def decision_ms(condition: str) -> float:
    """Return the milliseconds of one decision by a rule over 2 KB of arguments, in this process."""
    rule = Rule(key=1, name="bench", version=1, effect="deny", condition=expressions.compile(condition))
    tool = SimpleNamespace(name="t", connection=None, definition={}, version="1", read_only=False)
    found = Policy([rule]).of(tool, {})
    assert found is not None
    arguments = {f"key{number}": "v" * 22 for number in range(60)}
    began = time.perf_counter()
    for _ in range(_ROUNDS):
        context = found.context(tool, ANONYMOUS, Facts(arguments))
        context["args"] = arguments_for(rule, arguments)
        combined([finding(rule, context)])
    return (time.perf_counter() - began) / _ROUNDS * 1000
