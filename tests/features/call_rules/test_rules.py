"""What rules come to: precedence, lists of allows, times, watching. Judged by a model that is a few plain lines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcphub.features.call_rules import expressions
from mcphub.features.call_rules.rule import (
    EFFECTS,
    KEPT_DECISIONS,
    Policy,
    Rule,
    RuleFinding,
    ToolPolicy,
    arguments_for,
    combined,
    finding,
    tags_of,
)
from mcphub.features.call_rules.trying import DescribedCall, read_call, read_cases, tried
from sessions_app.caller import Caller

TOOLS = {
    "read": {"annotations": {"readOnlyHint": True}, "_meta": {"tags": ["safe"]}},
    "pay": {"annotations": {"destructiveHint": True}},
    "pay.large": {"annotations": {"destructiveHint": True}, "_meta": {"fastmcp": {"tags": ["money"]}}},
}
CONDITIONS = ["", "args.n > 5", 'principal.id == "key:1"', "args.none", 'tool.name == "pay"']
APPLIES = [
    ("all", ""),
    ("tool", "pay*"),
    ("tag", "money safe"),
    ("annotation", "destructiveHint"),
    ("connection", "bank"),
    ("toolset", "till"),
]
TOOLSETS = {"till": frozenset({"pay"})}


def a_tool(name: str) -> Any:
    connection = "bank" if name == "pay.large" else None
    return SimpleNamespace(
        name=name, former=(), connection=connection, definition=TOOLS[name], version="1", read_only=False
    )


def a_caller(principal: str) -> Caller:
    return Caller(principal=principal, label="", scopes=frozenset())


class Policies(RuleBasedStateMachine):
    """Rules come, go and change; calls are decided as the model says, by the path of calls and by the test bench."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, dict[str, Any]] = {}
        self.policy = Policy()

    @rule(
        name=st.sampled_from("abcdef"),
        effect=st.sampled_from(EFFECTS),
        applies=st.sampled_from(APPLIES),
        condition=st.sampled_from(CONDITIONS),
        watching=st.booleans(),
        priority=st.integers(-2, 2),
        until=st.sampled_from([None, 50.0]),
    )
    def write(self, name: str, **fields: Any) -> None:
        self.fields[name] = fields
        self._snapshot()

    @rule(name=st.sampled_from("abcdef"))
    def remove(self, name: str) -> None:
        self.fields.pop(name, None)
        self._snapshot()

    def _snapshot(self) -> None:
        self.policy = Policy(
            Rule(
                key=0,
                name=name,
                version=1,
                effect=each["effect"],
                applies_to=each["applies"][0],
                target=each["applies"][1],
                condition=expressions.compile(each["condition"]) if each["condition"] else None,
                watching=each["watching"],
                priority=each["priority"],
                valid_until=each["until"],
            )
            for name, each in self.fields.items()
        )

    @rule(
        tool=st.sampled_from(sorted(TOOLS)),
        n=st.integers(0, 10),
        principal=st.sampled_from(["key:1", "key:2"]),
        now=st.sampled_from([10.0, 90.0]),
    )
    def call(self, tool: str, n: int, principal: str, now: float) -> None:
        expected = self._expected(tool, n, principal, now)
        assert self._decided(tool, n, principal, now) == expected
        bench = read_call(
            {
                "tool": {"name": tool},
                "principal": {"id": principal},
                "arguments": {"n": n},
                "time": "1970-01-01T00:00:10Z" if now == 10.0 else "1970-01-01T00:01:30Z",
            },
            {tool: a_tool(tool)},
        )
        call = DescribedCall(tool=bench.tool, principal=bench.principal, facts=bench.facts, toolsets=TOOLSETS)
        assert (tried(self.policy.rules, call).ruling.effect or "none") == expected

    def _decided(self, name: str, n: int, principal: str, now: float) -> str:
        """As the call path does it: kept findings, then those of this call."""
        tool = a_tool(name)
        policy = self.policy.of(tool, TOOLSETS)
        if policy is None:
            return "none"
        from mcphub.features.call_rules.rule import Facts

        caller = a_caller(principal)
        findings = list(policy.findings(tool, caller, now))
        context = policy.context(tool, caller, Facts({"n": n}, now=now))
        for each in policy.pending(now):
            findings.append(finding(each, {**context, "args": arguments_for(each, {"n": n})}))
        return combined(sorted(findings, key=lambda each: (-each.rule.priority, each.rule.name))).effect or "none"

    def _expected(self, tool: str, n: int, principal: str, now: float) -> str:
        held = {
            "": True,
            "args.n > 5": n > 5,
            'principal.id == "key:1"': principal == "key:1",
            "args.none": None,
            'tool.name == "pay"': tool == "pay",
        }
        concerned = {
            "all": True,
            "tool": tool.startswith("pay"),
            "tag": tool in ("read", "pay.large"),
            "annotation": tool != "read",
            "connection": tool == "pay.large",
            "toolset": tool == "pay",
        }
        said = [
            (each["effect"], held[each["condition"]])
            for each in self.fields.values()
            if concerned[each["applies"][0]] and not each["watching"] and (each["until"] is None or now < each["until"])
        ]
        if any(holds is None or (effect == "deny" and holds) for effect, holds in said):
            return "deny"
        allows = [holds for effect, holds in said if effect == "allow"]
        if allows and not any(allows):
            return "deny"
        if any(effect == "ask" and holds for effect, holds in said):
            return "ask"
        return "allow" if allows else "none"

    @invariant()
    def what_is_hidden_is_denied_whatever_the_arguments(self) -> None:
        for name in TOOLS:
            tool = a_tool(name)
            policy = self.policy.of(tool, TOOLSETS)
            # The clock of lists is the wall's: rules with an end are over by then.
            if policy is not None and policy.hides(tool, a_caller("key:1")) is not None:
                assert {self._expected(name, n, "key:1", 90.0) for n in (0, 10)} == {"deny"}


