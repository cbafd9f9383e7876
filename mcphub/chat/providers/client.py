"""One request to a provider: sent through the egress guard, read within its times, its errors said in our words."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any

import httpx2

from mcphub.chat.errors import ChatError
from mcphub.chat.providers.pieces import Answer, Malformed
from mcphub.chat.providers.snapshot import Model, Provider
from sessions_app.protocol import json, sse
from sessions_app.protocol.errors import EgressRefused, ParseError
from tools_catalog import egress

logger = logging.getLogger(__name__)

MAX_ANSWER_BYTES = 32 * 1024 * 1024


class ProviderClient:
    """Sends requests to providers over warm connections. One a process and event loop."""

    def __init__(self) -> None:
        self._client: httpx2.AsyncClient | None = None

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def ask(
        self, model: Model, body: dict[str, Any], answer: Answer, *, stream: bool
    ) -> AsyncGenerator[tuple[str, str], None]:
        """Send one chat completion and read its answer into `answer`; give text and reasoning as they come.

        Raises ChatError.
        """
        provider = model.provider
        if self._client is None:
            self._client = egress.client()
        request = self._request(provider, {**body, "stream": True} if stream else body, stream=stream)
        try:
            async with asyncio.timeout(provider.total_seconds):
                response = await self._client.send(request, stream=True)
                async with contextlib.aclosing(response):
                    if response.status_code != 200:
                        await response.aread()
                        raise ChatError("PROVIDER_UNAVAILABLE", f"{provider.slug} answered {response.status_code}.")
                    if not stream:
                        await response.aread()
                        answer.take_whole(json.loads(response.content))
                        yield answer.text, answer.reasoning
                        return
                    decoder = sse.Decoder()
                    async for chunk in response.aiter_bytes():
                        for event in decoder.feed(chunk):
                            if event.data != "[DONE]":
                                yield answer.take_chunk(json.loads(event.data.encode()))
        except (Malformed, ParseError) as error:
            raise ChatError("PROVIDER_UNAVAILABLE", f"{provider.slug} gave no valid answer: {error}") from error
        except EgressRefused as error:
            raise ChatError("CONNECTION_FAILED", error.message, should_retry=False) from error
        except TimeoutError as error:
            raise ChatError("TIMEOUT", f"{provider.slug} did not answer in time.") from error
        except httpx2.HTTPError as error:
            raise ChatError("CONNECTION_FAILED", f"{provider.slug} cannot be reached.") from error

    def _request(self, provider: Provider, body: dict[str, Any], *, stream: bool) -> httpx2.Request:
        assert self._client is not None
        headers = {
            **provider.headers, "content-type": "application/json",
            "accept": "text/event-stream" if stream else "application/json",
        }  # fmt: skip
        key = provider.key()
        if key:
            headers["authorization"] = f"Bearer {key}"
        times = httpx2.Timeout(
            provider.total_seconds, connect=provider.connect_seconds,
            read=provider.first_byte_seconds if stream else provider.total_seconds,
        )  # fmt: skip
        return self._client.build_request(
            "POST", f"{provider.base_url}/chat/completions", headers=headers, content=json.dumps(body), timeout=times
        )
