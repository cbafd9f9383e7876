"""A client's `POST /v1/responses`, read into the conversation that the engine takes. Pure. Raises ChatError."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mcphub.features.chat.endpoints.completion_requests import bound_question
from mcphub.features.chat.engine import tool_selection
from mcphub.features.chat.engine.tool_selection import RequestedServer
from mcphub.features.chat.errors import invalid
from mcphub.features.chat.tools.functions import LONGEST_CLIENT_NAME, function_name
from sessions_app.protocol.json import Json

_REFUSED = {
    "background": "Leave out background: the hub answers while the client waits, plainly or as a stream.",
    "conversation": "Leave out conversation: name the response before this one in previous_response_id.",
    "prompt": "Leave out prompt: write instructions and input.",
}
_FORWARDED = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_completion_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
    "user": "user",
    "safety_identifier": "safety_identifier",
}
"""Member of this wire -> parameter of chat completions."""
_KNOWN = {
    *_FORWARDED,
    "model",
    "input",
    "instructions",
    "previous_response_id",
    "stream",
    "store",
    "metadata",
    "tools",
    "tool_choice",
    "text",
    "reasoning",
    "max_tool_calls",
}
_ROLES = ("user", "assistant", "system", "developer")
_SEARCHES_OF_THE_WEB = ("web_search", "web_search_preview")
"""Which clients offer without being asked to, as Codex does: a model without them answers from what it knows."""


@dataclass(slots=True, kw_only=True)
class ApprovalDecision:
    """A client's decision about a call that waited for approval."""

    approval_id: str
    approve: bool
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class ResponseRequest:
    """A request, checked."""

    model: str | None
    messages: list[dict[str, Json]]
    """The request's additions to the conversation, in the form of chat completions."""
    instructions: str | None
    previous_id: str | None
    decisions: list[ApprovalDecision]
    servers: list[RequestedServer] = field(default_factory=list)
    functions: list[dict[str, Json]] = field(default_factory=list)
    """The client's own, in the shape of chat completions."""
    namespaces: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The client's functions by the name that the model knows: the namespace, empty without one, and the name in it."""
    parameters: dict[str, Json] = field(default_factory=dict)
    max_calls: int | None = None
    stream: bool = False
    store: bool = True
    echo: dict[str, Json] = field(default_factory=dict)
    """Members returned unchanged in the answer."""
    ignored: list[str] = field(default_factory=list)


def read(body: dict[str, Json], *, most_characters: int) -> ResponseRequest:
    """Read the body of a request. `most_characters` bounds the user's last message."""
    for member, advice in _REFUSED.items():
        if body.get(member):
            raise invalid(member, advice, openai_code="unsupported_parameter")
    messages, decisions, more_tools = _input(body.get("input"))
    request = ResponseRequest(
        model=_text(body, "model"),
        messages=messages,
        instructions=_text(body, "instructions"),
        previous_id=_text(body, "previous_response_id"),
        decisions=decisions,
        stream=_flag(body, "stream", False),
        store=_flag(body, "store", True),
    )
    if not messages and not decisions:
        raise invalid("input", "input must be a text, or a list with at least one item.")
    bound_question(messages, most_characters, "input")
    if body.get("tools") is not None:
        _tools(request, body["tools"], "tools")
    for where, tools in more_tools:
        _tools(request, tools, where)
    request.max_calls = body.get("max_tool_calls")
    if request.max_calls is not None and (type(request.max_calls) is not int or request.max_calls < 1):
        raise invalid("max_tool_calls", "max_tool_calls must be a number from 1.")
    request.parameters = {name: body[member] for member, name in _FORWARDED.items() if body.get(member) is not None}
    choice = _tool_choice(body.get("tool_choice"))
    if choice is not None:
        request.parameters["tool_choice"] = choice
    effort = _object(body, "reasoning", "reasoning").get("effort")
    if effort is not None:
        request.parameters["reasoning_effort"] = effort
    _format(request, _object(body, "text", "text"))
    request.echo = _echo(body)
    request.ignored += sorted(name for name in body if name not in _KNOWN and body[name] is not None)
    return request


