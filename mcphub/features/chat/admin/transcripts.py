"""Turns as people read them: messages in order, and in each its tool calls with their results and invocations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.contrib.admin.utils import quote
from django.urls import reverse

from invocations.models import McpToolInvocation
from mcphub.features.approvals.models import McpApproval
from mcphub.features.chat.messages import text_of
from mcphub.features.chat.models.conversations import ChatMessage, Query
from sessions_app.kit.shown import INLINE_CHARACTERS, clipped, duration, visible


@dataclass(slots=True)
class TranscriptCall:
    """One call of a model and its outcome."""

    tool: str
    arguments: str
    result: str = ""
    link: str = ""
    """The page of its invocation; empty where the client made the call, or nobody."""
    approval: str = ""
    """The page of the approval that it waited for."""
    took: str = ""
    is_error: bool = False
    error_code: str = ""
    is_made_up: bool = False


@dataclass(slots=True)
class TranscriptEntry:
    """One message."""

    role: str
    text: str
    left_out: str
    calls: list[TranscriptCall] = field(default_factory=list)


def page_of(query_id: str) -> str:
    """Return the address of a query's page; empty where there is no such query."""
    try:
        found = Query.objects.filter(pk=UUID(query_id)).exists()
    except ValueError:
        return ""
    return reverse("admin:chat_query_change", args=[query_id]) if found else ""


def transcript(queries: Sequence[Query]) -> Iterator[tuple[Query, list[TranscriptEntry]]]:
    """Return the messages of each query, results inside the message that called for them."""
    ids = [query.pk for query in queries]
    messages: dict[object, list[ChatMessage]] = defaultdict(list)
    for message in ChatMessage.objects.filter(query__in=ids).order_by("id"):
        messages[message.query_id].append(message)
    made: dict[tuple[str, str], McpToolInvocation] = {}
    rows = McpToolInvocation.objects.filter(turn_id__in=[str(id_) for id_ in ids], duplicate_of="")
    for row in rows.defer("arguments", "result", "error").order_by("id"):
        made.setdefault((row.turn_id or "", row.tool_call_id or ""), row)
    asked = {
        (turn_id, call_id): reverse("admin:invocations_mcpapproval_change", args=[quote(id_)])
        for turn_id, call_id, id_ in McpApproval.objects.filter(turn_id__in=[str(id_) for id_ in ids])
        .order_by()
        .values_list("turn_id", "call_id", "pk")
    }
    for query in queries:
        yield query, list(_entries(messages[query.pk], str(query.pk), made, asked))


def _entries(
    messages: Iterable[ChatMessage],
    turn_id: str,
    made: Mapping[tuple[str, str], McpToolInvocation],
    approvals: Mapping[tuple[str, str], str],
) -> Iterator[TranscriptEntry]:
    waiting: dict[str, TranscriptCall] = {}
    found: list[TranscriptEntry] = []
    for message in messages:
        text = visible(text_of(message.content)[:INLINE_CHARACTERS])
        if message.role == "tool" and message.tool_call_id in waiting:
            call = waiting.pop(message.tool_call_id)
            call.result, call.is_made_up, call.error_code = text, message.is_synthetic, message.error_code
            continue
        entry = TranscriptEntry(message.role, text, message.get_left_out_display() if message.left_out else "")
        for asked in message.tool_calls or ():
            row = made.get((turn_id, asked["id"]))
            call = TranscriptCall(
                clipped(asked["function"]["name"], 128), visible(asked["function"]["arguments"][:10_000])
            )
            call.approval = approvals.get((turn_id, asked["id"][:200]), "")
            if row is not None:
                call.tool, call.took = clipped(row.tool_name, 128), duration(row.duration_ms)
                call.is_error = row.status == "error"
                call.link = reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk])
            waiting[asked["id"]] = call
            entry.calls.append(call)
        found.append(entry)
    yield from found
