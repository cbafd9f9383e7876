"""Asking the client on behalf of a running call (MCP, Elicitation, Sampling, Roots; 2026-07-28, Input required).

Of a session the client gets a request on the call's own stream, and the call waits. A stateless client gets the
result `input_required`, and the call runs again when it comes back with the answers: see `rounds`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from invocations.context import Asker, CallContext, Suspended
from mcphub.server.context import RequestContext
from mcphub.server.inquiries import ClientAnswer
from mcphub.server.rounds import Rounds
from sessions_app.protocol import jsonrpc
from sessions_app.protocol.errors import AskFailed
from tools_catalog.backends.questions import BadAnswer, Question

_LAST_WORD_SECONDS = 2
_SHOWN = 300
"""Characters of a client's own words that a tool is shown."""


def asker(context: RequestContext, method: str, params: dict[str, Any]) -> Asker:
    """Give the way to ask that the request's era has. `params` are the request's own."""
    if context.revision.stateless:
        return Rounds.of(context.origin, context.revision, method, params)
    return Inline(context)


class Inline:
    """By requests on the stream of the call."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context

    async def ask(self, call: CallContext, questions: Mapping[str, Question]) -> dict[str, Any]:
        context = self._context
        voice, inquiries, session_id = context.voice, context.hub.inquiries, context.origin.session_id
        if voice is None:
            raise AskFailed("The tool asks its client, and nothing can be sent on this way before the answer.")
        for question in questions.values():
            if not question.is_possible(context.origin.client_capabilities, context.revision):
                raise AskFailed(
                    f"The tool asks for {question.method}, which the client does not support. Use a client that does.",
                    requiredCapabilities=question.required,
                )
        waiting: dict[str, tuple[str, asyncio.Future[ClientAnswer]]] = {}
        try:
            for key, question in questions.items():
                waiting[key] = inquiries.open(session_id)
                params = question.params(context.revision)
                await voice.send(jsonrpc.encode_request(waiting[key][0], question.method, params))
            with call.waiting():
                async with asyncio.timeout(settings.MCPHUB_ANSWER_SECONDS):
                    return {key: _read(question, await waiting[key][1]) for key, question in questions.items()}
        except TimeoutError:
            patience = settings.MCPHUB_ANSWER_SECONDS
            raise AskFailed(
                f"The client did not answer within {patience:g} s. Call again when somebody is there."
            ) from None
        finally:
            for request_id, future in waiting.values():
                inquiries.close(session_id, request_id)
                if future.done() and not future.cancelled():
                    future.exception()  # of several that failed together only one is raised
            open_ids = [id_ for id_, future in waiting.values() if not future.done() or future.cancelled()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    for request_id in open_ids:
                        word = {"requestId": request_id, "reason": "The call that asked has ended."}
                        await voice.notify("notifications/cancelled", word)

    def suspended(self, call: CallContext) -> Suspended:
        raise AssertionError("a call of a session waits for its answers")


def _read(question: Question, message: ClientAnswer) -> Any:
    if isinstance(message, jsonrpc.ErrorResponse):
        words = str(message.error["message"])[:_SHOWN]
        raise AskFailed(f"The client refused {question.method}: {words}", client_code=message.error["code"])
    try:
        return question.read(message.result)
    except BadAnswer as error:
        raise AskFailed(f"The client's answer to {question.method} cannot be used: {error}") from error
