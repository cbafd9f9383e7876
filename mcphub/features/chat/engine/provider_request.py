"""The body of one provider request, from the turn, the model's capabilities, and the remaining budget."""

from __future__ import annotations

from dataclasses import dataclass

from mcphub.features.chat.dialects import dialect_of, of_wire
from mcphub.features.chat.engine.offering import ToolOffer, as_offered, deferred_tools, with_search
from mcphub.features.chat.engine.outgoing import outgoing
from mcphub.features.chat.engine.turn import Turn
from mcphub.features.chat.errors import invalid
from mcphub.features.chat.providers.snapshot import Model
from mcphub.features.chat.providers.wires.wire import CHAT, NOTHING_DEFERRED, Wire
from mcphub.features.chat.tools import constrained
from mcphub.features.chat.tools.functions import Functions
from sessions_app.protocol.json import Json

_ONLY_OPENAI = frozenset({"safety_identifier", "prompt_cache_key", "service_tier", "verbosity", "store", "metadata"})
"""Parameters that only OpenAI itself knows; others may refuse a request for them."""
_OF_TOOLS = frozenset({"tool_choice", "parallel_tool_calls"})


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    body: dict[str, Json]
    stream: bool
    is_constrained: bool
    """The answer is held to a schema, by which a model without functions calls them; see `constrained`."""
    wire: Wire = CHAT

    @classmethod
    def build(
        cls,
        turn: Turn,
        model: Model,
        functions: Functions,
        messages: list[dict[str, Json]],
        *,
        is_first: bool,
        without_tools: bool,
        offer: ToolOffer = ToolOffer.SEARCH,
    ) -> ProviderRequest:
        """Raise ChatError where the model cannot use the tools, or `tool_choice` names none of them."""
        functions, wire = as_offered(functions, offer), offer.wire
        is_constrained = bool(functions) and not model.tools and not without_tools
        if is_constrained and not model.json_schema:
            raise invalid(
                "tools",
                f"The model {model.id} can neither call functions nor be held to a schema, so it cannot use tools. "
                "Ask without tools, or another model.",
            )
        dialect = of_wire(dialect_of(model.provider.kind, model.provider.base_url, model.name), wire.name)
        is_openai = dialect.name in ("openai", "azure") or offer is ToolOffer.RESPONSES
        messages = outgoing(messages, speaker(model, offer), dialect)
        stream = turn.stream and model.streams and not is_constrained
        body: dict[str, Json] = {"model": model.name, **turn.parameters}
        for name in _OF_TOOLS if is_openai else _OF_TOOLS | _ONLY_OPENAI:
            body.pop(name, None)
        choice = _tool_choice(turn, functions, is_first=is_first)
        if functions and not model.tools:
            messages = constrained.as_plain_messages(messages)
        if is_constrained:
            may_answer = choice != "required" and not isinstance(choice, dict)
            chosen = functions if not isinstance(choice, dict) else functions.only(choice["function"]["name"])
            instructions = constrained.instructions(chosen, dialect, may_answer=may_answer)
            messages = [{"role": "system", "content": instructions}, *messages]
            body["response_format"] = constrained.response_format(chosen, dialect, may_answer=may_answer)
        elif functions and model.tools:
            tools = with_search(functions.wire(dialect)) if offer.is_native else functions.wire(dialect)
            body |= _tool_members(turn, model, functions, tools, "none" if without_tools else choice, demanded=choice)
        if not is_openai:
            if "max_completion_tokens" in body:
                body.setdefault("max_tokens", body.pop("max_completion_tokens"))
            messages = [{**each, "role": "system"} if each["role"] == "developer" else each for each in messages]
        body["messages"] = messages
        if stream:
            body["stream"] = True
            if model.usage_in_stream:
                body["stream_options"] = {"include_usage": True}
        for name, other in dialect.renamed:
            value = body.pop(name, None)
            if other and value is not None:
                body[other] = value
        deferred = deferred_tools(functions, dialect) if offer.is_native else NOTHING_DEFERRED
        return cls(wire.body(body, deferred), stream, is_constrained, wire)


def speaker(model: Model, offer: ToolOffer) -> str:
    """Return the name under which a conversation keeps the vendor members of a model's answers, which differ by
    wire."""
    return f"{model.id} {offer.wire.name}" if offer.is_native else model.id


def _tool_members(
    turn: Turn, model: Model, functions: Functions, tools: Json, choice: Json, *, demanded: Json
) -> dict[str, Json]:
    """Return the members of a request with these tools; `demanded` is the client's choice, even where the turn makes
    another. Raise ChatError where the provider takes none of the tools of which one must be called.
    """
    if not tools:
        if demanded == "required" or isinstance(demanded, dict):
            raise invalid("tool_choice", "tool_choice demands a call, and the provider takes none of the tools.")
        return {}
    if isinstance(demanded, dict) and demanded["function"]["name"] in functions.left_out:
        raise invalid("tool_choice", f"tool_choice names a function that {model.id} does not take.")
    members: dict[str, Json] = {"tools": tools}
    if choice != "auto":
        members["tool_choice"] = choice
    is_mixed = bool(functions.tools) and bool(functions.client_tools) and not turn.may_mix_calls
    parallel = turn.parameters.get("parallel_tool_calls") if model.parallel_tools and not is_mixed else False
    if parallel is not None:
        members["parallel_tool_calls"] = parallel
    return members


def _tool_choice(turn: Turn, functions: Functions, *, is_first: bool) -> Json:
    """Return the client's tool choice. A call that it demands is made once: else the turn would never end."""
    choice = turn.parameters.get("tool_choice", "auto")
    if isinstance(choice, dict):
        name = functions.named(str((choice.get("function") or {}).get("name", "")))
        if name is None:
            raise invalid("tool_choice", "tool_choice names a function that is not among the tools.")
        choice = {"type": "function", "function": {"name": name}}
    elif choice == "required" and not functions:
        raise invalid("tool_choice", "tool_choice is required, and there are no tools.")
    return choice if is_first or choice == "none" else "auto"
