"""Conversations as rows: who may go on with one, what the model is sent, what a turn adds, what a crash left open.

Correct with any number of workers: a turn claims its session in one transaction and gives it up in another, and no
transaction is held while a model or a tool works. Everything here is synchronous and runs in Django's thread;
`talk.py` is its asynchronous face.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from invocations import recovery
from invocations.mapping import ErrorMap
from mcphub.chat import history
from mcphub.chat.errors import ChatError
from mcphub.chat.models_conversations import AIResponse, ChatMessage, ChatSession, Query
from sessions_app.caller import Caller
from sessions_app.models import ServerProcess
from sessions_app.protocol import json

logger = logging.getLogger(__name__)

_LIVE = [ServerProcess.Status.STARTING, ServerProcess.Status.RUNNING, ServerProcess.Status.STOPPING]
_INTERRUPTED = json.dumps({"error": "interrupted"}).decode()
_UNANSWERED = json.dumps({"error": "unanswered"}).decode()
_LONGEST_ID = 250


@dataclass(slots=True, kw_only=True)
class Asked:
    """One turn, as a door hands it over."""

    caller: Caller
    door: str
    """A `Query.Door`."""
    messages: list[dict[str, Any]]
    """As the client sent them, each of OpenAI's shape: all of them, or with a session what is new."""
    session_id: str | None = None
    provider: str = ""
    """Provider or model as it was asked for."""
    metadata: dict[str, Any] = field(default_factory=dict)
    client_functions: frozenset[str] = frozenset()
    """Names of the functions that the client runs itself."""
    query_id: uuid.UUID = field(default_factory=uuid.uuid4)

    @property
    def content(self) -> str:
        """The last thing that the user says."""
        said = (message["content"] for message in reversed(self.messages) if message["role"] == "user")
        return history.text_of(next(said, ""))


@dataclass(slots=True, kw_only=True)
class Begun:
    """A turn that may go on."""

    messages: list[dict[str, Any]]
    """What the model is sent: each call with its result, and within the session's limit."""
    session: ChatSession | None


@dataclass(slots=True, kw_only=True)
class Said:
    """A message that a turn adds."""

    message: dict[str, Any]
    client_calls: list[str] = field(default_factory=list)


class Abandoned(Exception):
    """The session's turn belongs to a process that is gone."""


