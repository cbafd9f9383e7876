"""The stored form of a turn: messages without values marked by rules and known formats, however late they were found.

A value that one message marks, such as an argument of a call, goes from all of the conversation, before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.db.models import Q

from invocations.redaction import records
from invocations.redaction.records import RecordRedaction
from mcphub.features.chat.engine.turn import Turn
from mcphub.features.chat.messages import Message
from mcphub.features.chat.models.conversations import AIResponse, ChatMessage, ChatSession, Query
from mcphub.features.chat.tools.functions import function_name
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json
from tools_catalog.catalog.search_definitions import CALL
from tools_catalog.catalog.snapshot import Tool

_MOST_GONE_OVER = 1000
"""Rows of each kind, the newest, that are searched for values found after they were written."""


def shown(turn: Turn, messages: Sequence[Message]) -> list[tuple[Json, Json]]:
    """Return content and tool calls of each message as rows show them, each itself where nothing is hidden."""
    tools = {function_name(tool.name): tool for tool in [*turn.reached, *turn.tools]}
    for _ in range(2):  # what a later one marks goes from an earlier one too
        size = turn.record.size
        found = [_shown(turn, tools, message) for message in messages]
        if turn.record.size == size:
            break
    return found


def _shown(turn: Turn, tools: dict[str, Tool], message: Message) -> tuple[Json, Json]:
    calls = message.get("tool_calls") or None
    if calls:
        calls = _changed(calls, lambda name, text: _arguments(turn, tools, name, text))
    return turn.record.words(message.get("content")), calls


def _arguments(turn: Turn, tools: dict[str, Tool], name: str, text: str) -> str:
    try:
        value = json.loads(text.encode("utf-8", "replace"))
    except ParseError:
        return str(turn.record.words(text))
    fresh = _recorded(turn.record, tools.get(name), name, value)
    meant = turn.searched.meant(value) if turn.searched is not None and name == CALL else None
    if meant is not None:  # the arguments of the tool that is called stand within
        called, arguments = meant
        inner = _recorded(turn.record, tools.get(function_name(called)), called, arguments)
        fresh = value if inner is arguments else {**value, "arguments": inner}
    return text if fresh is value else json.dumps(fresh).decode()


def _recorded(record: RecordRedaction, tool: Tool | None, name: str, value: Json) -> Json:
    recorded = record.arguments(tool.name if tool else name, tool.definition if tool else None, value)
    return recorded if tool is None else tool.shown(recorded)


def _changed(calls: list[Json], change: Callable[[str, str], str]) -> list[Json]:
    """Return tool calls with their arguments changed; themselves where nothing was."""
    fresh = []
    for call in calls:
        function = call["function"]
        arguments = change(function["name"], function["arguments"])
        same = arguments == function["arguments"]
        fresh.append(call if same else {**call, "function": {**function, "arguments": arguments}})
    return calls if all(new is old for new, old in zip(fresh, calls, strict=True)) else fresh


def take_up(turn: Turn, session: ChatSession) -> None:
    """Search for values that earlier turns of the session hid in this one too."""
    turn.record.seek(session.kept().get("hidden", []))
    turn.record.has_grown()


def go_over(turn: Turn, session: ChatSession | None) -> None:
    """Remove values found since the last time from earlier rows; keep them for later turns."""
    record = turn.record
    if not record.has_grown():
        return
    mine = Q(query_id=turn.id) if session is None else Q(session=session)
    changed = []
    for row in ChatMessage.objects.filter(mine).order_by("-id")[:_MOST_GONE_OVER]:
        content, calls = record.scrub(row.content), row.tool_calls
        if calls:
            calls = _changed(calls, lambda _, text: record.scrub(text))
        if content is row.content and calls is row.tool_calls:
            continue
        if session is not None and row.clear is None:
            row.clear = records.seal([row.content, row.tool_calls], of=session.owner)
        row.content, row.tool_calls = content, calls
        changed.append(row)
    ChatMessage.objects.bulk_update(changed, ["content", "tool_calls", "clear"], batch_size=100)
    queries = Query.objects.filter(Q(pk=turn.id) if session is None else Q(session=session))
    for query in queries.order_by("-timestamp")[:_MOST_GONE_OVER]:
        content, metadata = record.scrub(query.content), record.scrub(query.metadata)
        if content is not query.content or metadata is not query.metadata:
            Query.objects.filter(pk=query.pk).update(content=content, metadata=metadata)
    answers = AIResponse.objects.filter(query__in=queries.order_by().values("pk"))
    for pk, content in answers.values_list("pk", "content")[:_MOST_GONE_OVER]:
        fresh = record.scrub(content)
        if fresh is not content:
            AIResponse.objects.filter(pk=pk).update(content=fresh)
    if session is not None:
        session.keep(hidden=record.values())
        ChatSession.objects.filter(pk=session.pk).update(clear=session.clear)
