"""Conversations as rows: whose they are, what the model is sent, what a turn leaves, and what a crash leaves."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from invocations.call_source import CallSource
from invocations.mapping.error_map import ErrorMap
from invocations.redaction.policy import RedactionPolicy
from mcphub.features.chat.conversations import store as conversations
from mcphub.features.chat.conversations.store import ConversationStore
from mcphub.features.chat.engine.turn import Turn, TurnSource
from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.models import AIResponse, ChatMessage, ChatSession, Query
from mcphub.features.chat.providers.snapshot import Model, ModelChoice, Provider
from sessions_app.caller import Caller
from sessions_app.models import ServerProcess
from tests.factories import ServerProcessFactory
from tests.features.chat.messages import calls, result, says, user

pytestmark = pytest.mark.django_db

ANN = Caller(principal="key:1", label="Ann", scopes=frozenset({"chat"}))
BOB = Caller(principal="key:2", label="Bob", scopes=frozenset({"chat"}))
SYSTEM = {"role": "system", "content": "Be brief."}


class Process:
    """One process of the hub, as conversations see it."""

    def __init__(self) -> None:
        self.row = ServerProcessFactory(host="elsewhere")
        self.running: set[uuid.UUID] = set()
        self.rows = ConversationStore(self.row.pk, "here", ErrorMap, RedactionPolicy, self.running)

    def die(self) -> None:
        ServerProcess.objects.filter(pk=self.row.pk).update(last_seen_at=timezone.now() - timedelta(minutes=5))

    def open(self, caller: Caller = ANN, **changes: Any) -> ChatSession:
        return self.rows.open(caller, **{"preference": "", "max_messages": 20, "context": {}, **changes})

    def asked(self, session_id: str | None, *messages: dict[str, Any], caller: Caller = ANN) -> Turn:
        call = CallSource(caller=caller, session_id="s", transport="chat", client_name="", client_address="")
        return Turn(
            source=TurnSource(call=call, entry_point="completions"),
            choice=ModelChoice(Model(provider=Provider(slug="p", kind="openai", base_url="", headers={}), name="m")),
            messages=list(messages),
            session_id=session_id,
        )

    def begin(self, session: ChatSession | None, *messages: dict[str, Any], caller: Caller = ANN) -> tuple[Turn, Any]:
        turn = self.asked(session and str(session.pk), *messages, caller=caller)
        self.running.add(turn.id)
        self.rows.begin(turn)
        return turn, turn.messages

    def finish(self, turn: Turn, *messages: dict[str, Any]) -> AIResponse:
        answer = AIResponse(content="!", provider_used="p", model="m", duration_ms=5)
        self.rows.finish(turn, messages, answer)
        self.running.discard(turn.id)
        return answer

    def turn(self, session: ChatSession | None, *messages: dict[str, Any], answer: list[dict[str, Any]] | None = None):
        turn, sent = self.begin(session, *messages)
        self.finish(turn, *(answer or [says()]))
        return sent


@pytest.fixture
def here() -> Process:
    return Process()


@pytest.fixture
def there() -> Process:
    return Process()


def refused(code: str):
    class Refused:
        error: ChatError

        def __enter__(self):
            return self

        def __exit__(self, kind, error, _):
            assert isinstance(error, ChatError), error
            assert error.code == code
            self.error = error
            return True

    return Refused()


def test_a_session_sends_what_was_said_before(here, there):
    session = here.open()
    assert here.turn(session, SYSTEM, user("one")) == [SYSTEM, user("one")]
    assert there.turn(session, user("two")) == [SYSTEM, user("one"), says(), user("two")]


def test_without_a_session_messages_pass_as_they_are_and_the_turn_is_kept(here):
    sent = here.turn(None, user("one"), says("first"), user("two"))
    assert sent == [user("one"), says("first"), user("two")]
    query = Query.objects.get()
    assert (query.content, query.state, query.response.content) == ("two", "done", "!")
    assert [message.wire() for message in query.messages.all()] == [user("two"), says()]


def test_the_application_is_heard_before_all(here):
    session = here.open(context={"language": "ru"})
    first, *rest = here.turn(session, user("one"))
    assert first["role"] == "system"
    assert '{"language":"ru"}' in first["content"]
    assert rest == [user("one")]


@pytest.mark.parametrize("whose", ["unknown", "malformed", "foreign", "idle", "old", "closed"])
def test_sessions_that_are_not_there_answer_alike(here, whose):
    session = here.open(BOB if whose == "foreign" else ANN)
    now = timezone.now()
    if whose == "idle":
        ChatSession.objects.update(expires_at=now - timedelta(seconds=1))
    if whose == "old":
        ChatSession.objects.update(expires_at=now - timedelta(seconds=1), ends_at=now - timedelta(seconds=1))
    if whose == "closed":
        here.rows.close(ANN, str(session.pk))
    wanted = {"unknown": str(uuid.uuid4()), "malformed": "../1"}.get(whose, str(session.pk))
    said = set()
    for deed in (
        lambda: here.rows.find(ANN, wanted),
        lambda: here.rows.close(ANN, wanted),
        lambda: here.rows.begin(here.asked(wanted, user())),
    ):
        with refused("SESSION_NOT_FOUND") as raised:
            deed()
        said.add((raised.error.http_status, raised.error.message))
    assert said == {(404, "There is no such session, or it has ended. POST /api/session begins one.")}
    assert not Query.objects.exists()


def test_a_session_lives_on_with_each_turn_but_no_longer_than_its_end(here, settings):
    session = here.open()
    assert session.ends_at - session.created_at == timedelta(days=1)
    assert session.expires_at - session.created_at == timedelta(hours=1)
    ChatSession.objects.update(expires_at=timezone.now() + timedelta(seconds=30))
    here.turn(session, user())
    session.refresh_from_db()
    assert session.expires_at - session.updated_at == timedelta(hours=1)
    soon = timezone.now() + timedelta(minutes=2)
    ChatSession.objects.update(ends_at=soon, expires_at=soon)
    here.turn(session, user())
    session.refresh_from_db()
    assert session.expires_at == session.ends_at


def test_a_caller_with_too_many_sessions_loses_the_one_used_least_recently(here, settings):
    settings.MCPHUB_CHAT_MAX_SESSIONS_PER_CALLER = 2
    first, second = here.open(), here.open()
    here.open(BOB)
    here.turn(first, user())
    here.open()
    assert list(ChatSession.objects.exclude(closed_at=None)) == [second]


def test_a_session_answers_one_request_at_a_time(here, there):
    session = here.open()
    turn, _ = here.begin(session, user("one"))
    for process in (here, there):
        with refused("SESSION_BUSY") as raised:
            process.begin(session, user("two"))
        assert (raised.error.http_status, raised.error.retry_after, raised.error.should_retry) == (409, 1, True)
        with refused("SESSION_BUSY"):
            process.rows.close(ANN, str(session.pk))
    here.finish(turn, says())
    assert there.turn(session, user("two"))[-1] == user("two")


def test_old_turns_are_left_out_whole_and_stay_on_record(here):
    session = here.open(max_messages=4)
    here.turn(session, user("1"), answer=[calls("a"), result("a"), says("first")])
    assert here.turn(session, user("2")) == [user("2")]
    assert here.turn(session, user("3")) == [user("2"), says(), user("3")]
    assert list(session.messages.filter(left_out="limit").values_list("role", flat=True)) == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    _, shown = here.rows.find(ANN, str(session.pk))
    assert [message.content for message in shown] == ["2", "!", "3", "!"]


def test_a_client_may_repeat_the_whole_history(here):
    session = here.open(max_messages=4)
    here.turn(session, SYSTEM, user("1"), answer=[calls("a", text="Look. "), result("a"), says("Five.")])
    here.turn(session, user("2"))
    sent = here.turn(session, SYSTEM, user("1"), says("Five."), user("2"), says(), user("3"))
    assert sent == [SYSTEM, user("2"), says(), user("3")]
    with refused("INVALID_QUERY") as raised:
        here.begin(session, SYSTEM, user("1"), says("Six."), user("4"))
    assert raised.error.param == "messages[2]"
    with refused("INVALID_QUERY"):
        here.begin(session, user("1"), says("Five."), user("2"), says(), user("3"), says())
    session.refresh_from_db()
    assert session.turn_id is None


def test_a_turn_that_fails_before_it_did_anything_leaves_no_question_behind(here):
    session = here.open()
    turn, _ = here.begin(session, user("one"))
    here.rows.fail(turn, "failed", "PROVIDER_UNAVAILABLE")
    assert here.turn(session, user("one")) == [user("one")]
    assert here.turn(session, user("one"), says(), user("two"))[-1] == user("two")
    failed = Query.objects.order_by("timestamp")[0]
    assert (failed.state, failed.error_code) == ("failed", "PROVIDER_UNAVAILABLE")


def test_a_turn_that_fails_after_its_calls_leaves_them(here):
    session = here.open()
    turn, _ = here.begin(session, user("one"))
    here.rows.add(turn, [calls("a", "b")], {})
    here.rows.add(turn, [result("a")], {})
    here.rows.fail(turn, "cancelled", "cancelled")
    sent = here.turn(session, user("two"))
    interrupted = {"role": "tool", "tool_call_id": "b", "content": '{"error":"interrupted"}'}
    assert sent == [user("one"), calls("a", "b"), result("a"), interrupted, user("two")]


def test_a_turn_that_a_crash_cut_off_is_healed_by_the_next_one(here, there):
    session = here.open()
    turn, _ = here.begin(session, user("one"))
    here.rows.add(turn, [calls("a")], {})
    with refused("SESSION_BUSY"):
        there.begin(session, user("two"))
    here.die()
    sent = there.turn(session, user("two"))
    interrupted = {"role": "tool", "tool_call_id": "a", "content": '{"error":"interrupted"}'}
    assert sent == [user("one"), calls("a"), interrupted, user("two")]
    made_up = ChatMessage.objects.get(is_synthetic=True)
    assert (made_up.query_id, made_up.role) == (turn.id, "tool")
    # Found dead by whoever needed it, so that its calls are closed in the audit too.
    assert ServerProcess.objects.get(pk=here.row.pk).status == "error"
    assert Query.objects.get(pk=turn.id).state == "interrupted"
    # The process was only slow: what it still wants to say belongs nowhere.
    with refused("SERVER_ERROR"):
        here.rows.add(turn, [result("a")], {})
    with refused("SERVER_ERROR"):
        here.finish(turn, says())
    here.rows.fail(turn, "failed", "SERVER_ERROR")
    assert there.turn(session, user("three"))[-1] == user("three")


def test_turns_of_dead_processes_are_settled_by_whoever_looks_first(here, there):
    session = here.open()
    turn, _ = here.begin(session, user("one"))
    alone, _ = here.begin(None, user("alone"))
    under_way, _ = there.begin(None, user("mine"))
    forgotten, _ = there.begin(None, user("lost by an error"))
    there.running.discard(forgotten.id)
    assert there.rows.sweep() == 1
    here.die()
    assert there.rows.sweep() == 2
    assert there.rows.sweep() == 0
    states = dict(Query.objects.values_list("pk", "state"))
    assert states == {
        turn.id: "interrupted",
        alone.id: "interrupted",
        forgotten.id: "interrupted",
        under_way.id: "running",
    }
    session.refresh_from_db()
    assert session.turn_id is None


def test_calls_that_the_client_makes_wait_for_it(here):
    session = here.open()
    turn, _ = here.begin(session, user("one"))
    turn.client_tools = [{"type": "function", "function": {"name": "ask_user"}}]
    both = calls("mine", "theirs")
    both["tool_calls"][1]["function"]["name"] = "ask_user"
    here.finish(turn, both, result("mine"))
    sent = here.turn(session, result("theirs"))
    assert sent == [user("one"), both, result("mine"), result("theirs")]
    assert here.turn(session, user("two"))[-1] == user("two")


def test_a_client_that_never_answers_its_calls_is_not_shut_out(here):
    session = here.open()
    here.turn(session, user("one"), answer=[calls("theirs")])
    sent = here.turn(session, user("two"))
    assert sent[2] == {"role": "tool", "tool_call_id": "theirs", "content": '{"error":"unanswered"}'}


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([user(), result("nobody")], "messages[1]"),
        ([result("x" * 251), user()], "messages[0]"),
        ([user(), calls("a\x00")], "messages[1]"),
    ],
)
@pytest.mark.parametrize("in_session", [True, False])
def test_malformed_messages_are_named(here, messages, param, in_session):
    session = here.open() if in_session else None
    with refused("INVALID_QUERY") as raised:
        here.begin(session, *messages)
    assert raised.error.param == param
    assert not Query.objects.exists()


def test_a_session_needs_something_new(here):
    session = here.open()
    here.turn(session, user("one"))
    with refused("INVALID_QUERY"):
        here.begin(session, user("one"), says())


def test_text_that_no_database_takes_is_kept_in_the_messages_alone(here):
    here.turn(None, user("a\x00b"), answer=[says("\ud800")])
    query = Query.objects.get()
    assert query.content == "a\ufffdb"
    assert [message.content for message in query.messages.all()] == ["a\x00b", "\ud800"]


def test_what_was_said_is_removed_in_time(here, settings):
    session = here.open()
    here.turn(session, user())
    here.turn(None, user())
    here.begin(None, user("under way"))
    assert conversations.purge() == 0
    long_ago = timezone.now() - timedelta(days=settings.MCPHUB_CHAT_KEEP_DAYS + 2)
    Query.objects.update(timestamp=long_ago)
    ChatSession.objects.update(created_at=long_ago, updated_at=long_ago, expires_at=long_ago, ends_at=long_ago)
    assert conversations.purge() == 2
    assert (ChatSession.objects.count(), Query.objects.get().content) == (0, "under way")


@pytest.mark.parametrize(
    "columns",
    [
        {"max_messages": 0},
        {"max_messages": 101},
        {"turn_id": uuid.uuid4()},
        {"ends_at": datetime(2020, 1, 1, tzinfo=UTC)},
    ],
)
def test_sessions_keep_to_the_rules(here, columns):
    session = here.open()
    with pytest.raises(IntegrityError), transaction.atomic():
        ChatSession.objects.filter(pk=session.pk).update(**columns)