class Conversations:
    """One a process."""

    def __init__(
        self, process_id: str, host: str, errors: Callable[[], ErrorMap], running: Container[uuid.UUID]
    ) -> None:
        """`running`: the turns that this process knows to be under way."""
        self._process_id = process_id
        self._host = host
        self._errors = errors
        self._running = running

    # Sessions --------------------------------------------------------------------------------------

    def open(self, caller: Caller, *, preference: str, max_messages: int, context: dict[str, Any]) -> ChatSession:
        """Begin a conversation; a caller with too many loses the one used least recently."""
        now = timezone.now()
        ends_at = now + timedelta(seconds=settings.MCPHUB_CHAT_SESSION_SECONDS)
        live = _live(caller, now)
        surplus = live.count() + 1 - settings.MCPHUB_CHAT_MAX_SESSIONS_PER_CALLER
        with transaction.atomic():
            if surplus > 0:
                oldest = list(live.filter(turn_id=None).order_by("expires_at").values_list("pk", flat=True)[:surplus])
                ChatSession.objects.filter(pk__in=oldest).update(closed_at=now)
            return ChatSession.objects.create(
                principal=caller.principal, caller_label=caller.label[:150], provider_preference=preference,
                max_messages=max_messages, context=context, created_at=now, updated_at=now, ends_at=ends_at,
                expires_at=min(now + _idle(), ends_at),
            )  # fmt: skip

    def find(self, caller: Caller, session_id: str) -> tuple[ChatSession, list[ChatMessage]]:
        """Give a session of the caller's and what it holds; raise ChatError."""
        session = _mine(caller, session_id).first()
        if session is None:
            raise _not_found()
        return session, list(session.messages.filter(left_out="").order_by("id"))

    def close(self, caller: Caller, session_id: str) -> None:
        """End a session of the caller's; raise ChatError, where a turn is under way too."""
        with transaction.atomic():
            session = _mine(caller, session_id).select_for_update().first()
            if session is None:
                raise _not_found()
            if session.turn_id is not None and self._is_under_way(session):
                raise _busy()
            ChatSession.objects.filter(pk=session.pk).update(closed_at=timezone.now())

    # Turns -----------------------------------------------------------------------------------------

    def begin(self, asked: Asked) -> Begun:
        """Claim the session, if there is one, and record the query; raise ChatError."""
        _check_ids(asked.messages)
        try:
            return self._begin(asked)
        except Abandoned:
            # What the dead process left open becomes invocations first: they tell what became of the turn's calls.
            recovery.recover(self._host, self._process_id, self._errors())
            return self._begin(asked, heal=True)

    def _begin(self, asked: Asked, *, heal: bool = False) -> Begun:
        with transaction.atomic():
            session = None
            if asked.session_id is not None:
                session = self._claim(asked, heal=heal)
            query = Query.objects.create(
                id=asked.query_id, session=session, content=_clean(asked.content),
                provider=_clean(asked.provider)[:250], metadata=asked.metadata, principal=asked.caller.principal,
                caller_label=asked.caller.label[:150], door=asked.door, process_id=self._process_id,
            )  # fmt: skip
            if session is None:
                _paired(asked.messages)
                users = [index for index, message in enumerate(asked.messages) if message["role"] == "user"]
                _store(None, query, [Said(message=message) for message in asked.messages[users[-1] if users else 0 :]])
                return Begun(messages=asked.messages, session=None)
            return Begun(messages=self._extend(session, query, asked), session=session)

    def _claim(self, asked: Asked, *, heal: bool) -> ChatSession:
        session = _mine(asked.caller, asked.session_id or "").select_for_update().first()
        if session is None:
            raise _not_found()
        if session.turn_id is not None:
            if self._is_under_way(session):
                raise _busy()
            if not heal:
                raise Abandoned
            _settle(session.turn_id, Query.State.INTERRUPTED, "interrupted")
        session.turn_id, session.turn_process_id = asked.query_id, self._process_id
        _touch(session)
        session.save()
        return session

    def _extend(self, session: ChatSession, query: Query, asked: Asked) -> list[dict[str, Any]]:
        """Store what is new, leave out what is over the limit, and give what the model is sent."""
        rows = list(session.messages.order_by("id"))
        held = [row for row in rows if not row.left_out]
        # Of a repeated history the client knows what the limit left out, and nothing of turns without an answer.
        done = set(session.queries.filter(state=Query.State.DONE).values_list("pk", flat=True))
        known = [row.kept() for row in rows if row.query_id in done and not row.is_synthetic]
        try:
            new = [dict(message) for message in history.new_messages(known, asked.messages)]
        except history.Diverged as error:
            raise ChatError("INVALID_QUERY", str(error), param=f"messages[{error.index}]") from error
        if not new:
            raise ChatError(
                "INVALID_QUERY", "There is nothing new in messages. Add what the user says.", param="messages"
            )
        answered = {message.get("tool_call_id") for message in new if message["role"] == "tool"}
        missing = [call for call in history.unanswered([row.wire() for row in held]) if call["id"] not in answered]
        # A client that goes on without the results of its own functions is not shut out of its conversation.
        held += _store(session, query, [_made_up(call, _UNANSWERED) for call in missing], is_synthetic=True)
        offset = len(held) - (len(asked.messages) - len(new))
        held += _store(session, query, [Said(message=message) for message in new])
        wires = [row.wire() for row in held]
        kept = _paired(wires, session.max_messages, offset)
        out = [row.pk for index, row in enumerate(held) if index not in set(kept)]
        ChatMessage.objects.filter(pk__in=out).update(left_out=ChatMessage.LeftOut.LIMIT)
        messages = [wires[index] for index in kept]
        if session.context:
            said = f"What the application says of this conversation, as JSON: {json.dumps(session.context).decode()}"
            messages.insert(0, {"role": "system", "content": said})
        return messages

    def add(self, asked: Asked, messages: Sequence[Said]) -> None:
        """Store what a turn under way adds; raise ChatError where it is this one's no more."""
        with transaction.atomic():
            session = self._held(asked)
            query = Query.objects.get(pk=asked.query_id)
            _store(session, query, messages)

    def finish(self, asked: Asked, messages: Sequence[Said], response: AIResponse) -> None:
        """Store the answer and give the session up; raise ChatError where it is this turn's no more."""
        with transaction.atomic():
            session = self._held(asked)
            query = Query.objects.get(pk=asked.query_id)
            _store(session, query, messages)
            response.query = query
            response.content = _clean(response.content)
            response.save(force_insert=True)
            Query.objects.filter(pk=query.pk).update(state=Query.State.DONE, error_code="")
            if session is not None:
                _release(session)

    def fail(self, asked: Asked, state: str, code: str) -> None:
        """Note that a turn came to nothing, and give the session up."""
        with transaction.atomic():
            session = None
            if asked.session_id is not None:
                session = ChatSession.objects.select_for_update().filter(turn_id=asked.query_id).first()
            _settle(asked.query_id, state, code)
            if session is not None:
                _release(session)

    def _held(self, asked: Asked) -> ChatSession | None:
        if asked.session_id is None:
            return None
        session = ChatSession.objects.select_for_update().filter(turn_id=asked.query_id).first()
        if session is None:
            raise ChatError(
                "SERVER_ERROR", "This turn was taken for dead, and the conversation went on without it. Ask again.",
                should_retry=False,
            )  # fmt: skip
        return session

    # What a crash left -----------------------------------------------------------------------------

    def sweep(self) -> int:
        """Settle the turns of processes that are gone; give how many. Whoever notices first does it."""
        gone = []
        processes = Query.objects.filter(state=Query.State.RUNNING).values_list("process_id", flat=True).distinct()
        for process_id in list(processes):
            if process_id == self._process_id or self._is_gone(process_id):
                gone.append(process_id)
        open_ = Query.objects.filter(state=Query.State.RUNNING, process_id__in=gone)
        settled = 0
        for query_id in list(open_.values_list("pk", flat=True)[:1000]):
            if query_id in self._running:
                continue
            with transaction.atomic():
                session = ChatSession.objects.select_for_update().filter(turn_id=query_id).first()
                settled += _settle(query_id, Query.State.INTERRUPTED, "interrupted")
                if session is not None:
                    _release(session)
        return settled

    def _is_under_way(self, session: ChatSession) -> bool:
        if session.turn_process_id == self._process_id:
            return session.turn_id in self._running
        return not self._is_gone(session.turn_process_id)

    def _is_gone(self, process_id: str) -> bool:
        process = ServerProcess.objects.filter(pk=process_id).first()
        return process is None or process.status not in _LIVE or recovery.is_gone(process, self._host)


