"""Requests to an OpenAI-compatible `/embeddings`, through the egress guard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import httpx2

from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.providers.completions import TokenUsage
from mcphub.features.chat.providers.prices import estimated
from mcphub.features.chat.providers.snapshot import Provider
from mcphub.features.embeddings.models import MOST_DIMENSIONS
from mcphub.features.embeddings.vectors import Vector, VectorInvalid
from sessions_app.protocol import json
from sessions_app.protocol.errors import EgressRefused, ParseError
from sessions_app.protocol.json import Json
from tools_catalog.egress import guard as egress

MOST_ANSWER_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EmbeddingUsage:
    """The tokens that one request used."""

    tokens: TokenUsage
    is_estimated: bool = False
    """The provider did not report it."""

    @classmethod
    def unheard(cls, texts: Sequence[str]) -> EmbeddingUsage:
        """Return the usage of a request whose answer nobody read: the provider counts it all the same."""
        return cls(estimated(sum(json.size(text) for text in texts), 0), is_estimated=True)


class EmbeddingFailed(Exception):
    """The provider gave no vectors; the argument is a sentence for operators."""

    def __init__(self, sentence: str, usage: EmbeddingUsage | None = None) -> None:
        """`usage`: counted by the provider all the same; None: nothing."""
        super().__init__(sentence)
        self.usage = usage


@dataclass(frozen=True, slots=True)
class Embedded:
    """An answer of a provider."""

    vectors: list[Vector]
    """In the order of the texts."""
    usage: EmbeddingUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingModel:
    """An enabled `EmbeddingSource`."""

    pk: int
    provider: Provider
    name: str
    dimensions: int | None
    timeout_seconds: float

    @property
    def key(self) -> str:
        """Differs where vectors do."""
        return f"{self.provider.base_url}\n{self.name}\n{self.dimensions or ''}"


async def embed(model: EmbeddingModel, texts: Sequence[str], seconds: float) -> Embedded:
    """Return the vectors of texts, and the tokens used; raise EmbeddingFailed.

    `seconds`: for all of the exchange.
    """
    body: dict[str, Json] = {"model": model.name, "input": list(texts), "encoding_format": "float"}
    if model.dimensions is not None:
        body["dimensions"] = model.dimensions
    try:
        async with asyncio.timeout(seconds):
            status, whole = await _exchange(model.provider, json.dumps(body), seconds)
    except EgressRefused as error:
        raise EmbeddingFailed(error.message) from error
    except ChatError as error:
        raise EmbeddingFailed(error.message) from error
    except (TimeoutError, httpx2.TimeoutException) as error:
        raise EmbeddingFailed(f"No answer within {seconds:g} s.", EmbeddingUsage.unheard(texts)) from error
    except httpx2.HTTPError as error:
        raise EmbeddingFailed("The provider could not be reached.") from error
    if status != 200:
        raise EmbeddingFailed(f"The provider answered with HTTP status {status}.")
    usage = EmbeddingUsage.unheard(texts)
    try:
        value = json.loads(whole)
        usage = _usage(value) or usage
        return Embedded(_vectors(value, len(texts)), usage)
    except (ParseError, VectorInvalid) as error:
        raise EmbeddingFailed(f"The provider's answer has no vectors: {error}.", usage) from error


async def _exchange(provider: Provider, content: bytes, seconds: float) -> tuple[int, bytes]:
    headers = {"content-type": "application/json", **{name.lower(): value for name, value in provider.headers.items()}}
    if key := provider.key():
        headers["authorization"] = f"Bearer {key}"
    client = egress.shared_client()
    times = httpx2.Timeout(seconds)
    async with client.stream(
        "POST", f"{provider.base_url}/embeddings", headers=headers, content=content, timeout=times
    ) as response:
        whole = b""
        async for chunk in response.aiter_bytes():
            whole += chunk
            if len(whole) > MOST_ANSWER_BYTES:
                raise EmbeddingFailed(f"The provider's answer is longer than {MOST_ANSWER_BYTES} bytes.")
        return response.status_code, whole


def _vectors(value: Json, count: int) -> list[Vector]:
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, list) or len(data) != count:
        raise VectorInvalid(f"{count} were asked for")
    found: dict[int, Vector] = {}
    for at, each in enumerate(data):
        values = each.get("embedding") if isinstance(each, dict) else None
        if not isinstance(values, list) or not 0 < len(values) <= MOST_DIMENSIONS:
            raise VectorInvalid(f"a vector has 1 to {MOST_DIMENSIONS} numbers")
        index = each.get("index", at)
        found[index if isinstance(index, int) else at] = Vector.of(values)
    if found.keys() != set(range(count)):
        raise VectorInvalid("their indexes are not those of the texts")
    return [found[at] for at in range(count)]


def _usage(value: Json) -> EmbeddingUsage | None:
    """Return the reported usage."""
    usage = value.get("usage") if isinstance(value, dict) else None
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return EmbeddingUsage(TokenUsage(count, 0)) if isinstance(count, int) and 0 <= count < 1 << 40 else None
