"""Conversations as rows: their owner, the messages for the model, a turn's additions, the remains of a crash.

Correct with any number of workers: a turn claims its session in one transaction and gives it up in another, and no
transaction is held while a model or a tool works. Everything here is synchronous and runs in Django's thread;
`turns.py` calls it from the event loop.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from invocations.mapping.error_map import ErrorMap
from invocations.recovery import interrupted
from invocations.redaction import records
from invocations.redaction.policy import RedactionPolicy
from invocations.redaction.records import RecordRedaction
from mcphub.features.chat import messages as chat_messages
from mcphub.features.chat.conversations import recorded
from mcphub.features.chat.engine.turn import Turn
from mcphub.features.chat.errors import ChatError, invalid
from mcphub.features.chat.models.conversations import AIResponse, ChatMessage, ChatSession, Query
from sessions_app.caller import Caller
from sessions_app.models import ServerProcess
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

_INTERRUPTED = json.dumps({"error": "interrupted"}).decode()
_UNANSWERED = json.dumps({"error": "unanswered"}).decode()
_LONGEST_ID = 250


class AbandonedTurn(Exception):
    """The turn that holds the session belongs to a process that is gone."""


class ConversationStore:
    """One a process."""

    def __init__(
        self,
        process_id: str,
        host: str,
        errors: Callable[[], ErrorMap],
        redaction: Callable[[], RedactionPolicy],
        running: Container[uuid.UUID],
    ) -> None:
        """`running`: the turns that this process knows to be under way."""
        self._process_id = process_id
        self._host = host
        self._errors = errors
        self._redaction = redaction
        self._running = running

    # Sessions --------------------------------------------------------------------------------------

    def open(self, caller: Caller, *, preference: str, max_messages: int, context: dict[str, Json]) -> ChatSession:
        """Begin a conversation; a caller with too many loses the one used least recently."""
        now = timezone.now()
        ends_at = now + timedelta(seconds=settings.MCPHUB_CHAT_SESSION_SECONDS)
        live = _live(caller, now)
        surplus = live.count() + 1 - settings.MCPHUB_CHAT_MAX_SESSIONS_PER_CALLER
        with transaction.atomic():
            if surplus > 0:
                oldest = list(live.filter(turn_id=None).order_by("expires_at").values_list("pk", flat=True)[:surplus])
                ChatSession.objects.filter(pk__in=oldest).update(closed_at=now)
            record = RecordRedaction(self._redaction())
            session = ChatSession(
                principal=caller.principal,
                caller_label=caller.label[:150],
                provider_preference=preference,
                max_messages=max_messages,
                context=record.words(context),
                created_at=now,
                updated_at=now,
                ends_at=ends_at,
                expires_at=min(now + _idle(), ends_at),
            )
            if session.context is not context:
                session.keep(context=context, hidden=record.values())
            session.save(force_insert=True)
            return session

    def find(self, caller: Caller, session_id: str) -> tuple[ChatSession, list[ChatMessage]]:
        """Return a session of the caller and its content; raise ChatError."""
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

    def begin(self, turn: Turn) -> None:
        """Claim the session, if there is one, record the query, and give the turn its messages; raise ChatError."""
        _check_ids(turn.messages)
        try:
            self._begin(turn)
        except AbandonedTurn:
            # What the dead process left open becomes invocations first: they tell what became of the turn's calls.
            interrupted.recover(self._host, self._process_id, self._errors())
            self._begin(turn, heal=True)

    def _begin(self, turn: Turn, *, heal: bool = False) -> None:
        with transaction.atomic():
            session = None if turn.session_id is None else self._claim(turn, heal=heal)
            if session is not None:
                recorded.take_up(turn, session)
            Query.objects.create(
                id=turn.id,
                session=session,
                content=turn.record.words(_clean(turn.question)),
                provider=_clean(turn.asked_for)[:250],
                metadata=turn.record.words(turn.source.metadata),
                principal=turn.caller.principal,
                caller_label=turn.caller.label[:150],
                entry_point=turn.source.entry_point,
                process_id=self._process_id,
            )
            if session is None:
                try:
                    chat_messages.units(turn.messages)
                except chat_messages.Unpaired as error:
                    raise _unpaired(error, len(turn.messages)) from error
                users = [index for index, message in enumerate(turn.messages) if message["role"] == "user"]
                _store(None, turn, turn.messages[users[-1] if users else 0 :])
            else:
                turn.messages = self._extend(session, turn)
            recorded.go_over(turn, session)
            turn.session = session

    def _claim(self, turn: Turn, *, heal: bool) -> ChatSession:
        session = _mine(turn.caller, turn.session_id or "").select_for_update().first()
        if session is None:
            raise _not_found()
        if session.turn_id is not None:
            if self._is_under_way(session):
                raise _busy()
            if not heal:
                raise AbandonedTurn
            _settle(session.turn_id, Query.State.INTERRUPTED, "interrupted")
        session.turn_id, session.turn_process_id = turn.id, self._process_id
        _touch(session)
        session.save()
        return session

    def _extend(self, session: ChatSession, turn: Turn) -> list[dict[str, Json]]:
        """Store the turn's new messages, omit those over the limit, and return the messages for the model."""
        rows = list(session.messages.order_by("id"))
        held = [row for row in rows if not row.left_out]
        # Of a repeated history the client knows what the limit left out, and nothing of turns without an answer.
        done = set(session.queries.filter(state=Query.State.DONE).values_list("pk", flat=True))
        known = [row.kept() for row in rows if row.query_id in done and not row.is_synthetic]
        try:
            new = [dict(message) for message in chat_messages.new_messages(known, turn.messages)]
        except chat_messages.Diverged as error:
            raise invalid(f"messages[{error.index}]", str(error)) from error
        if not new:
            raise invalid("messages", "There is nothing new in messages. Add what the user says.")
        answered = {message.get("tool_call_id") for message in new if message["role"] == "tool"}
        missing = [
            call for call in chat_messages.unanswered([row.wire() for row in held]) if call["id"] not in answered
        ]
        # A client that goes on without the results of its own functions is not shut out of its conversation.
        held += _store(session, turn, [_made_up(call, _UNANSWERED) for call in missing], is_synthetic=True)
        offset = len(held) - (len(turn.messages) - len(new))
        held += _store(session, turn, new)
        wires = [row.wire() for row in held]
        try:
            kept = chat_messages.prune(wires, session.max_messages)
        except chat_messages.Unpaired as error:
            error.index -= offset
            raise _unpaired(error, len(wires) - offset) from error
        out = [row.pk for index, row in enumerate(held) if index not in set(kept)]
        ChatMessage.objects.filter(pk__in=out).update(left_out=ChatMessage.LeftOut.LIMIT)
        messages = [wires[index] for index in kept]
        if session.context:
            given = json.dumps(session.given_context()).decode()
            context = f"What the application says of this conversation, as JSON: {given}"
            messages.insert(0, {"role": "system", "content": context})
        return messages

    def add(self, turn: Turn, messages: Sequence[dict[str, Json]], error_codes: Mapping[str, str]) -> None:
        """Store an addition of a running turn; raise ChatError if the session no longer belongs to it."""
        with transaction.atomic():
            session = self._held(turn)
            _store(session, turn, messages, client_functions=turn.client_functions, error_codes=error_codes)
            recorded.go_over(turn, session)

    def finish(self, turn: Turn, messages: Sequence[dict[str, Json]], response: AIResponse) -> None:
        """Store the answer and give the session up; raise ChatError where it is this turn's no more."""
        with transaction.atomic():
            session = self._held(turn)
            _store(session, turn, messages, client_functions=turn.client_functions)
            response.query_id = turn.id
            response.content = turn.record.words(_clean(response.content))
            response.save(force_insert=True)
            recorded.go_over(turn, session)
            Query.objects.filter(pk=turn.id).update(state=Query.State.DONE, error_code="")
            if session is not None:
                _release(session)

    def fail(self, turn: Turn, state: str, code: str) -> None:
        """Note that a turn came to nothing, and give the session up."""
        with transaction.atomic():
            session = None
            if turn.session_id is not None:
                session = ChatSession.objects.select_for_update().filter(turn_id=turn.id).first()
            _settle(turn.id, state, code)
            if session is not None:
                _release(session)

    def _held(self, turn: Turn) -> ChatSession | None:
        if turn.session_id is None:
            return None
        session = ChatSession.objects.select_for_update().filter(turn_id=turn.id).first()
        if session is None:
            raise ChatError(
                "SERVER_ERROR",
                "This turn was taken for dead, and the conversation went on without it. Ask again.",
                should_retry=False,
            )
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
        return process is None or interrupted.has_ended(process, self._host)


