"""Call rules over the wire: what is hidden, denied, asked about, watched, and what stays on record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire import approving
from tests.wire.speech import LEGACY, Speaker, error_of

RULE = "tools_catalog.McpPolicyRule"
ADD = "add_numbers"


@pytest.fixture(scope="module")
def governed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_LIMITS": "approval_hold_seconds=0.2"}
    with Hub(tmp_path_factory.mktemp("governed"), packs=["starter"], environment=environment) as running:
        yield running


@pytest.fixture
def speaker(governed: Hub) -> Iterator[Speaker]:
    # A key of its own for each test: of the refusals of one caller only the first in a minute have rows of their own.
    with Speaker(governed.url, governed.operate(operations.issue_key, "own", ["tools:list", "tools:call"])) as made:
        yield made
        governed.operate(operations.delete, RULE)
        governed.settle()


def _names(speaker: Speaker) -> set[str]:
    return {tool["name"] for tool in speaker.modern("tools/list").json()["result"]["tools"]}


def _add(hub: Hub, name: str, **fields: Any) -> None:
    hub.operate(operations.create, RULE, name=name, **fields)


def _called(speaker: Speaker, tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = speaker.modern_call(tool, arguments, **more).json()
    return found


def _is_denied(answer: dict[str, Any]) -> bool:
    return "result" in answer and bool(answer["result"].get("isError"))


def test_a_call_is_denied_by_its_arguments_with_the_rules_words_and_recorded(governed: Hub, speaker: Speaker) -> None:
    _add(governed, "small", applies_to="tool", target="add", condition="args.a > 100", words="Add less than 100.")
    denied = until(lambda: (found := _called(speaker, "add", {"a": 101, "b": 1})) and _is_denied(found) and found)
    assert denied["result"]["content"][0]["text"].endswith("Add less than 100.")
    assert not _is_denied(_called(speaker, "add", {"a": 100, "b": 1}))
    row = governed.rows(client=speaker.name, error_code="policy_denied")[0]
    assert (row["policy_rule"], row["policy_version"], row["policy_said"]) == ("small", 1, "deny")
    assert row["tool_name"] == "add"
    assert "add" in _names(speaker)


def test_a_rule_without_arguments_hides_the_tool_everywhere(governed: Hub, speaker: Speaker) -> None:
    _add(governed, "no-adding", applies_to="tool", target="add*", condition='principal.id.startsWith("key:")')
    until(lambda: "add" not in _names(speaker))
    session = speaker.open_session(LEGACY)
    listed = speaker.in_session(session, "tools/list").json()["result"]["tools"]
    assert "add" not in {tool["name"] for tool in listed}
    hidden, missing = (speaker.modern_call(name, {"a": 1, "b": 2}) for name in ("add", "adt"))
    assert error_of(hidden)["message"] == error_of(missing)["message"].replace("adt", "add")
    assert (hidden.status_code, error_of(hidden)["code"]) == (missing.status_code, error_of(missing)["code"])
    row = governed.rows(client=speaker.name, error_code="tool_not_found", policy_rule="no-adding")[0]
    assert row["policy_said"] == "deny"


@pytest.mark.parametrize("condition", ["args.none == 1", 'args.a > "x"', "args.a / 0 == 1", "args.a"])
def test_a_condition_that_cannot_be_decided_denies_and_says_why_on_record(
    governed: Hub, speaker: Speaker, condition: str
) -> None:
    _add(governed, "broken", applies_to="tool", target="add", condition=condition, effect="allow")
    until(lambda: _is_denied(_called(speaker, "add", {"a": 1, "b": 1})))
    row = governed.rows(client=speaker.name, error_code="policy_denied")[0]
    assert row["policy_said"].startswith("deny: ")


def test_an_allow_that_does_not_hold_denies_and_one_that_holds_is_recorded(governed: Hub, speaker: Speaker) -> None:
    _add(governed, "even", applies_to="tool", target="add", condition="int(args.a) % 2 == 0", effect="allow")
    until(lambda: _is_denied(_called(speaker, "add", {"a": 1, "b": 1})))
    assert not _is_denied(_called(speaker, "add", {"a": 2, "b": 1}))
    assert governed.rows(client=speaker.name, policy_rule="even", status="ok")


def test_a_call_that_a_rule_asks_about_waits_for_a_person(governed: Hub, speaker: Speaker) -> None:
    _add(governed, "ask-first", applies_to="tool", target="add", effect="ask", words="Adding is dangerous.")
    meta = until(lambda: _called(speaker, "add", {"a": 1, "b": 1})["result"]["_meta"].get("mcphub/approval"))
    waiting = governed.operate(approving.row, meta["approvalId"])
    assert (waiting["status"], waiting["rule"]) == ("pending", "ask-first")
    assert governed.rows(client=speaker.name, policy_rule="ask-first")[0]["policy_said"] == "ask"
    governed.operate(approving.decide, meta["approvalId"], True)
    assert _called(speaker, "add", {"a": 1, "b": 1})["result"]["structuredContent"] == {"result": 2}


def test_a_watching_rule_only_writes_down_what_it_would_have_done(governed: Hub, speaker: Speaker) -> None:
    _add(governed, "watcher", watching=True, condition="args.a > 1")
    until(lambda: _called(speaker, "add", {"a": 2, "b": 1}) and governed.rows(policy_watched="true"))
    row = governed.rows(client=speaker.name, policy_watched="true")[0]
    assert (row["status"], row["policy_rule"], row["policy_watched"]) == ("ok", None, "watcher@1 deny")


def test_a_repeat_is_answered_as_the_first_was_though_a_rule_denies_it_now(governed: Hub, speaker: Speaker) -> None:
    session = speaker.open_session(LEGACY)
    first = speaker.call(session, "add", {"a": 7, "b": 1}, id="once").json()
    _add(governed, "later", applies_to="tool", target="add", condition="args.a > 5")
    until(lambda: _is_denied(_called(speaker, "add", {"a": 7, "b": 1})))
    again = speaker.call(session, "add", {"a": 7, "b": 1}, id="once").json()["result"]
    assert again["content"] == first["result"]["content"]
    assert "mcphub/duplicateOf" in again["_meta"]


def test_a_costly_condition_is_decided_apart_and_given_up_in_time(governed: Hub, speaker: Speaker) -> None:
    text = "a" * 5_000
    nested = f"{_HUNDRED}.all(x, {_HUNDRED}.all(y, CONDITION))"
    _add(governed, "costly", applies_to="tool", target="echo", condition="[1].all(x, [1].all(y, args.text != ''))")
    until(  # a process that only begins may be late, which denies as well
        lambda: (
            _is_denied(_called(speaker, "echo", {"text": text}))
            and governed.rows(client=speaker.name, policy_rule="costly")[0]["policy_said"] == "deny"
        )
    )
    governed.operate(operations.delete, RULE)
    condition = nested.replace("CONDITION", "!args.text.matches('(a{1,50}){1,50}b')")
    _add(governed, "endless", applies_to="tool", target="echo", condition=condition, effect="allow")
    until(lambda: _called(speaker, "echo", {"text": text}) and governed.rows(policy_rule="endless"))
    row = governed.rows(client=speaker.name, policy_rule="endless")[0]
    assert row["policy_said"] == "deny: it takes longer than 5 s for these arguments"


_HUNDRED = f"[{','.join(map(str, range(100)))}]"


def test_a_rule_binds_both_workers_on_postgresql(pair: Hub) -> None:
    key = pair.operate(operations.issue_key, "governed", ["tools:list", "tools:call"])
    _add(pair, "both", applies_to="tool", target="add", condition="recent.calls >= 0 && args.a > 100")

    def is_denied(a: int) -> bool:
        with Speaker(pair.url, key) as speaker:
            answer = _called(speaker, "add", {"a": a, "b": 1})
        assert "result" in answer, answer
        return _is_denied(answer)

    try:
        until(lambda: all(is_denied(101) for _ in range(6)))
        assert not any(is_denied(99) for _ in range(4))
        assert pair.rows(policy_rule="both", error_code="policy_denied")
    finally:
        pair.operate(operations.delete, RULE)
        pair.settle()