def purge(limit: int = 500) -> int:
    """Remove what was said too long ago; give how many queries that were. Tool calls stay in the audit."""
    before = timezone.now() - timedelta(days=settings.MCPHUB_CHAT_KEEP_DAYS)
    sessions = list(ChatSession.objects.filter(ends_at__lt=before).values_list("pk", flat=True)[:limit])
    alone = Query.objects.filter(session=None, timestamp__lt=before).exclude(state=Query.State.RUNNING)
    queries = list(alone.values_list("pk", flat=True)[:limit])
    removed = len(queries) + Query.objects.filter(session__in=sessions).count()
    ChatSession.objects.filter(pk__in=sessions).delete()
    Query.objects.filter(pk__in=queries).delete()
    return removed


# Rows ----------------------------------------------------------------------------------------------


def _store(
    session: ChatSession | None, query: Query, said: Sequence[Said], *, is_synthetic: bool = False
) -> list[ChatMessage]:
    rows = [
        ChatMessage(
            session=session, query=query, role=each.message["role"], content=each.message.get("content"),
            tool_calls=each.message.get("tool_calls") or None, tool_call_id=each.message.get("tool_call_id") or "",
            client_calls=each.client_calls, name=_clean(each.message.get("name") or "")[:100],
            is_synthetic=is_synthetic,
        )
        for each in said
    ]  # fmt: skip
    return ChatMessage.objects.bulk_create(rows)