TestPolicies = Policies.TestCase
TestPolicies.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_the_rule_of_highest_priority_says_the_words() -> None:
    findings = [
        RuleFinding(Rule(key=1, name="first", version=3, effect="deny", words="Stop.", priority=5), True),
        RuleFinding(Rule(key=2, name="second", version=1, effect="deny", words="Halt."), True),
    ]
    ruling = combined(findings)
    assert (ruling.rule, ruling.version, ruling.words, ruling.said) == ("first", 3, "Stop.", "deny")


def test_what_is_kept_of_decisions_is_bounded() -> None:
    policy = Policy([Rule(key=1, name="r", version=1, effect="deny")])
    found = policy.of(a_tool("pay"), {})
    assert isinstance(found, ToolPolicy)
    for number in range(KEPT_DECISIONS + 10):
        found.findings(a_tool("pay"), a_caller(f"key:{number}"), 0.0)
    assert len(policy.principals.decided) <= KEPT_DECISIONS


def test_tags_are_read_where_servers_write_them_and_nonsense_is_none() -> None:
    assert tags_of({"_meta": {"tags": ["a", 1]}}) == ["a"]
    assert tags_of({"_meta": {"_fastmcp": {"tags": ["b"]}}}) == ["b"]
    assert tags_of({"_meta": {"tags": "a"}}) == tags_of({"_meta": None}) == tags_of({}) == []


def test_cases_of_a_file_are_read_or_refused_by_name() -> None:
    cases, problems = read_cases(
        [
            {"name": "good", "tool": {"name": "x"}, "expect": "none"},
            {"name": "no tool", "expect": "deny"},
            {"name": "odd", "tool": {"name": "x"}, "expect": "perhaps"},
            {"name": "when", "tool": {"name": "x"}, "expect": "deny", "time": "soon"},
            "text",
        ]
    )
    assert [case.name for case in cases] == ["good"]
    assert [problem.partition(":")[0] for problem in problems] == ["no tool", "odd", "when", "cases[4]"]