def forget_clear() -> None:
    """Erase the clear text of ended conversations: no model reads it again."""
    now = timezone.now()
    over = ChatSession.objects.filter(Q(expires_at__lte=now) | Q(closed_at__isnull=False), turn_id=None)
    ChatMessage.objects.filter(clear__isnull=False, session__in=over.values("pk")).update(clear=None)
    over.filter(clear__isnull=False).update(clear=None)


def purge(limit: int = 500) -> int:
    """Delete old messages; return the number of queries. Tool calls stay in the audit."""
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
    session: ChatSession | None,
    turn: Turn,
    messages: Sequence[dict[str, Json]],
    *,
    client_functions: Collection[str] = (),
    error_codes: Mapping[str, str] | None = None,
    is_synthetic: bool = False,
) -> list[ChatMessage]:
    """Add messages to a turn's query; their hidden parts are kept apart if a session continues with them.

    `client_functions`: names of the functions that the client runs itself. `error_codes`: of results that report a
    failure, by call ID.
    """
    codes = error_codes or {}
    rows = [
        ChatMessage(
            session=session,
            query_id=turn.id,
            role=message["role"],
            content=content,
            tool_calls=calls,
            clear=None if session is None else _apart(session, message, content, calls),
            tool_call_id=message.get("tool_call_id") or "",
            client_calls=[
                call["id"] for call in message.get("tool_calls") or () if call["function"]["name"] in client_functions
            ],
            name=_clean(message.get("name") or "")[:100],
            error_code=codes.get(message.get("tool_call_id") or "", "")[:40],
            is_synthetic=is_synthetic,
        )
        for message, (content, calls) in zip(messages, recorded.shown(turn, messages), strict=True)
    ]
    return ChatMessage.objects.bulk_create(rows)


