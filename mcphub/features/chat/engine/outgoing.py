"""The messages of a conversation in one model's dialect, including its own vendor members. Pure.

A message of the assistant keeps, under `vendor`, the members that OpenAI's wire does not have and the model that sent
them. They go back to that model and to no other: signatures are void elsewhere, and closed wires refuse them.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from mcphub.features.chat.dialects import Dialect
from mcphub.features.chat.messages import VENDOR
from mcphub.features.chat.providers.completions import FunctionCall, ProviderCompletion
from mcphub.features.chat.providers.vendor_members import REASONING
from mcphub.features.chat.providers.wires.wire import ITEMS
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

MOST_VENDOR_BYTES = 1024 * 1024
NO_SIGNATURE = "skip_thought_signature_validator"
"""Google's word for a call that another model made."""
_OPENAI_MEMBERS = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio"})
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def keep(
    message: dict[str, Json],
    answer: ProviderCompletion,
    calls: Sequence[FunctionCall],
    model: str,
    refuses: Collection[str] = (),
) -> None:
    """Add a model's vendor members to a message. `calls`: under the ids that the conversation knows; `refuses`: models
    that refused to load tools by themselves."""
    own: dict[str, Json] = dict(answer.vendor)
    if not calls:
        for name in (*REASONING, ITEMS):  # thoughts that led to no call: models refuse or ignore them
            own.pop(name, None)
    of_calls = {call.id: call.vendor for call in calls if call.vendor}
    if not own and not of_calls and not refuses:
        return
    vendor: dict[str, Json] = {"of": model, "message": own, "calls": of_calls}
    if refuses:
        vendor["refuses"] = sorted(refuses)
    if len(json.dumps(vendor)) > MOST_VENDOR_BYTES:
        logger.warning("%s sent more than %d bytes beside an answer; they do not go back", model, MOST_VENDOR_BYTES)
        return
    message[VENDOR] = vendor


def refusing(messages: Iterable[Mapping[str, Json]]) -> set[str]:
    """Return the models that refused, earlier in the conversation, to load tools by themselves."""
    return {model for message in messages for model in (message.get(VENDOR) or {}).get("refuses", ())}


def outgoing(messages: Sequence[Mapping[str, Json]], model: str, dialect: Dialect) -> list[dict[str, Json]]:
    """Return the messages as the model takes them. `model`: its id, as `keep` got it."""
    begins = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=-1)
    made = []
    for at, message in enumerate(messages):
        fresh = _with_vendor(message, model, dialect)
        if fresh.get("tool_calls"):
            if dialect.calls_need and not any(name in fresh for name in REASONING):
                fresh[dialect.calls_need] = dialect.calls_need_value
            if dialect.needs_signature and at > begins:
                fresh["tool_calls"] = _signed(fresh["tool_calls"])
        made.append(fresh)
    return made if dialect.call_ids is None else [_with_ids(each, dialect) for each in made]


def _with_vendor(message: Mapping[str, Json], model: str, dialect: Dialect) -> dict[str, Json]:
    vendor = message.get(VENDOR) or {}
    fresh = {name: value for name, value in message.items() if name != VENDOR}
    if dialect.is_closed:
        fresh = {name: value for name, value in fresh.items() if name in _OPENAI_MEMBERS}
        if fresh.get("tool_calls"):
            fresh["tool_calls"] = [_plain_call(call) for call in fresh["tool_calls"]]
    if vendor.get("of") != model:
        return fresh
    fresh |= vendor["message"]
    if fresh.get("tool_calls"):
        fresh["tool_calls"] = [_call(call, vendor["calls"].get(call["id"], {})) for call in fresh["tool_calls"]]
    return fresh


def _call(call: Mapping[str, Json], vendor: Mapping[str, Json]) -> dict[str, Json]:
    of_function = vendor.get("function", {})
    return {**call, **vendor, "function": {**call["function"], **of_function}}


def _plain_call(call: Mapping[str, Json]) -> dict[str, Json]:
    function = call["function"]
    plain = {"name": function["name"], "arguments": function["arguments"]}
    return {"id": call["id"], "type": "function", "function": plain}


def _signed(calls: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return the calls of one message with a signature on the first, where none of them has one."""
    if any("thought_signature" in json.dumps(call.get("extra_content") or {}).decode() for call in calls):
        return list(calls)
    extra = {"extra_content": {"google": {"thought_signature": NO_SIGNATURE}}}
    return [{**calls[0], **extra}, *calls[1:]]


def _with_ids(message: dict[str, Json], dialect: Dialect) -> dict[str, Json]:
    """Return the message with ids of calls that the provider takes; the same id always becomes the same."""
    if message.get("tool_calls"):
        calls = [{**call, "id": _id(call["id"], dialect)} for call in message["tool_calls"]]
        return {**message, "tool_calls": calls}
    if message["role"] == "tool":
        return {**message, "tool_call_id": _id(str(message.get("tool_call_id")), dialect)}
    return message


def _id(call_id: str, dialect: Dialect) -> str:
    if dialect.call_ids is None or dialect.call_ids.fullmatch(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:9])
