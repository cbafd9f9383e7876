"""A client's chat completion request, read and checked. Pure. Raises ChatError that names the parameter."""

from __future__ import annotations

from dataclasses import dataclass, field

from mcphub.features.chat.engine import tool_selection
from mcphub.features.chat.engine.tool_selection import RequestedServer, tools_named
from mcphub.features.chat.errors import ChatError, invalid
from mcphub.features.chat.messages import ROLES, VENDOR, Unpaired, text_of, units
from mcphub.features.chat.tools.functions import LONGEST_CLIENT_NAME, function_name
from sessions_app.protocol.json import Json

_NUMBERS = frozenset({"temperature", "top_p", "presence_penalty", "frequency_penalty"})
_WHOLE = frozenset({"max_tokens", "max_completion_tokens", "seed"})
_TEXTS = frozenset({"user", "safety_identifier", "reasoning_effort", "prompt_cache_key", "service_tier", "verbosity"})
FORWARDED = _NUMBERS | _WHOLE | _TEXTS | {"stop", "response_format", "tool_choice", "parallel_tool_calls"}
"""Members that are forwarded to the provider."""
_READ_HERE = frozenset({"model", "messages", "stream", "stream_options", "tools", "n", "x_mcp"})
_INSTEAD = {
    "functions": "Send tools instead.",
    "function_call": "Send tool_choice instead.",
    "audio": "The hub passes text on.",
}
MOST_MESSAGES = 10_000


@dataclass(slots=True, kw_only=True)
class CompletionRequest:
    """A client's request, in the terms of the wire."""

    model: str | None
    messages: list[dict[str, Json]]
    stream: bool = False
    include_usage: bool = False
    include_x_mcp: bool = False
    parameters: dict[str, Json] = field(default_factory=dict)
    client_tools: list[dict[str, Json]] = field(default_factory=list)
    servers: list[RequestedServer] | None = None
    """The hub's tools that it selects; None: not mentioned."""
    session_id: str | None = None
    ignored: list[str] = field(default_factory=list)
    """Parameters that the hub does not know."""


def read(body: dict[str, Json], *, most_characters: int, session_id: str | None = None) -> CompletionRequest:
    """Read the body of a request. `most_characters` bounds the user's last message; `session_id` does not come from
    the body.
    """
    for name, instead in _INSTEAD.items():
        if body.get(name) is not None:
            raise _unsupported(name, instead)
    if body.get("n") not in (None, 1):
        raise _unsupported("n", "One answer is made; send n: 1, or leave it out.")
    model = body.get("model")
    if model is not None and (not isinstance(model, str) or not model):
        raise _invalid("model", "must be a text, such as one of GET /v1/models.")
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise _invalid("stream_options", "must be an object.")
    extension = body.get("x_mcp") or {}
    if not isinstance(extension, dict):
        raise _invalid("x_mcp", "must be an object.")
    named_session = extension.get("session_id")
    if named_session is not None and not isinstance(named_session, str):
        raise _invalid("x_mcp.session_id", "must be a text.")
    if session_id and named_session not in (None, session_id):
        raise _invalid("x_mcp.session_id", "names another session than X-Session-Id. Send one of them.")
    session_id = named_session or session_id
    client_tools, servers = _tools(body.get("tools"))
    if "tools" in extension:
        servers = [*(servers or []), *_extension_tools(extension["tools"])]
    return CompletionRequest(
        model=model,
        # A session knows the calls whose results its client sends.
        messages=messages(body.get("messages"), most_characters=most_characters, paired=session_id is None),
        stream=_flag(body, "stream"),
        include_usage=_flag(options, "include_usage", "stream_options."),
        include_x_mcp=_flag(options, "include_x_mcp", "stream_options."),
        parameters=_parameters(body),
        client_tools=client_tools,
        servers=servers,
        session_id=session_id,
        ignored=sorted(body.keys() - FORWARDED - _READ_HERE - _INSTEAD.keys()),
    )


def messages(value: Json, *, most_characters: int, paired: bool = True) -> list[dict[str, Json]]:
    """Check messages in OpenAI's shape. `paired`: each call has its result among them, and each result its call."""
    if not isinstance(value, list) or not value:
        raise _invalid("messages", "must be an array with at least one message.")
    if len(value) > MOST_MESSAGES:
        raise _invalid("messages", f"holds {len(value)} messages; {MOST_MESSAGES} are the most.")
    for index, message in enumerate(value):
        _message(message, f"messages[{index}]")
    bound_question(value, most_characters, "messages")
    if paired:
        try:
            units(value)
        except Unpaired as error:
            raise invalid(f"messages[{error.index}]", str(error)) from error
    return value


def bound_question(messages: list[dict[str, Json]], most_characters: int, param: str) -> None:
    """Raise ChatError if the user's last message is empty, or longer than the setting allows."""
    last = next((each for each in reversed(messages) if each["role"] == "user"), None)
    if last is not None:
        length = len(text_of(last["content"]))
        if isinstance(last["content"], str) and not last["content"].strip():
            raise _invalid(param, "ends with a user's message that says nothing. Ask something.")
        if length > most_characters:
            raise _invalid(param, f"ends with {length} characters of a user; {most_characters} are the most.")


