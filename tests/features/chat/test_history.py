"""Messages of a conversation: units, pruning, and what a client sends again. Pure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mcphub.features.chat.messages import (
    Diverged,
    StoredMessage,
    Unpaired,
    new_messages,
    prune,
    text_of,
    unanswered,
    units,
)
from tests.features.chat.messages import calls, result, says, user

SYSTEM = {"role": "system", "content": "Be brief."}


def check_pairing(messages: list[dict[str, Any]]) -> None:
    """OpenAI's rule, written another way than in the code: each assistant's calls are answered by what follows."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls", [])]
    assert not waiting


def test_a_call_and_its_results_are_one_unit():
    messages = [SYSTEM, user(), calls("a", "b"), result("b"), result("a"), says()]
    assert units(messages) == [[1], [2, 3, 4], [5]]


@pytest.mark.parametrize(
    ("messages", "index"),
    [
        ([user(), result("a")], 1),
        ([user(), calls("a"), user()], 2),
        ([user(), calls("a")], 2),
        ([user(), calls("a"), result("a"), result("a")], 3),
        ([user(), calls("a", "a"), result("a")], 1),
        ([user(), calls("a"), SYSTEM, result("a")], 2),
        ([user(), calls("a", "b"), result("a"), says()], 3),
    ],
)
def test_what_is_not_paired_is_named(messages, index):
    with pytest.raises(Unpaired) as raised:
        units(messages)
    assert raised.value.index == index


def test_the_oldest_units_go_first_and_the_first_left_is_a_users():
    messages = [SYSTEM, user("1"), says(), user("2"), calls("a"), result("a"), says(), user("3")]
    assert prune(messages, 20) == list(range(8))
    assert prune(messages, 6) == [0, 3, 4, 5, 6, 7]  # "1" alone would fit no more than its answer does
    assert prune(messages, 4) == [0, 7]  # half of the second turn would begin with an answer
    assert prune(messages, 1) == [0, 7]


def test_a_turn_over_the_limit_is_kept_whole():
    messages = [user("old"), says(), user(), calls("a", "b", "c"), result("a"), result("b"), result("c")]
    assert prune(messages, 2) == [2, 3, 4, 5, 6]


def test_tokens_are_pruned_by_the_same_rule():
    messages = [user("a" * 50), says("b" * 50), user("c" * 10), says("d" * 10), user("e")]
    assert prune(messages, 30, lambda message: len(message["content"])) == [2, 3, 4]


def test_messages_without_a_user_stay_as_they_are():
    assert prune([SYSTEM], 1) == [0]
    assert prune([says(), says()], 1) == [0, 1]


def test_unanswered_calls_are_those_at_the_end():
    assert unanswered([user(), calls("a", "b"), result("b")]) == [calls("a")["tool_calls"][0]]
    assert unanswered([user(), calls("a"), result("a"), says()]) == []
    assert unanswered([]) == []
    assert unanswered([result("a")]) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a", "a"),
        (None, ""),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([1], ""),
        (1, ""),
    ],
)
def test_text_of_a_content(content, text):
    assert text_of(content) == text


def kept(*messages: dict[str, Any], client: str = "") -> list[StoredMessage]:
    return [
        StoredMessage(message, frozenset(client) if message.get("tool_calls") else frozenset()) for message in messages
    ]


HISTORY = kept(SYSTEM, user("one"), calls("a", text="Let me see. "), result("a"), says("Five."))


def test_messages_without_an_answer_are_new():
    assert new_messages(HISTORY, [user("two")]) == [user("two")]
    assert new_messages(HISTORY, [user("one")]) == [user("one")]
    assert new_messages([], [SYSTEM, user("one")]) == [SYSTEM, user("one")]


def test_instructions_are_taken_once():
    other = {"role": "developer", "content": "In verse."}
    assert new_messages(HISTORY, [SYSTEM, other, user("two")]) == [other, user("two")]


@pytest.mark.parametrize("answer", ["Let me see. Five.", "Five."])
def test_a_repeated_history_is_recognised_without_the_hubs_own_calls(answer):
    assert new_messages(HISTORY, [SYSTEM, user("one"), says(answer), user("two")]) == [user("two")]


