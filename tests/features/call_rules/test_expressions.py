"""Conditions: what is taken, what is refused and why, and that nothing leads past the bounds."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.call_rules import apart, expressions
from mcphub.features.call_rules.expressions import MAX_CHARACTERS, ExpressionRejected, RuleFailed
from mcphub.features.call_rules.rule import Rule, arguments_for
from sessions_app.protocol import json

CONTEXT: dict[str, Any] = {
    "principal": {"id": "key:1", "label": "ci", "groups": ["finance"], "claims": {"dept": "x"}},
    "tool": {"name": "pay", "connection": "", "annotations": {"destructiveHint": True}, "tags": [], "version": "1"},
    "client": {"name": "", "version": "", "transport": "http", "address": ""},
    "recent": {"calls": 3, "errors": 1},
    "args": {"amount": 5, "to": "a@b.example", "items": [{"n": 1}, {"n": 2}]},
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("args.amount > 4", True),
        ('args["amount"] == 5', True),
        ('"finance" in principal.groups && !("x" in principal.groups)', True),
        ('args.to.matches("^[^@]+@b[.]example$")', True),
        ("args.items.all(item, item.n < 2)", False),
        ("has(args.none) && args.none == 1", False),
        ("recent.calls > 2 && tool.annotations.destructiveHint", True),
        ("size(args.items) == 2 // two of them", True),
        ('"args.none" == args.to', False),
    ],
)
def test_a_condition_says_whether_it_holds(text: str, holds: bool) -> None:
    assert expressions.compile(text).evaluate(CONTEXT) is holds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("args.amount >", "Line 1, column"),
        ("principal.grups == 1", "Do you mean principal.groups?"),
        ("arg.x == 1", "Do you mean args?"),
        ('args.to.startWith("a")', "Do you mean startsWith?"),
        ("now() == 1", "There is no function now()"),
        ("args.items.all(args, true)", "args is a variable of the context"),
        ("(" * 60 + "1" + ")" * 60, "nested deeper"),
        ("args.a.all(a, args.b.all(b, args.c.all(c, true)))", "one inside the other"),
        ("[args.a].map(a, a + a).map(a, a + a)", "At most one map"),
        ("args.items.all(a, a + a + a + a + a + a == 1)", "At most one map"),
        ("true || " * 400 + "true", f"{MAX_CHARACTERS} are allowed"),
        ("", "Line 1, column"),
    ],
)
def test_a_text_that_is_no_condition_is_refused_with_what_to_do(text: str, why: str) -> None:
    with pytest.raises(ExpressionRejected) as refused:
        expressions.compile(text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("args.none == 1", "there is no none"),
        ("args[args.to] == 1", "a member that it reads is missing"),
        ('args.amount > "5"', "types that do not go together"),
        ("args.amount / 0 == 1", "divides by zero"),
        ("args.amount + 9223372036854775807 > 1", "too large"),
        ("args.amount", "not true or false"),
        ("args.to.matches(args.to + '(')", "does not take such a value"),
    ],
)
def test_what_cannot_be_decided_fails_with_a_reason_that_holds_no_argument(text: str, why: str) -> None:
    with pytest.raises(RuleFailed) as failed:
        expressions.compile(text).evaluate(CONTEXT)
    assert why in str(failed.value)
    assert "b.example" not in str(failed.value)


def test_the_members_of_the_arguments_that_a_condition_reads_are_known() -> None:
    assert expressions.compile('args.a > 1 && args["b"].c == 2').args == {"a", "b"}
    assert expressions.compile('args.a > 1 && "b" in args').args == {"a", "b"}
    assert expressions.compile('("b" in args) && !("c" in args)').args == {"b", "c"}
    for reads_all in ("'a' + 'b' in args", "size(args) > 1", "principal.id in args", "args.exists(k, k == 'a')"):
        assert expressions.compile(reads_all).args is None
    assert expressions.compile("'a' in args[principal.id]").args is None


@pytest.mark.parametrize("arguments", [{"a": 1, "b": 2}, {"a": None}, {"c": [1]}, {}])
@pytest.mark.parametrize("text", ["'a' in args", "!('a' in args) || 'c' in args", "args.exists(k, k == 'a')"])
def test_whether_a_member_is_there_is_said_alike_from_the_members_handed_over(
    text: str, arguments: dict[str, Any]
) -> None:
    rule = Rule(key=1, name="r", version=1, effect="deny", condition=expressions.compile(text))
    assert rule.condition is not None
    whole = rule.condition.evaluate({"args": arguments})
    assert rule.condition.evaluate({"args": arguments_for(rule, arguments)}) is whole
    assert expressions.compile("principal.id == tool.name").is_kept
    assert not expressions.compile("time > timestamp('2026-01-01T00:00:00Z')").is_kept


def test_a_condition_may_hold_the_interpreter_for_large_arguments_only() -> None:
    cheap, costly = expressions.compile("args.a == 1"), expressions.compile("args.a.all(a, args.a.all(b, a == b))")
    assert not cheap.may_hold(100_000)
    assert not costly.may_hold(300)
    assert costly.may_hold(20_000)


def test_the_other_process_says_the_same() -> None:
    texts = ["args.amount > 4", "args.none == 1", "args.amount > 9"]
    task = json.dumps([{"text": text, "context": CONTEXT, "time": 0} for text in texts])
    assert json.loads(apart.answer(task)) == [True, "there is no none", False]


@given(st.text(max_size=200) | st.text(alphabet="args.()[]{}&|!=<>+-'\" 1allmp,x", max_size=200))
def test_any_text_is_a_condition_or_refused_and_any_condition_decides_or_fails(text: str) -> None:
    try:
        condition = expressions.compile(text)
    except ExpressionRejected:
        return
    with contextlib.suppress(RuleFailed):
        assert condition.evaluate(CONTEXT) in (True, False)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(st.sampled_from(["amount", "to", "items"]), VALUES))
def test_any_arguments_are_decided_or_fail(args: dict[str, Any]) -> None:
    for text in ("args.amount > 4", "args.to.matches('a+')", "args.items.all(i, i.n == 1)", "size(args) > 1"):
        with contextlib.suppress(RuleFailed):
            assert expressions.compile(text).evaluate({**CONTEXT, "args": args}) in (True, False)
