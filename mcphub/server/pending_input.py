"""Requests of the hub to clients of sessions, and calls of this process that wait for the answers.

The client's answer is a POST of its own and may reach any worker: one that does not wait for it passes it on
over the change bus.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from typing import TypeAlias

from django.conf import settings

from sessions_app import bus
from sessions_app.protocol import json, jsonrpc
from sessions_app.protocol.errors import AskFailed
from tools_catalog.call import session_news

ClientResponse: TypeAlias = jsonrpc.Response | jsonrpc.ErrorResponse

_PURPOSE = b"mcphub request to a client"
_GONE = -32000
"""The SDKs' code for a closed connection. Never sent: it stands for an answer that cannot come."""


class PendingInputRequests:
    """One a process."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], asyncio.Future[ClientResponse]] = {}

    def open(self, session_id: str) -> tuple[str, asyncio.Future[ClientResponse]]:
        """Return a new request id of the session, and the future of its answer. `close` it in the end."""
        nonce = secrets.token_urlsafe(12)
        request_id = f"hub.{nonce}.{_seal(session_id, nonce)}"
        future: asyncio.Future[ClientResponse] = asyncio.get_running_loop().create_future()
        self._open[session_id, request_id] = future
        return request_id, future

    def close(self, session_id: str, request_id: str) -> None:
        self._open.pop((session_id, request_id), None)

    def answer(self, session_id: str, message: ClientResponse) -> bool:
        """Hand an answer to the call that waits for it; False where none of this process does."""
        future = self._open.get((session_id, str(message.id)))
        if future is None:
            return False
        if not future.done():
            future.set_result(message)
        return True

    def abandon(self, session_id: str) -> None:
        """Fail the open requests of a session whose client has left for good."""
        for (session, request_id), future in self._open.items():
            if session == session_id and not future.done():
                future.set_result(jsonrpc.ErrorResponse(request_id, {"code": _GONE, "message": "The client has gone."}))

    async def take(self, session_id: str, message: ClientResponse) -> None:
        """Take an answer that a client posted. An answer without a request of this session is dropped."""
        if is_ours(session_id, message.id) and not self.answer(session_id, message):
            text = encode(message).decode()
            await session_news.announce(bus.SESSION_ANSWER, session_id, text)

    def end_session(self, session_id: str) -> None:
        """Nobody of this session will answer any more."""
        for key, future in self._open.items():
            if key[0] == session_id and not future.done():
                future.set_exception(AskFailed("The session of the call has ended, so nobody can be asked."))

    def heard(self, payload: str) -> None:
        """Take an answer that came over the bus."""
        session_id, text = session_news.read(payload)
        message = jsonrpc.parse(json.loads(text.encode()))
        if isinstance(message, jsonrpc.Response | jsonrpc.ErrorResponse):
            self.answer(session_id, message)


def is_ours(session_id: str, request_id: jsonrpc.RequestId | None) -> bool:
    """Return whether the hub made this id for this session. Only then other processes are asked about it."""
    prefix, _, rest = request_id.partition(".") if isinstance(request_id, str) else ("", "", "")
    nonce, _, seal = rest.partition(".")
    return prefix == "hub" and hmac.compare_digest(seal.encode(), _seal(session_id, nonce).encode())


def encode(message: ClientResponse) -> bytes:
    if isinstance(message, jsonrpc.Response):
        return jsonrpc.encode_result(message.id, message.result)
    return jsonrpc.encode_error(message.id, message.error)


def _seal(session_id: str, nonce: str) -> str:
    key = hmac.digest(settings.SECRET_KEY.encode(), _PURPOSE, hashlib.sha256)
    digest = hmac.digest(key, f"{session_id} {nonce}".encode(), hashlib.sha256)
    return urlsafe_b64encode(digest[:12]).decode()
