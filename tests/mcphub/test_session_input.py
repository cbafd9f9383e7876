"""Asking in a session: what bounds the wait for an answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from invocations.call.context import CallContext
from invocations.call.running import UnrecordedWork
from invocations.call_source import CallSource
from invocations.configuration import Configuration
from invocations.exchange import CallExchange
from mcphub.server.pending_input import PendingInputRequests
from mcphub.server.session_input import SessionInput
from sessions_app.caller import ANONYMOUS
from sessions_app.protocol import json
from sessions_app.protocol.errors import AskFailed
from sessions_app.protocol.revisions import revision
from tools_catalog.call.input_requests import Roots


class Channel:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    async def send(self, message: bytes) -> None:
        self.sent.append(json.loads(message))

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        self.sent.append({"method": method, "params": params})


def test_a_client_that_never_answers_is_waited_for_so_long(settings: Any) -> None:
    settings.MCPHUB_ANSWER_SECONDS = 0.01
    channel = Channel()
    source = CallSource(
        caller=ANONYMOUS,
        session_id="s",
        transport="sse",
        protocol_version="2025-11-25",
        client_capabilities={"roots": {}},
        in_session=True,
    )

    async def ask() -> None:
        hub = SimpleNamespace(input_requests=PendingInputRequests())
        requester = SessionInput(
            SimpleNamespace(channel=channel, hub=hub, source=source, revision=revision("2025-11-25"))
        )  # type: ignore[arg-type]
        call = CallContext(
            CallExchange(source=source, configuration=Configuration()),
            "tool",
            "id",
            UnrecordedWork(source, "1", None, 10),
        )
        await requester.ask(call.input, {"where": Roots()})

    with pytest.raises(AskFailed, match=r"did not answer within 0\.01 s"):
        asyncio.run(ask())
    asked, withdrawn = channel.sent
    assert asked["method"] == "roots/list"
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
