"""Asking the client on behalf of a running call (MCP, Elicitation, Sampling, Roots; 2026-07-28, Input required).

Of a session the client gets a request on the call's own stream, and the call waits. A stateless client gets the
result `input_required`, and the call runs again when it comes back with the answers: see `rounds`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings

from invocations.call.context import CallInput, Suspended
from invocations.call.questions import Question, Unrecorded
from mcphub.server.pending_input import ClientResponse
from sessions_app.protocol import jsonrpc
from sessions_app.protocol.errors import AskFailed, HubError
from tools_catalog.call.input_requests import InputRequest, InvalidInputResponse

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange

_LAST_WORD_SECONDS = 2


class SessionInput:
    """By requests on the stream of the call."""

    resume_token: str | None = None

    def __init__(self, exchange: McpExchange) -> None:
        self._exchange = exchange

    async def ask(self, call: CallInput, questions: Mapping[str, InputRequest]) -> dict[str, Any]:
        exchange = self._exchange
        channel, input_requests, session_id = exchange.channel, exchange.hub.input_requests, exchange.source.session_id
        able = exchange.source.client_capabilities
        for question in questions.values():
            if not question.is_possible(able, exchange.revision):
                raise exchange.cannot_ask([question])
        waiting: dict[str, tuple[str, asyncio.Future[ClientResponse]]] = {}
        records: dict[str, Question | Unrecorded] = {}
        try:
            for key, question in questions.items():
                params = question.params(exchange.revision)
                records[key] = call.question(question.method, params)
                await records[key].intended()
                waiting[key] = input_requests.open(session_id)
                await channel.send(jsonrpc.encode_request(waiting[key][0], question.method, params))
            with call.deadline.waiting_for_client():
                async with asyncio.timeout(settings.MCPHUB_ANSWER_SECONDS):
                    return {
                        key: await _taken(call, key, question, await waiting[key][1], records[key])
                        for key, question in questions.items()
                    }
        except TimeoutError:
            patience = settings.MCPHUB_ANSWER_SECONDS
            late = AskFailed(f"The client did not answer within {patience:g} s. Call again when somebody is there.")
            for record in records.values():
                record.close(late)
            raise late from None
        except HubError as error:
            for record in records.values():
                record.close(error)
            raise
        finally:
            for record in records.values():
                record.close()
            for request_id, future in waiting.values():
                input_requests.close(session_id, request_id)
                if future.done() and not future.cancelled():
                    future.exception()  # of several that failed together only one is raised
            open_ids = [id_ for id_, future in waiting.values() if not future.done() or future.cancelled()]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    for request_id in open_ids:
                        word = {"requestId": request_id, "reason": "The call that asked has ended."}
                        await channel.notify("notifications/cancelled", word)

    def suspended(self, invocation_id: str) -> Suspended:
        raise AssertionError("a call of a session waits for its answers")


async def _taken(
    call: CallInput, key: str, question: InputRequest, message: ClientResponse, record: Question | Unrecorded
) -> Any:
    answer = {"error": message.error} if isinstance(message, jsonrpc.ErrorResponse) else {"result": message.result}
    try:
        return await call.taken(key, question, answer, record)
    except InvalidInputResponse as error:
        raise AskFailed(f"The client's answer to {question.method} cannot be used: {error}") from error
