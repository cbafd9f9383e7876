"""Providers as their documents and their users' reports describe them: what each demands, and the form of its answers.

Nothing here was recorded from a live service. `docs/integrate/providers-tried.md` names the source of each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]
Refusal = tuple[int, Any]


@dataclass(frozen=True, kw_only=True)
class Tried:
    name: str
    address: str
    model: str
    kind: str = "compatible"
    demands: tuple[Callable[[Body], Refusal | None], ...] = ()
    message: Body = field(default_factory=dict)
    """The first answer: calls and what comes beside them."""
    pieces: Callable[[Body], Iterator[Body]] | None = None
    """How the answer comes in a stream; by default as OpenAI's."""
    before: bytes = b""
    """What a stream begins with."""
    finish: str = "tool_calls"


def call(number: int, a: int, b: int, **more: Any) -> Body:
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "add", "arguments": json.dumps({"a": a, "b": b})},
        **more,
    }


def calls(**beside: Any) -> Body:
    return {"role": "assistant", "content": None, "tool_calls": [call(1, 19, 23), call(2, 1, 2)], **beside}


# Streams ------------------------------------------------------------------------------------------


def as_openai(message: Body) -> Iterator[Body]:
    yield {"role": "assistant", "content": ""}
    for name, value in message.items():
        if name in ("reasoning_content", "reasoning"):
            yield from ({name: piece} for piece in re.findall(".{1,5}", value))
        elif name not in ("role", "content", "tool_calls"):
            yield {name: value}
    for index, each in enumerate(message["tool_calls"]):
        text = each["function"]["arguments"]
        yield {"tool_calls": [{**each, "index": index, "function": {"name": "add", "arguments": ""}}]}
        for piece in (text[:4], text[4:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def without_index(message: Body) -> Iterator[Body]:
    """Each call whole, in a delta of its own."""
    for each in message["tool_calls"]:
        yield {"role": "assistant", "tool_calls": [each]}


def index_always_0(message: Body) -> Iterator[Body]:
    for each in message["tool_calls"]:
        yield {"role": "assistant", "content": "", "tool_calls": [{**each, "index": 0}]}


def index_always_0_in_pieces(message: Body) -> Iterator[Body]:
    for each in message["tool_calls"]:
        text = each["function"]["arguments"]
        yield {"tool_calls": [{**each, "index": 0, "function": {"name": "add", "arguments": ""}}]}
        yield {"tool_calls": [{"index": 0, "function": {"arguments": text[:5]}}]}
        yield {"tool_calls": [{"index": 0, "function": {"arguments": text[5:]}}]}


def empty_ids_and_names(message: Body) -> Iterator[Body]:
    """Later pieces repeat the members, empty."""
    for piece in as_openai(message):
        for each in piece.get("tool_calls", ()):
            each.setdefault("id", "")
            each["function"].setdefault("name", "")
        yield piece


def random_ids(message: Body) -> Iterator[Body]:
    """Each piece has an id of its own, and no name."""
    for number, piece in enumerate(as_openai(message)):
        for each in piece.get("tool_calls", ()):
            each.setdefault("id", f"chatcmpl-tool-{number}")
        yield piece


def detailed(message: Body) -> Iterator[Body]:
    """Reasoning as a text and as details with an index, in pieces."""
    yield {
        "role": "assistant",
        "content": "",
        "reasoning": "I should",
        "reasoning_details": [{"type": "reasoning.text", "text": "I should", "index": 0, "format": "x"}],
    }
    yield {
        "content": "",
        "reasoning": " add.",
        "reasoning_details": [{"type": "reasoning.text", "text": " add.", "index": 0, "format": "x"}],
    }
    yield {
        "content": "",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "c2ln", "id": "r1", "index": 1, "format": "x"}],
    }
    yield {"content": "", "tool_calls": [{**each, "index": index} for index, each in enumerate(message["tool_calls"])]}


