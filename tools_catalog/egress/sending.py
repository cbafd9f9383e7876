"""Requests of a thread over HTTP: through the egress guard, without redirects, within a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import TracebackType

import httpx2

from sessions_app.protocol.errors import HubError
from tools_catalog.egress import guard
from tools_catalog.egress.rules import EgressPolicy

PATIENCE_SECONDS = 30.0
"""For one delivery."""
_MOST_ANSWER_BYTES = 64 * 1024
_SHOWN = 200
MOST_PAUSE_SECONDS = 300.0
"""However long a receiver asks for."""


class NotDelivered(Exception):
    """A delivery did not arrive, or nobody can know that it did. The message is the reason, without secrets."""

    def __init__(self, why: str, *, status: int = 0, after_seconds: float = 0.0, body: bytes = b"") -> None:
        super().__init__(why)
        self.status = status
        """Of the answer; 0: there was none."""
        self.body = body
        self.after_seconds = after_seconds
        """For so long the receiver asks to be left alone."""


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    status: int
    body: bytes
    headers: Mapping[str, str]


class HttpSender:
    """Sends from one thread over connections that it keeps. `close` ends them."""

    def __init__(self, policy: EgressPolicy, proxy: str) -> None:
        self._policy, self._proxy = policy, proxy
        self._runner = asyncio.Runner()
        self._client: httpx2.AsyncClient | None = None

    def __enter__(self) -> HttpSender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes,
        *,
        most_bytes: int = _MOST_ANSWER_BYTES,
        seconds: float = PATIENCE_SECONDS,
    ) -> TargetAnswer:
        """Return an answer of 200 to 299, cut after so many bytes; raise NotDelivered for every other end."""
        return self._runner.run(self._send(method, url, headers, content, most_bytes, seconds))

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._runner.run(client.aclose())
        self._runner.close()

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, most_bytes: int, seconds: float
    ) -> TargetAnswer:
        if self._client is None:
            self._client = guard.client(
                self._policy, timeout_seconds=PATIENCE_SECONDS, proxy=self._proxy, connections=2
            )
        try:
            async with asyncio.timeout(seconds):
                async with guard.stream(
                    self._client, method, url, headers=headers, content=content, max_redirects=0
                ) as answer:
                    body = bytearray()
                    async for piece in answer.aiter_bytes():
                        body += piece
                        if len(body) > most_bytes:
                            break
                    if not answer.is_success:
                        raise _refusal(answer, bytes(body[:_MOST_ANSWER_BYTES]))
                    return TargetAnswer(answer.status_code, bytes(body[:most_bytes]), answer.headers)
        except TimeoutError as error:
            raise NotDelivered(f"it did not answer in {seconds:.0f} seconds") from error
        except (HubError, httpx2.HTTPError) as error:
            raise NotDelivered(str(error) or type(error).__name__) from error


def _refusal(answer: httpx2.Response, body: bytes) -> NotDelivered:
    said = "".join(letter if letter.isprintable() else " " for letter in body.decode(errors="replace"))[:_SHOWN].strip()
    words = f"it answered with status {answer.status_code}" + (f": {said}" if said else "")
    pause = _pause(answer.headers.get("retry-after", "")) if answer.status_code in (429, 503) else 0.0
    return NotDelivered(words, status=answer.status_code, after_seconds=pause, body=body)


def _pause(told: str) -> float:
    """Read Retry-After: seconds, or a date."""
    from datetime import UTC, datetime

    if told.isascii() and told.isdecimal() and len(told) < 10:
        return min(float(told), MOST_PAUSE_SECONDS)
    try:
        seconds = (parsedate_to_datetime(told) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
    return min(max(0.0, seconds), MOST_PAUSE_SECONDS)