def _echo(body: dict[str, Json]) -> dict[str, Json]:
    metadata = body.get("metadata") or {}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise invalid("metadata", "metadata must be an object of texts.")
    if len(metadata) > 16 or any(len(k) > 64 or len(v) > 512 for k, v in metadata.items()):
        raise invalid("metadata", "metadata takes 16 names of 64 characters, with 512 characters each.")
    return {
        "instructions": body.get("instructions"),
        "metadata": metadata,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "temperature": body.get("temperature"),
        "top_p": body.get("top_p"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": body.get("reasoning"),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": [_echoed_tool(tool) for tool in body.get("tools") or []],
        "truncation": "disabled",
        "store": body.get("store") is not False,
    }


def _echoed_tool(tool: dict[str, Json]) -> dict[str, Json]:
    """Return a tool as it is returned and stored: without credentials that a client may have included."""
    return {name: value for name, value in tool.items() if name not in ("authorization", "headers")}


# Input -------------------------------------------------------------------------------------------


def _input(value: Json) -> tuple[list[dict[str, Json]], list[ApprovalDecision], list[tuple[str, Json]]]:
    """Return messages, decisions, and the lists of tools that items bring, each with its place."""
    if isinstance(value, str):
        return ([{"role": "user", "content": value}] if value else []), [], []
    if value is None:
        return [], [], []
    if not isinstance(value, list):
        raise invalid("input", "input must be a text or a list of items.")
    messages: list[dict[str, Json]] = []
    decisions: list[ApprovalDecision] = []
    tools: list[tuple[str, Json]] = []
    for at, item in enumerate(value):
        where = f"input[{at}]"
        if not isinstance(item, dict):
            raise invalid(where, f"{where} must be an object.")
        if item.get("type") == "mcp_approval_response":
            decisions.append(_decision(item, where))
        elif item.get("type") == "additional_tools":
            tools.append((f"{where}.tools", item.get("tools")))
        else:
            _add_item(messages, item, where)
    return messages, decisions, tools


def _add_item(messages: list[dict[str, Json]], item: dict[str, Json], where: str) -> None:
    kind = item.get("type") or "message"
    if kind == "message":
        messages.append(_message(item, where))
    elif kind == "function_call":
        _call(messages, _required_text(item, "call_id", where), item, where)
    elif kind == "function_call_output":
        output = item.get("output")
        content = output if isinstance(output, str) else _text_of(output, f"{where}.output")
        messages.append({"role": "tool", "tool_call_id": _required_text(item, "call_id", where), "content": content})
    elif kind == "mcp_call":
        call_id = _required_text(item, "id", where)
        _call(messages, call_id, item, where)
        output = item.get("output")
        content = output if isinstance(output, str) else f"The call failed: {item.get('error') or 'no output'}"
        messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
    elif kind == "mcp_approval_request":
        call_id = _required_text(item, "id", where)
        _call(messages, call_id, item, where)
        messages.append({"role": "tool", "tool_call_id": call_id, "content": "Nobody has approved this call yet."})
    elif kind not in ("mcp_list_tools", "reasoning"):
        raise invalid(f"{where}.type", f"{where} is of the type {str(kind)[:60]!r}, which the hub does not take.")


def _call(messages: list[dict[str, Json]], call_id: str, item: dict[str, Json], where: str) -> None:
    """Add a call, by the name that the model knows; calls that stand together were made in one round."""
    name = function_name(_known_name(item, _required_text(item, "name", where), where))
    function = {"name": name, "arguments": _required_text(item, "arguments", where)}
    call = {"id": call_id, "type": "function", "function": function}
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant":
        last.setdefault("tool_calls", []).append(call)
    else:
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})


def _message(item: dict[str, Json], where: str) -> dict[str, Json]:
    role = item.get("role")
    if role not in _ROLES:
        raise invalid(f"{where}.role", f"{where}.role must be one of {', '.join(_ROLES)}.")
    content = item.get("content")
    if isinstance(content, str):
        return {"role": role, "content": content}
    if not isinstance(content, list):
        raise invalid(f"{where}.content", f"{where}.content must be a text or a list of parts.")
    parts = [_part(part, f"{where}.content[{at}]") for at, part in enumerate(content)]
    if all(part["type"] == "text" for part in parts):
        return {"role": role, "content": "".join(part["text"] for part in parts)}
    return {"role": role, "content": parts}


def _part(part: Json, where: str) -> dict[str, Json]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return {"type": "text", "text": part["refusal"]}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        return {"type": "image_url", "image_url": {"url": part["image_url"], "detail": part.get("detail") or "auto"}}
    raise invalid(where, f"{where} must be input_text, output_text, refusal, or input_image with image_url.")


def _text_of(parts: Json, where: str) -> str:
    if not isinstance(parts, list):
        raise invalid(where, f"{where} must be a text or a list of parts.")
    read = [_part(part, f"{where}[{at}]") for at, part in enumerate(parts)]
    return "".join(part.get("text", "") for part in read)


def _decision(item: dict[str, Json], where: str) -> ApprovalDecision:
    approve = item.get("approve")
    if not isinstance(approve, bool):
        raise invalid(f"{where}.approve", f"{where}.approve must be true or false.")
    reason = item.get("reason")
    return ApprovalDecision(
        approval_id=_required_text(item, "approval_request_id", where),
        approve=approve,
        reason=reason if isinstance(reason, str) else "",
    )


def _required_text(item: dict[str, Json], member: str, where: str) -> str:
    value = item.get(member)
    if not isinstance(value, str) or not (value or member == "arguments"):
        raise invalid(f"{where}.{member}", f"{where}.{member} must be a text.")
    return value


# The rest ----------------------------------------------------------------------------------------


def namespaced(namespace: str, name: str) -> str:
    """Return the name of a namespace's function for providers, whose functions have no namespaces."""
    return f"{namespace}__{name}"


