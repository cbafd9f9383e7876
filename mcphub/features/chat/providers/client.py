"""Requests to providers: through the egress guard, within their times, tried again while nothing has come.

No time limit is open while a piece is yielded: each guards one wait, so that a slow reader of the stream is not
mistaken for a slow provider, and a limit never ends another task's work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator

import httpx2

from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.providers.completions import Malformed, ProviderCompletion
from mcphub.features.chat.providers.health import FOR_OPERATORS, ProviderHealth
from mcphub.features.chat.providers.provider_errors import ProviderError, may_retry, to_chat_error, unavailable
from mcphub.features.chat.providers.snapshot import Model, Provider
from mcphub.features.chat.providers.wires.wire import CHAT, AnswerReader, Wire
from sessions_app.protocol import json, sse
from sessions_app.protocol.errors import EgressRefused, ParseError
from sessions_app.protocol.json import Json
from tools_catalog.egress import guard as egress
from tools_catalog.upstream.breaker import Breaker

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 32 * 1024 * 1024
MAX_EVENT_BYTES = 8 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_CONNECTIONS = 1000
_LAST_SECONDS = 0.25
_RETRY_AFTER_SECONDS = 1.0
"""The wait sent to clients if neither the provider nor its breaker names a time."""
_LONGEST_PAUSE_SECONDS = 8.0
"""A provider that asks for a longer one is not tried again: its client gets the time to come back."""


class ProviderClient:
    """Sends requests over warm connections, and stays away from providers that fail. One a process and event loop."""

    def __init__(self, *, shares_health: bool = False, client: httpx2.AsyncClient | None = None) -> None:
        """`shares_health`: share failures of providers with the other workers. `client`: in the place of the one
        behind the egress guard, closed with this.
        """
        self._client = client
        self._breakers: dict[str, Breaker] = {}
        self.health = ProviderHealth(self._breakers) if shares_health else None

    async def aclose(self) -> None:
        if self.health is not None:
            await self.health.stop()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def breaker(self, provider: Provider) -> Breaker:
        """Return the breaker of a provider, in this process."""
        found = self._breakers.get(provider.slug)
        if found is None:
            found = self._breakers[provider.slug] = Breaker(time.monotonic)
        found.limit = provider.breaker_failures
        return found

    async def ask(
        self,
        model: Model,
        body: dict[str, Json],
        answer: ProviderCompletion,
        *,
        stream: bool,
        until: float = float("inf"),
        wire: Wire = CHAT,
    ) -> AsyncGenerator[tuple[str, str], None]:
        """Send one request, in the form of its wire, and read its answer into `answer`; give text and reasoning as they
        come.

        The provider's `total_seconds` hold for all attempts and pauses together; `until` (monotonic seconds) is when
        the turn ends, whatever the provider may take. Raises ChatError.
        """
        provider = model.provider
        breaker = self.breaker(provider)
        wait = breaker.wait_seconds()
        if wait > 0:
            raise unavailable(
                f"{provider.slug} failed again and again and is left alone for a while.", retry_after=wait
            )
        is_recorded = False
        began = time.monotonic()
        deadline = min(began + provider.total_seconds, until)
        try:
            response = await self._send(provider, body, wire, stream=stream, deadline=deadline)
            reading = _read(provider, response, answer, wire.reader(answer), deadline, stream=stream)
            async with contextlib.aclosing(response), contextlib.aclosing(reading) as pieces:
                async for piece in pieces:
                    yield piece
            breaker.succeeded()
            self._record(provider, breaker, None)
            is_recorded = True
        except ChatError as error:
            # What a client did wrong says nothing of the provider's health.
            answers = error.code in ("INVALID_QUERY", "CONTENT_FILTER")
            # Nor does it that a turn left the provider little time.
            if not (until <= time.monotonic() and until - began < provider.first_byte_seconds / 2):
                (breaker.succeeded if answers or error.code in FOR_OPERATORS else breaker.failed)()
                self._record(provider, breaker, None if answers else error)
                is_recorded = True
            if error.code == "PROVIDER_UNAVAILABLE" and error.should_retry:
                error.retry_after = max(error.retry_after or _RETRY_AFTER_SECONDS, breaker.left_seconds)
            raise
        finally:
            if not is_recorded:
                breaker.left()

    def _record(self, provider: Provider, breaker: Breaker, error: ChatError | None) -> None:
        if self.health is not None:
            self.health.record(provider, breaker, error)

    async def _send(
        self, provider: Provider, body: dict[str, Json], wire: Wire, *, stream: bool, deadline: float
    ) -> httpx2.Response:
        """Return a response of status 200; try again where that helps and the deadline leaves time for it."""
        attempt = 0
        while True:
            try:
                return await self._attempt(provider, body, wire, stream=stream, deadline=deadline)
            except _RetryableError as passing:
                error, pause = passing.error, passing.error.retry_after
            if pause is None:
                pause = 0.5 * 2**attempt * (0.75 + random.random() / 2)  # noqa: S311 - no secret
            attempt += 1
            if attempt > provider.retries or pause > _LONGEST_PAUSE_SECONDS or time.monotonic() + pause > deadline:
                raise error
            logger.info("%s is asked again in %.1f s: %s", provider.slug, pause, error.code)
            await asyncio.sleep(pause)

    async def _attempt(
        self, provider: Provider, body: dict[str, Json], wire: Wire, *, stream: bool, deadline: float
    ) -> httpx2.Response:
        if self._client is None:
            self._client = egress.client(connections=_CONNECTIONS)
        request = self._request(provider, body, wire, stream=stream)
        own = provider.connect_seconds + provider.first_byte_seconds
        seconds = max(0.0, min(own, deadline - time.monotonic()))
        try:
            async with asyncio.timeout(seconds):
                response = await self._client.send(request, stream=True)
        except EgressRefused as error:
            raise unavailable(error.message, should_retry=False) from error
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise _RetryableError(unavailable(f"{provider.slug} cannot be reached.")) from error
        except (TimeoutError, httpx2.TimeoutException) as error:
            raise unavailable(f"{provider.slug} did not begin to answer within {round(seconds, 1):g} s.") from error
        except httpx2.HTTPError as error:
            # Nothing of an answer came. Whether the request arrived cannot be known, and asking again is harmless.
            raise _RetryableError(unavailable(f"The connection to {provider.slug} broke.")) from error
        if response.status_code == 200:
            return response
        try:
            provider_error = ProviderError.read(response.status_code, response.headers, await _error_body(response))
        finally:
            await response.aclose()
        if 300 <= provider_error.status < 400:
            raise unavailable(
                f"{provider.slug} redirects, which is not followed. The operator must correct its base URL.",
                should_retry=False,
            )
        failure = to_chat_error(provider.slug, provider.kind, provider_error)
        logger.info(
            "%s answered %d %s: %s", provider.slug, provider_error.status, provider_error.code[:60], failure.code
        )
        if may_retry(failure, provider_error):
            raise _RetryableError(failure)
        raise failure

    def _request(self, provider: Provider, body: dict[str, Json], wire: Wire, *, stream: bool) -> httpx2.Request:
        assert self._client is not None
        headers = {
            **wire.credentials(provider.key(), provider.base_url),
            **{name.lower(): value for name, value in provider.headers.items()},
            "content-type": "application/json",
            "accept-encoding": "identity",
            "accept": "text/event-stream" if stream else "application/json",
        }
        # The waits are bounded above, each for what it is; here only what opens a connection.
        times = httpx2.Timeout(None, connect=provider.connect_seconds, pool=provider.connect_seconds)
        return self._client.build_request(
            "POST", f"{provider.base_url}{wire.path}", headers=headers, content=json.dumps(body), timeout=times
        )


class _RetryableError(Exception):
    """A failure that may be over when the request is sent again."""

    def __init__(self, error: ChatError) -> None:
        self.error = error


async def _read(
    provider: Provider,
    response: httpx2.Response,
    answer: ProviderCompletion,
    reader: AnswerReader,
    deadline: float,
    *,
    stream: bool,
) -> AsyncGenerator[tuple[str, str], None]:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "text/event-stream":
            if not stream:
                raise Malformed("a stream, though none was asked for")
            async with contextlib.aclosing(_stream(provider, response, answer, reader, deadline)) as pieces:
                async for piece in pieces:
                    yield piece
        elif kind == "application/json" or kind.endswith("+json"):
            # Also in place of a stream: some providers cannot.
            chunks = [chunk async for chunk in _chunks(provider, response, deadline)]
            value = json.loads(b"".join(chunks))
            _raise_failure(provider, reader.failure(value))
            reader.read_whole(value)
            yield answer.text, answer.reasoning
        else:
            raise Malformed(f"the content type {kind[:60]!r}")
    except (Malformed, ParseError, sse.EventTooLarge) as error:
        logger.warning("%s gave an answer that cannot be read: %s", provider.slug, error)
        raise unavailable(f"{provider.slug} gave an answer that cannot be read: {_reason(error)}.") from error


async def _stream(
    provider: Provider, response: httpx2.Response, answer: ProviderCompletion, reader: AnswerReader, deadline: float
) -> AsyncGenerator[tuple[str, str], None]:
    decoder = sse.Decoder(max_event_bytes=MAX_EVENT_BYTES)
    async with contextlib.aclosing(_chunks(provider, response, deadline)) as chunks:
        async for chunk in chunks:
            for event in decoder.feed(chunk):
                if event.data.strip() == "[DONE]":
                    if answer.is_empty:
                        raise Malformed("a stream without choices")
                    await _drain(chunks)
                    return
                value = json.loads(event.data.encode("utf-8", "replace"))
                _raise_failure(provider, value if event.event == "error" else reader.failure(value))
                piece = reader.read_event(value)
                if piece != ("", ""):
                    yield piece
    if answer.finish_reason is None:
        raise unavailable(f"{provider.slug} broke off in the middle of its answer.")


def _raise_failure(provider: Provider, failure: Json) -> None:
    """Raise ChatError where a body or an event of status 200 is an error in the place of an answer."""
    if failure is not None:
        error = ProviderError.read(_status(failure), {}, json.dumps(failure))
        raise to_chat_error(provider.slug, provider.kind, error)


def _status(value: Json) -> int:
    """Return the status that an error names in its code; 500 where it names none."""
    error = value.get("error") if isinstance(value, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the little that follows the last event, so that the connection can be reused."""
    with contextlib.suppress(TimeoutError, ChatError, Malformed):
        async with asyncio.timeout(_LAST_SECONDS):
            async for _ in chunks:
                pass


async def _chunks(provider: Provider, response: httpx2.Response, deadline: float) -> AsyncGenerator[bytes, None]:
    """Return the body; each wait ends with the provider's time for it. Raises ChatError, Malformed."""
    chunks = response.aiter_bytes()
    seconds, size = provider.first_byte_seconds, 0
    while True:
        left = deadline - time.monotonic()
        try:
            async with asyncio.timeout(min(seconds, left)):
                chunk = await anext(chunks, None)
        except TimeoutError as error:
            raise unavailable(f"{provider.slug} stopped in the middle of its answer.") from error
        except httpx2.HTTPError as error:
            raise unavailable(f"The connection to {provider.slug} broke in the middle of its answer.") from error
        if chunk is None:
            return
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise Malformed(f"it is longer than {MAX_ANSWER_BYTES} bytes")
        yield chunk
        seconds = provider.idle_seconds


async def _error_body(response: httpx2.Response) -> bytes:
    """Return the beginning of an error's body; an error that does not end is none to wait for."""
    body = b""
    with contextlib.suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(10):
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MAX_ERROR_BYTES:
                    break
    return body


def _reason(error: Exception) -> str:
    text = str(error).removesuffix(".")
    return text.replace("The body", "it")[:200]