def _message(message: Json, at: str) -> None:
    if not isinstance(message, dict):
        raise _invalid(at, "must be an object with role and content.")
    message.pop(VENDOR, None)  # the hub's own
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or role not in ROLES:
        raise _invalid(f"{at}.role", f"must be one of {', '.join(sorted(ROLES))}.")
    is_parts = isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("type"), str) for part in content
    )
    calls = message.get("tool_calls")
    if not (isinstance(content, str) or (is_parts and content) or (role == "assistant" and content is None)):
        raise _invalid(f"{at}.content", "must be a text, or an array of parts.")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise _invalid(f"{at}.tool_call_id", "must be the id of the call that this is the result of.")
    if calls is None:
        return
    if role != "assistant" or not isinstance(calls, list) or not calls:
        raise _invalid(f"{at}.tool_calls", "must be an array of calls, in a message of the assistant.")
    for number, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if (
            not isinstance(function, dict)
            or not isinstance(call.get("id"), str)
            or not isinstance(function.get("name"), str)
            or not isinstance(function.get("arguments"), str)
        ):
            raise _invalid(f"{at}.tool_calls[{number}]", "must have id, and function with name and arguments as texts.")
        call["function"] = {**function, "name": function_name(function["name"])}  # as the model knows it


def _tools(value: Json) -> tuple[list[dict[str, Json]], list[RequestedServer] | None]:
    if value is None:
        return [], None
    if not isinstance(value, list):
        raise _invalid("tools", "must be an array.")
    functions: dict[str, dict[str, Json]] = {}
    servers: list[RequestedServer] | None = None
    for index, entry in enumerate(value):
        at = f"tools[{index}]"
        kind = entry.get("type") if isinstance(entry, dict) else None
        if kind == "function":
            name = _function(entry.get("function"), f"{at}.function")
            if name in functions:
                raise _invalid(f"{at}.function.name", f"says {name!r}, as another one does. Name each function once.")
            functions[name] = entry
        elif kind == "mcp":
            # Chat completions have no word for approvals, so they are not the default, as with Responses.
            servers = [
                *(servers or []),
                tool_selection.read_mcp_tool({"require_approval": "never", **entry}, f"tools[{index}]")[0],
            ]
        else:
            raise _unsupported(f"{at}.type", "Tools are of type function, or mcp.")
    return list(functions.values()), servers


def _function(value: Json, at: str) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_CLIENT_NAME:
        raise _invalid(f"{at}.name", f"must be a text of 1 to {LONGEST_CLIENT_NAME} characters.")
    parameters = value.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise _invalid(f"{at}.parameters", "must be a JSON Schema, an object.")
    return name


def _extension_tools(value: Json) -> list[RequestedServer]:
    """Read `x_mcp.tools`: "all", "none", or names of tools."""
    if value == "all":
        return [tools_named(None)]
    if value == "none" or value is None:
        return []
    if isinstance(value, list) and all(isinstance(each, str) and each for each in value):
        return [tools_named(value)] if value else []
    raise _invalid("x_mcp.tools", "must be all, none, or an array of names.")


def _parameters(body: dict[str, Json]) -> dict[str, Json]:
    given = {name: body[name] for name in sorted(FORWARDED) if body.get(name) is not None}
    for name, value in given.items():
        if name in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise _invalid(name, "must be a number.")
        if name in _WHOLE and (isinstance(value, bool) or not isinstance(value, int)):
            raise _invalid(name, "must be a whole number.")
        if name in _TEXTS and not isinstance(value, str):
            raise _invalid(name, "must be a text.")
    _flag(body, "parallel_tool_calls")
    stop = given.get("stop")
    if (
        stop is not None
        and not isinstance(stop, str)
        and not (isinstance(stop, list) and all(isinstance(each, str) for each in stop))
    ):
        raise _invalid("stop", "must be a text, or an array of texts.")
    form = given.get("response_format")
    if form is not None and (not isinstance(form, dict) or not isinstance(form.get("type"), str)):
        raise _invalid("response_format", "must be an object with a type.")
    choice = given.get("tool_choice")
    if isinstance(choice, dict):
        function = choice.get("function")
        if choice.get("type") != "function" or not isinstance(function, dict) or not function.get("name"):
            raise _unsupported("tool_choice", 'Write none, auto, required, or {"type": "function", "function": …}.')
    elif choice not in (None, "none", "auto", "required"):
        raise _invalid("tool_choice", "must be none, auto, required, or an object that names a function.")
    return given


def _flag(values: dict[str, Json], name: str, within: str = "") -> bool:
    value = values.get(name)
    if value is not None and not isinstance(value, bool):
        raise _invalid(f"{within}{name}", "must be true or false.")
    return value is True


def _invalid(param: str, sentence: str) -> ChatError:
    return invalid(param, f"{param} {sentence}")


def _unsupported(param: str, sentence: str) -> ChatError:
    return invalid(param, f"{param} is not supported here. {sentence}", openai_code="unsupported_parameter")