def _known_name(item: dict[str, Json], name: str, where: str) -> str:
    """Return the name by which the model knows the function that a client names by `namespace` and `name`."""
    namespace = item.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        raise invalid(f"{where}.namespace", f"{where}.namespace must be a text.")
    return namespaced(namespace, name) if namespace else name


def _tools(request: ResponseRequest, tools: Json, where: str) -> None:
    """Add tools, those of items after those of the request. Of one function that is sent twice the last applies."""
    if not isinstance(tools, list):
        raise invalid(where, f"{where} must be a list.")
    for at, tool in enumerate(tools):
        _tool(request, tool, f"{where}[{at}]")


def _tool(request: ResponseRequest, tool: Json, where: str) -> None:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind == "mcp":
        server, unused = tool_selection.read_mcp_tool(tool, where)
        request.servers.append(server)
        request.ignored += unused
    elif kind == "function":
        function = _function(tool, where)
        _add(request, function, ("", function["function"]["name"]), where)
    elif kind == "namespace":
        _namespace(request, tool, where)
    elif kind == "tool_search" and tool.get("execution") in (None, "server"):
        request.ignored.append(where)  # functions that it would find are listed
    elif isinstance(kind, str) and kind.startswith(_SEARCHES_OF_THE_WEB):
        request.ignored.append(where)
    else:
        raise invalid(
            f"{where}.type",
            f"{where} must be of the type mcp, function or namespace; the hub has no others.",
            openai_code="unsupported_parameter",
        )


def _namespace(request: ResponseRequest, tool: dict[str, Json], where: str) -> None:
    name, members = tool.get("name"), tool.get("tools")
    if not isinstance(name, str) or not name:
        raise invalid(f"{where}.name", f"{where}.name must be a text.")
    if not isinstance(members, list):
        raise invalid(f"{where}.tools", f"{where}.tools must be a list of functions.")
    for at, each in enumerate(members):
        place = f"{where}.tools[{at}]"
        if not isinstance(each, dict) or each.get("type") != "function":
            raise invalid(
                f"{place}.type", f"{place} must be of the type function.", openai_code="unsupported_parameter"
            )
        own = _function(each, place)["function"]["name"]
        _add(request, _function({**each, "name": namespaced(name, own)}, place), (name, own), place)
    if tool.get("description"):
        request.ignored.append(f"{where}.description")


def _add(request: ResponseRequest, function: dict[str, Any], own: tuple[str, str], where: str) -> None:
    """Add a function; raise if another one would have its name at the model, whose calls could be of either."""
    name = function["function"]["name"]
    other = request.namespaces.setdefault(name, own)
    if other != own:
        both = " and ".join(
            f"{each!r} of {namespace!r}" if namespace else repr(each) for namespace, each in (other, own)
        )
        raise invalid(
            f"{where}.name", f"{where}.name: the model would know both {both} as {name!r}. Rename one of them."
        )
    request.functions.append(function)


def _function(tool: dict[str, Json], where: str) -> dict[str, Json]:
    """Return a flat function of this wire in the nested shape of chat completions."""
    name = tool.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_CLIENT_NAME:
        raise invalid(f"{where}.name", f"{where}.name must be a text of 1 to {LONGEST_CLIENT_NAME} characters.")
    members = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {each: tool[each] for each in members if tool.get(each) is not None}}


def _tool_choice(value: Json) -> Json:
    """Return the choice in the words of chat completions; None where nobody chose."""
    if value is None or value in ("none", "auto", "required"):
        return value
    kind = value.get("type") if isinstance(value, dict) else None
    name = value.get("name") if isinstance(value, dict) else None
    if kind in ("function", "mcp") and isinstance(name, str):
        return {"type": "function", "function": {"name": _known_name(value, name, "tool_choice")}}
    if kind == "mcp" and name is None:
        return "required"
    raise invalid(
        "tool_choice", "tool_choice must be none, auto, required, or an object that names a function or an mcp tool."
    )


def _format(request: ResponseRequest, text: dict[str, Json]) -> None:
    form = _object(text, "format", "text.format")
    kind = form.get("type", "text")
    if kind == "json_schema":
        schema = {name: value for name, value in form.items() if name != "type"}
        request.parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind == "json_object":
        request.parameters["response_format"] = {"type": "json_object"}
    elif kind != "text":
        raise invalid("text.format", "text.format must be of the type text, json_schema or json_object.")


def _text(body: dict[str, Json], member: str) -> str | None:
    value = body.get(member)
    if value is not None and not isinstance(value, str):
        raise invalid(member, f"{member} must be a text.")
    return value or None


def _object(body: dict[str, Json], member: str, where: str) -> dict[str, Json]:
    """Return the member, or an empty object where it is absent or null."""
    value = body.get(member)
    if value is not None and not isinstance(value, dict):
        raise invalid(where, f"{where} must be an object.")
    return value or {}


def _flag(body: dict[str, Json], member: str, default: bool) -> bool:
    value = body.get(member)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid(member, f"{member} must be true or false.")
    return value
