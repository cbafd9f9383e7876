"""Input requests from within a task, and their responses by `tasks/update` or on the stream of `tasks/result`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from invocations.call.context import CallInput, InputRequester, Suspended
from invocations.tasks.background_call import BackgroundCall, TaskStart
from sessions_app.protocol.errors import AskFailed, HubError
from tools_catalog.call.input_requests import InputRequest, InvalidInputResponse

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange

_TRIES = 5
"""Attempts at a question whose answers are unusable."""


class TaskInput:
    """Asks from within a task: the tool waits, and the answers come whenever the client gives them.

    Before the call is a task, a tool that begins it itself asks the `ordinary` way.
    """

    resume_token: str | None = None

    def __init__(self, call: BackgroundCall, exchange: McpExchange, ordinary: Callable[[], InputRequester]) -> None:
        self._call = call
        self._exchange = exchange
        self._make_ordinary = ordinary
        self._ordinary: InputRequester | None = None

    async def ask(self, call: CallInput, questions: Mapping[str, InputRequest]) -> dict[str, Any]:
        if self._call.start is TaskStart.WHEN_TOLD and self._call.task is None:
            self._ordinary = self._ordinary or self._make_ordinary()
            return await self._ordinary.ask(call, questions)
        self._refuse_impossible(questions)
        answers: dict[str, Any] = {}
        why = ""
        for number in range(1, _TRIES + 1):
            if answers.keys() == questions.keys():
                return answers
            # A key names one request of a task, for ever: who is asked again is asked under another.
            keys = {key if number == 1 else f"{key}_again_{number}": key for key in questions.keys() - answers.keys()}
            shown = {key: questions[own].params(self._exchange.revision) for key, own in keys.items()}
            requests = {key: {"method": questions[own].method, "params": shown[key]} for key, own in keys.items()}
            records = {key: call.question(questions[own].method, shown[key]) for key, own in keys.items()}
            try:
                for record in records.values():
                    await record.intended()
                for key, given in (await self._call.ask(requests)).items():
                    own = keys[key]
                    try:
                        answers[own] = await call.taken(own, questions[own], given, records[key])
                    except InvalidInputResponse as error:
                        why = str(error)
            except HubError as error:
                for record in records.values():
                    record.close(error)
                raise
            finally:
                for record in records.values():
                    record.close()
        if answers.keys() == questions.keys():
            return answers
        raise AskFailed(f"The client's answers cannot be used, {_TRIES} times: {why}")

    def suspended(self, invocation_id: str) -> Suspended:
        assert self._ordinary is not None
        return self._ordinary.suspended(invocation_id)

    def _refuse_impossible(self, questions: Mapping[str, InputRequest]) -> None:
        able, revision = self._exchange.source.client_capabilities, self._exchange.revision
        missing = [each for each in questions.values() if not each.is_possible(able, revision)]
        if missing:
            raise self._exchange.cannot_ask(missing)