def in_parts(message: Body) -> Iterator[Body]:
    """Thinking as parts of the content, then text as it is."""
    yield {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I should"}]}]}
    yield {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": " add."}]}]}
    yield {"content": "", "tool_calls": [{**each, "index": index} for index, each in enumerate(message["tool_calls"])]}


# Demands ------------------------------------------------------------------------------------------


def _openai_error(message: str, param: str | None = None, code: str | None = None) -> Refusal:
    return 400, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def nodes(schema: Any) -> Iterator[Body]:
    if not isinstance(schema, dict):
        return
    yield schema
    for each in (schema.get("properties") or {}).values():
        yield from nodes(each)
    for each in [
        schema.get("items"),
        *(schema.get("anyOf") or []),
        *(schema.get("oneOf") or []),
        *(schema.get("allOf") or []),
    ]:
        yield from nodes(each)


def functions(body: Body) -> Iterator[tuple[int, Body]]:
    for at, tool in enumerate(body.get("tools") or []):
        yield at, tool["function"]


def with_calls(body: Body, *, under_way: bool = False) -> Iterator[Body]:
    messages = body["messages"]
    begins = max(at for at, message in enumerate(messages) if message["role"] == "user")
    yield from (message for message in messages[begins if under_way else 0 :] if message.get("tool_calls"))


def openai_schemas(body: Body) -> Refusal | None:
    for at, function in functions(body):
        parameters, name = function["parameters"], function["name"]
        if parameters.keys() & {"anyOf", "oneOf", "allOf", "enum", "not"}:
            words = "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
            return _openai_error(f"Invalid schema for function '{name}': {words}", f"tools[{at}].function.parameters")
        for node in nodes(parameters):
            if node.get("type") == "array" and "items" not in node:
                words = f"Invalid schema for function '{name}': array schema missing items."
                return _openai_error(words, f"tools[{at}].function.parameters", "invalid_function_parameters")
            if "(?" in str(node.get("pattern")):
                return _openai_error(
                    "Invalid JSON schema: regex lookaround is not supported.", "tools", "invalid_json_schema"
                )
    return None


def closed_messages(body: Body) -> Refusal | None:
    for at, message in enumerate(body["messages"]):
        for name in message.keys() - {"role", "content", "tool_calls", "tool_call_id", "name", "refusal"}:
            return _openai_error(f"Additional properties are not allowed ('{name}' was unexpected) - 'messages.{at}'")
    return None


def groq_messages(body: Body) -> Refusal | None:
    for at, message in enumerate(body["messages"]):
        if "reasoning_content" in message:
            return _openai_error(
                f"'messages.{at}' : for 'role:assistant' the following must be satisfied"
                f"[('messages.{at}' : property 'reasoning_content' is unsupported)]"
            )
    return None


def new_limit(body: Body) -> Refusal | None:
    if "max_tokens" in body:
        return _openai_error(
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        )
    return None


def anthropic_properties(body: Body) -> Refusal | None:
    for at, function in functions(body):
        for node in nodes(function["parameters"]):
            if any(not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in node.get("properties") or {}):
                place = f"tools.{at}.custom.input_schema.properties"
                words = f"{place}: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
                return 400, {
                    "error": {
                        "code": "invalid_request_error",
                        "message": words,
                        "type": "invalid_request_error",
                        "param": None,
                    }
                }
    return openai_schemas(body)


_GOOGLE = {
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "anyOf",
    "items",
}


def google_schemas(body: Body) -> Refusal | None:
    for at, function in functions(body):
        for node in nodes(function["parameters"]):
            place = f"GenerateContentRequest.tools[0].function_declarations[{at}].parameters"
            words = ""
            if unknown := node.keys() - _GOOGLE:
                words = f'Invalid JSON payload received. Unknown name "{min(unknown)}" at {place}: Cannot find field.'
            elif not isinstance(node.get("type", "OK" if "anyOf" in node else None), str):
                words = f"* {place}.type: must be specified"
            elif node.get("type") == "array" and not node.get("items"):
                words = f"* {place}.items: missing field."
            elif node.get("type") == "string" and node.get("format", "enum") not in ("enum", "date-time"):
                words = f"* {place}.format: only 'enum' and 'date-time' are supported for STRING type"
            if words:
                return 400, [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]
    return None


def google_signatures(body: Body) -> Refusal | None:
    for message in with_calls(body, under_way=True):
        if not message["tool_calls"][0].get("extra_content", {}).get("google", {}).get("thought_signature"):
            words = "Function call is missing a thought_signature in functionCall parts."
            return 400, [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]
    return None


def mistral_ids(body: Body) -> Refusal | None:
    ids = [each["id"] for message in with_calls(body) for each in message["tool_calls"]]
    ids += [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    wrong = next((each for each in ids if not re.fullmatch("[a-zA-Z0-9]{9}", each)), None)
    if wrong is not None:
        words = f"Tool call id was {wrong} but must be a-z, A-Z, 0-9, with a length of 9."
        return 400, {
            "object": "error",
            "message": words,
            "type": "invalid_function_call",
            "param": None,
            "code": "3280",
        }
    return None


def mistral_members(body: Body) -> Refusal | None:
    extra = [("stream_options",)] if "stream_options" in body else []
    extra += [("messages", "reasoning_content") for message in body["messages"] if "reasoning_content" in message]
    if extra:
        detail = [{"type": "extra_forbidden", "loc": ["body", *extra[0]], "msg": "Extra inputs are not permitted"}]
        return 422, {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "code": None}
    return None


def mistral_thinking(body: Body) -> Refusal | None:
    for message in with_calls(body):
        thought = [{"type": "thinking", "thinking": [{"type": "text", "text": "I should add."}]}]
        if message["content"] != thought:
            return 400, {"object": "error", "message": "The content in parts is lost.", "type": "x", "code": None}
    return None


def reasoning_back(body: Body) -> Refusal | None:
    for message in with_calls(body):
        if "reasoning_content" not in message:
            return _openai_error("The reasoning_content in the thinking mode must be passed back to the API.")
    return None


def details_back(body: Body) -> Refusal | None:
    for message in with_calls(body):
        text, signature = [*message.get("reasoning_details", []), {}, {}][:2]
        if text.get("text") != "I should add." or signature.get("data") != "c2ln":
            raw = json.dumps(
                {"type": "error", "error": {"type": "invalid_request_error", "message": "reasoning is lost"}}
            )
            return 400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    return None


def kimi_schemas(body: Body) -> Refusal | None:
    for _, function in functions(body):
        for node in nodes(function["parameters"]):
            words = ""
            if "anyOf" in node and "type" in node:
                words = "when using anyOf, type should be defined in anyOf items instead of the parent schema"
            elif "type" not in node and "anyOf" not in node:
                words = "type is not defined"
            if words:
                return 400, {
                    "error": {
                        "message": f"tools.function.parameters is no schema of ours: <At path 'root': {words}>",
                        "type": "invalid_request_error",
                    }
                }
        if not re.match("[a-zA-Z]", function["name"]):
            return 400, {
                "error": {
                    "message": "Invalid request: function name is invalid, must start with a letter",
                    "type": "invalid_request_error",
                }
            }
    return None


def grammar(body: Body) -> Refusal | None:
    for _, function in functions(body):
        for node in nodes(function["parameters"]):
            if node.keys() & {"pattern", "format", "not"} or isinstance(node.get("type"), list):
                return 400, {
                    "error": {
                        "code": 400,
                        "message": "Failed to initialize samplers: failed to parse grammar",
                        "type": "invalid_request_error",
                    }
                }
    return None


def unknown_rule(body: Body) -> Refusal | None:
    """A demand that no table foresees: it is met by what the refusal says."""
    for _, function in functions(body):
        if any("title" in node for node in nodes(function["parameters"])):
            return 400, {
                "detail": [
                    {"loc": ["body", "tools"], "msg": f"function {function['name']} has parameters with a title"}
                ]
            }
    return None


# The providers ------------------------------------------------------------------------------------

THOUGHT = "I should add."
SIGNED = {"google": {"thought_signature": "c2lnbmF0dXJl"}}
TRIED = (
    Tried(
        name="openai",
        kind="openai",
        address="https://api.openai.com/v1",
        model="gpt-5.1",
        demands=(openai_schemas, closed_messages),
        message=calls(),
    ),
    Tried(
        name="azure",
        address="https://hub.openai.azure.com/openai/v1",
        model="gpt-5.1",
        demands=(openai_schemas, closed_messages, new_limit),
        message=calls(),
        before=b'data: {"choices":[],"id":"","model":"","prompt_filter_results":[{"prompt_index":0}]}\n\n',
    ),
    Tried(
        name="anthropic",
        address="https://api.anthropic.com/v1",
        model="claude-opus-5",
        demands=(anthropic_properties,),
        message=calls(),
    ),
    Tried(
        name="google",
        address="https://generativelanguage.googleapis.com/v1beta/openai",
        model="gemini-3-pro",
        demands=(google_schemas, google_signatures),
        message={"role": "assistant", "tool_calls": [call(1, 19, 23, extra_content=SIGNED), call(2, 1, 2)]},
        pieces=without_index,
    ),
    Tried(
        name="mistral",
        address="https://api.mistral.ai/v1",
        model="magistral-medium",
        demands=(mistral_ids, mistral_members, mistral_thinking),
        message=calls(content=[{"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]}]),
        pieces=in_parts,
    ),
    Tried(
        name="deepseek",
        address="https://api.deepseek.com",
        model="deepseek-v4-pro",
        demands=(reasoning_back,),
        message=calls(reasoning_content=THOUGHT),
    ),
    Tried(
        name="kimi",
        address="https://api.moonshot.ai/v1",
        model="kimi-k2.6",
        demands=(reasoning_back, kimi_schemas),
        message=calls(reasoning_content=THOUGHT),
    ),
    Tried(
        name="qwen",
        address="https://dashscope.aliyuncs.com/compatible-mode/v1",
        model="qwen3-max",
        message=calls(reasoning_content=THOUGHT),
        pieces=empty_ids_and_names,
    ),
    Tried(
        name="groq",
        address="https://api.groq.com/openai/v1",
        model="openai/gpt-oss-120b",
        demands=(openai_schemas, groq_messages),
        message=calls(reasoning=THOUGHT),
    ),
    Tried(
        name="together",
        address="https://api.together.xyz/v1",
        model="zai-org/GLM-5",
        message=calls(),
        pieces=index_always_0_in_pieces,
    ),
    Tried(
        name="openrouter",
        address="https://openrouter.ai/api/v1",
        model="anthropic/claude-opus-5",
        demands=(details_back, anthropic_properties),
        message=calls(
            reasoning=THOUGHT,
            reasoning_details=[
                {"type": "reasoning.text", "text": THOUGHT, "index": 0, "format": "x"},
                {"type": "reasoning.encrypted", "data": "c2ln", "id": "r1", "index": 1, "format": "x"},
            ],
        ),
        pieces=detailed,
        before=b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n",
    ),
    Tried(
        name="vllm",
        address="http://gpu.internal:8000/v1",
        model="Qwen/Qwen3-32B",
        demands=(unknown_rule,),
        message=calls(reasoning=THOUGHT),
        pieces=random_ids,
    ),
    Tried(
        name="ollama",
        address="http://gpu.internal:11434/v1",
        model="qwen3-coder:30b",
        demands=(grammar,),
        message=calls(),
        pieces=index_always_0,
        finish="stop",
    ),
    Tried(
        name="llama.cpp",
        address="http://gpu.internal:8080/v1",
        model="gpt-oss-20b",
        demands=(grammar,),
        message=calls(reasoning_content=THOUGHT),
    ),
    Tried(
        name="lm_studio", address="http://gpu.internal:1234/v1", model="qwen3-8b", demands=(grammar,), message=calls()
    ),
    Tried(
        name="huawei_maas",
        kind="huawei_maas",
        address="https://api.modelarts-maas.com/v1",
        model="deepseek-v3.2",
        demands=(reasoning_back,),
        message=calls(reasoning_content=THOUGHT),
    ),
)