@pytest.mark.parametrize(
    ("sent", "index"),
    [
        ([user("one"), says("Six."), user("two")], 1),
        ([user("none"), says("Five."), user("two")], 0),
        ([user("one"), user("two"), says("Five.")], 1),
        ([user("one"), says("Five."), says("And more."), user("two")], 2),
        ([says("Five.")], 0),
    ],
)
def test_another_history_is_refused(sent, index):
    with pytest.raises(Diverged) as raised:
        new_messages(HISTORY, sent)
    assert raised.value.index == index


def test_a_history_that_is_cut_short_is_refused():
    longer = [*HISTORY, StoredMessage(user("two")), StoredMessage(says("Six."))]
    with pytest.raises(Diverged):
        new_messages(longer, [user("one"), says("Five.")])


def test_calls_that_the_client_makes_are_part_of_what_it_knows():
    mixed = kept(user("one"), calls("a", "c", text=""), result("a"), client="c")
    assert new_messages(mixed, [result("c")]) == [result("c")]
    assert new_messages(mixed, [user("one"), calls("c"), result("c")]) == [result("c")]
    done = [*mixed, StoredMessage(result("c")), StoredMessage(says("Done."))]
    sent = [user("one"), calls("c"), result("c"), says("Done."), user("two")]
    assert new_messages(done, sent) == [user("two")]
    with pytest.raises(Diverged):
        new_messages(done, [user("one"), calls("other"), result("c"), says("Done."), user("two")])
    with pytest.raises(Diverged):
        new_messages(done, [user("one"), calls("c"), user("no result"), says("Done."), user("two")])


class Conversation(RuleBasedStateMachine):
    """Any sequence of turns under any limits: what a provider is sent keeps OpenAI's rule and the limit."""

    @initialize(system=st.booleans())
    def begin(self, system):
        self.messages: list[dict[str, Any]] = [SYSTEM] if system else []
        self.number = 0

    @rule(text=st.text(max_size=5))
    def ask(self, text):
        self._answer_what_waits()
        self.messages.append(user(text))

    @precondition(lambda self: any(message["role"] == "user" for message in self.messages))
    @rule(text=st.text(max_size=5))
    def answer(self, text):
        self._answer_what_waits()
        self.messages.append(says(text))

    @precondition(lambda self: any(message["role"] == "user" for message in self.messages))
    @rule(count=st.integers(1, 5), done=st.integers(0, 5), order=st.randoms(use_true_random=False))
    def call(self, count, done, order):
        """Call tools; a crash may leave some results out."""
        self._answer_what_waits()
        ids = [f"{self.number}-{n}" for n in range(count)] if order.random() < 0.5 else [str(n) for n in range(count)]
        self.number += 1
        self.messages.append(calls(*ids))
        shuffled = order.sample(ids, count)
        self.messages += [result(id_) for id_ in shuffled[:done]]

    @rule(text=st.text(max_size=3))
    def instruct(self, text):
        self._answer_what_waits()
        self.messages.append({"role": "developer", "content": text})

    @rule(limit=st.integers(1, 30))
    def forget(self, limit):
        """Prune for good, as a session does."""
        self._answer_what_waits()
        self.messages = [self.messages[index] for index in prune(self.messages, limit)]

    def _answer_what_waits(self):
        for call in unanswered(self.messages):
            self.messages.append(result(call["id"]))

    @invariant()
    def what_is_sent_is_valid(self):
        healed = self.messages + [result(call["id"]) for call in unanswered(self.messages)]
        users = [index for index, message in enumerate(healed) if message["role"] == "user"]
        for limit in (1, 2, 5, 20):
            indexes = prune(healed, limit)
            assert indexes == sorted(set(indexes))
            sent = [healed[index] for index in indexes]
            check_pairing(sent)
            spoken = [message for message in sent if message["role"] not in ("system", "developer")]
            instructions = [message for message in healed if message["role"] in ("system", "developer")]
            assert len(sent) - len(spoken) == len(instructions)
            if not users:
                continue
            assert users[-1] in indexes
            assert spoken[0]["role"] == "user"
            whole = len(healed) - len(instructions)
            if whole <= limit:
                assert len(spoken) == whole
            turn = [message for message in healed[users[-1] :] if message["role"] not in ("system", "developer")]
            assert len(spoken) <= max(limit, len(turn))


TestConversation = Conversation.TestCase
TestConversation.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