def _apart(session: ChatSession, message: Mapping[str, Json], content: Json, calls: Json) -> str | None:
    said = [message.get("content"), message.get("tool_calls") or None]
    vendor = message.get(chat_messages.VENDOR)
    shows_all = content is said[0] and calls is said[1] and vendor is None
    return None if shows_all else records.seal(said if vendor is None else [*said, vendor], of=session.owner)


def _settle(query_id: uuid.UUID, state: str, code: str) -> int:
    """End a turn that has no answer. Its calls stay in the conversation; its mere text does not.

    A client asks again after a failure, so the question would stand there twice. Completed calls stay, and the model
    must see them: a call without a result gets a result that explains it.
    """
    query = Query.objects.filter(pk=query_id, state=Query.State.RUNNING).first()
    if query is None:
        return 0
    Query.objects.filter(pk=query.pk).update(state=state, error_code=code[:40])
    rows = list(query.messages.filter(left_out="").order_by("id"))
    if not any(row.role == "assistant" and row.tool_calls for row in rows):
        query.messages.filter(left_out="").update(left_out=ChatMessage.LeftOut.FAILED)
        return 1
    missing = chat_messages.unanswered([row.wire() for row in rows])
    ChatMessage.objects.bulk_create(
        ChatMessage(
            session=query.session,
            query_id=query_id,
            role="tool",
            content=_INTERRUPTED,
            tool_call_id=call["id"],
            is_synthetic=True,
        )
        for call in missing
    )
    return 1


def _made_up(call: Mapping[str, Json], content: str) -> dict[str, Json]:
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


def _touch(session: ChatSession) -> None:
    session.updated_at = timezone.now()
    session.expires_at = min(session.updated_at + _idle(), session.ends_at)


def _release(session: ChatSession) -> None:
    session.turn_id, session.turn_process_id = None, ""
    _touch(session)
    session.save(update_fields=["turn_id", "turn_process_id", "updated_at", "expires_at"])


def _live(caller: Caller, now: datetime) -> QuerySet[ChatSession]:
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


def _unpaired(error: chat_messages.Unpaired, count: int) -> ChatError:
    """Return the error that names the message as the client numbers its `count` messages."""
    param = f"messages[{error.index}]" if 0 <= error.index < count else "messages"  # one past the end
    return invalid(param, str(error))


def _check_ids(messages: Sequence[dict[str, Json]]) -> None:
    for index, message in enumerate(messages):
        ids = [message.get("tool_call_id") or "", *chat_messages.call_ids(message)]
        if any(len(id_) > _LONGEST_ID or "\x00" in id_ for id_ in ids):
            raise invalid(f"messages[{index}]", f"The id of a call has at most {_LONGEST_ID} characters.")


def _clean(text: str) -> str:
    """Return text as a text column takes it; the messages themselves are kept as they came."""
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()


def _not_found() -> ChatError:
    return ChatError(
        "SESSION_NOT_FOUND",
        "There is no such session, or it has ended. POST /api/session begins one.",
        param="session_id",
    )


def _busy() -> ChatError:
    return ChatError("SESSION_BUSY", "The session answers another request. Wait for it.", retry_after=1)
