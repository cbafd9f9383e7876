"""A step-by-step test of one provider, for its operator: real requests, as short as possible."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from dataclasses import dataclass

from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.providers.client import ProviderClient
from mcphub.features.chat.providers.completions import ProviderCompletion
from mcphub.features.chat.providers.snapshot import Model
from sessions_app.protocol.errors import EgressRefused
from sessions_app.protocol.json import Json
from tools_catalog.egress.rules import EgressPolicy

ADDRESS, KEY, ANSWER, STREAM, TOOLS, SCHEMA = "address", "key", "answer", "stream", "tools", "json_schema"
LONGEST_SECONDS = 20.0
"""Of one step."""
_FUNCTION = {
    "type": "function",
    "function": {
        "name": "tell_time",
        "description": "Tell the time of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "sum",
        "schema": {
            "type": "object",
            "properties": {"sum": {"type": "integer"}},
            "required": ["sum"],
            "additionalProperties": False,
        },
    },
}


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """`kind` is one of the above; `outcome` is the result, or the problem."""

    kind: str
    is_good: bool
    outcome: str
    milliseconds: int


async def probe(model: Model) -> list[ProbeStep]:
    """Check the address and the key, then ask for one token, for one in a stream, for a call, and for JSON.

    A missing capability is a failed step; later steps run all the same, once the provider has answered at all.
    """
    steps: list[ProbeStep] = []
    provider = dataclasses.replace(
        model.provider,
        retries=0,
        total_seconds=min(LONGEST_SECONDS, model.provider.total_seconds),
        first_byte_seconds=min(LONGEST_SECONDS, model.provider.first_byte_seconds),
    )
    model = dataclasses.replace(model, provider=provider)
    try:
        EgressPolicy.from_settings().check_url(provider.base_url)
        steps.append(ProbeStep(ADDRESS, True, provider.base_url, 0))
    except EgressRefused as error:
        return [ProbeStep(ADDRESS, False, str(error), 0)]
    try:
        steps.append(ProbeStep(KEY, True, "There is a key." if provider.key() else "No key is sent.", 0))
    except ChatError as error:
        return [*steps, ProbeStep(KEY, False, error.message, 0)]
    client = ProviderClient()
    try:
        steps.append(await _ask(client, model, ANSWER, "Say hi.", {}))
        if not steps[-1].is_good:
            return steps
        steps.append(await _ask(client, model, STREAM, "Say hi.", {}, stream=True))
        tools = {"tools": [_FUNCTION], "tool_choice": "required"}
        steps.append(await _ask(client, model, TOOLS, "What time is it in Kazan?", tools))
        steps.append(await _ask(client, model, SCHEMA, "What is 2 plus 3?", {"response_format": _FORM}))
    finally:
        await client.aclose()
    return steps


async def _ask(
    client: ProviderClient, model: Model, kind: str, words: str, more: dict[str, Json], *, stream: bool = False
) -> ProbeStep:
    limit = "max_completion_tokens" if model.provider.kind == "openai" else "max_tokens"
    tokens = 1 if kind in (ANSWER, STREAM) else 200
    body = {"model": model.name, "messages": [{"role": "user", "content": words}], limit: tokens, **more}
    if stream:
        body["stream"] = True
    answer = ProviderCompletion()
    began = time.monotonic()
    try:
        async with contextlib.aclosing(client.ask(model, body, answer, stream=stream)) as pieces:
            async for _ in pieces:
                pass
    except ChatError as error:
        return ProbeStep(kind, False, error.message, round((time.monotonic() - began) * 1000))
    took = round((time.monotonic() - began) * 1000)
    if kind == TOOLS:
        called = ", ".join(f"{call.name} {call.arguments}" for call in answer.calls)
        return ProbeStep(kind, bool(answer.calls), called or f"It calls nothing and says: {answer.text[:200]}", took)
    if kind == SCHEMA:
        return ProbeStep(kind, answer.text.lstrip().startswith("{") and '"sum"' in answer.text, answer.text[:200], took)
    usage = f"{answer.usage.total_tokens} tokens" if answer.usage is not None else "no usage told"
    return ProbeStep(kind, True, f"{answer.text[:200]!r}, {answer.finish_reason}, {usage}", took)
