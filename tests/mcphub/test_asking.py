"""Asking in a session: what bounds the wait for an answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from invocations.context import CallContext
from invocations.origin import Origin
from mcphub.server.asking import Inline
from mcphub.server.inquiries import Inquiries
from sessions_app.caller import ANONYMOUS
from sessions_app.protocol import json
from sessions_app.protocol.errors import AskFailed
from sessions_app.protocol.revisions import revision
from tools_catalog.backends.questions import Roots


class Voice:
    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    async def send(self, message: bytes) -> None:
        self.said.append(json.loads(message))

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        self.said.append({"method": method, "params": params})


def test_a_client_that_never_answers_is_waited_for_so_long(settings: Any) -> None:
    settings.MCPHUB_ANSWER_SECONDS = 0.01
    voice = Voice()
    origin = Origin(
        caller=ANONYMOUS, session_id="s", transport="sse", protocol_version="2025-11-25",
        client_capabilities={"roots": {}}, handshake=True,
    )  # fmt: skip

    async def ask() -> None:
        hub = SimpleNamespace(inquiries=Inquiries())
        inline = Inline(SimpleNamespace(voice=voice, hub=hub, origin=origin, revision=revision("2025-11-25")))  # type: ignore[arg-type]
        call = CallContext(origin, "tool", "id", voice, None, None)
        await inline.ask(call, {"where": Roots()})

    with pytest.raises(AskFailed, match=r"did not answer within 0\.01 s"):
        asyncio.run(ask())
    asked, withdrawn = voice.said
    assert asked["method"] == "roots/list"
    assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", asked["id"])