def _settle(query_id: uuid.UUID, state: str, code: str) -> int:
    """End a turn that has no answer. What it did stays in the conversation; what it only asked does not.

    A client asks again after a failure, so the question would stand there twice. But calls that were made were made,
    and the model must know of them: those without a result get one that says so.
    """
    query = Query.objects.filter(pk=query_id, state=Query.State.RUNNING).first()
    if query is None:
        return 0
    Query.objects.filter(pk=query.pk).update(state=state, error_code=code[:40])
    rows = list(query.messages.filter(left_out="").order_by("id"))
    if not any(row.role == "assistant" and row.tool_calls for row in rows):
        query.messages.filter(left_out="").update(left_out=ChatMessage.LeftOut.FAILED)
        return 1
    missing = history.unanswered([row.wire() for row in rows])
    _store(query.session, query, [_made_up(call, _INTERRUPTED) for call in missing], is_synthetic=True)
    return 1


def _made_up(call: Any, content: str) -> Said:
    return Said(message={"role": "tool", "tool_call_id": call["id"], "content": content})


def _touch(session: ChatSession) -> None:
    session.updated_at = timezone.now()
    session.expires_at = min(session.updated_at + _idle(), session.ends_at)


def _release(session: ChatSession) -> None:
    session.turn_id, session.turn_process_id = None, ""
    _touch(session)
    session.save(update_fields=["turn_id", "turn_process_id", "updated_at", "expires_at"])


def _live(caller: Caller, now: Any) -> QuerySet[ChatSession]:
    return ChatSession.objects.filter(principal=caller.principal, closed_at=None, expires_at__gt=now)


def _mine(caller: Caller, session_id: str) -> QuerySet[ChatSession]:
    try:
        wanted = uuid.UUID(session_id)
    except ValueError:
        raise _not_found() from None
    return _live(caller, timezone.now()).filter(pk=wanted)


def _idle() -> timedelta:
    return timedelta(seconds=settings.MCPHUB_CHAT_IDLE_SECONDS)


# Errors --------------------------------------------------------------------------------------------


def _paired(messages: Sequence[dict[str, Any]], limit: float = float("inf"), offset: int = 0) -> list[int]:
    """Give the indexes to send; raise ChatError that names the message as the client numbers it."""
    try:
        return history.prune(messages, limit)
    except history.Unpaired as error:
        index = error.index - offset
        param = f"messages[{index}]" if 0 <= index < len(messages) - offset else "messages"  # one past the end
        raise ChatError("INVALID_QUERY", str(error), param=param) from error


def _check_ids(messages: Sequence[dict[str, Any]]) -> None:
    for index, message in enumerate(messages):
        ids = [message.get("tool_call_id") or "", *history.call_ids(message)]
        if any(len(id_) > _LONGEST_ID or "\x00" in id_ for id_ in ids):
            raise ChatError(
                "INVALID_QUERY", f"The id of a call has at most {_LONGEST_ID} characters.", param=f"messages[{index}]"
            )


def _clean(text: str) -> str:
    """Give text as a text column takes it; the messages themselves are kept as they came."""
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()


def _not_found() -> ChatError:
    return ChatError(
        "SESSION_NOT_FOUND", "There is no such session, or it has ended. POST /api/session begins one.",
        param="session_id",
    )  # fmt: skip


def _busy() -> ChatError:
    return ChatError("SESSION_BUSY", "The session answers another request. Wait for it.", retry_after=1)
