"""How the tools of a searched toolset are offered to a model: all at once, behind three tools, or loaded by its
provider once the hub's search has found them.

The operator decides for each provider. By default it is what the model's maker documents, else three tools. A provider
that refuses to load tools gets three tools for the rest of the conversation.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from mcphub.features.chat.dialects import Dialect, dialect_of, native_wire
from mcphub.features.chat.engine.turn import Turn
from mcphub.features.chat.providers.snapshot import Model
from mcphub.features.chat.providers.wires import messages, responses
from mcphub.features.chat.providers.wires.wire import CHAT, DeferredTools, Wire
from mcphub.features.chat.tools.functions import Functions
from sessions_app.protocol.json import Json
from tools_catalog.catalog.search_definitions import CALL, DESCRIBE, SEARCH
from tools_catalog.catalog.snapshot import Tool

NATIVE_FOUND = 5
"""Tools that a search loads where the model names no number: each comes with its whole schema."""
MOST_DEFERRED = 10_000
"""Of the messages wire, as its maker documents it."""
_SENTENCE = (
    "Find tools by what they do, and load them. There are more tools than are listed: search before you say that "
    "something cannot be done. Then call a tool that was found as any other."
)


class ToolOffer(StrEnum):
    """The values of `ChatProvider.tools_offered`."""

    AUTO = "auto"
    EAGER = "eager"
    SEARCH = "search"
    RESPONSES = "responses"
    MESSAGES = "messages"

    @property
    def is_native(self) -> bool:
        return self in _WIRES

    @property
    def wire(self) -> Wire:
        return _WIRES.get(self, CHAT)


_WIRES: dict[ToolOffer, Wire] = {
    ToolOffer.RESPONSES: responses.ResponsesWire(),
    ToolOffer.MESSAGES: messages.MessagesWire(),
}
_PARAMETERS = {ToolOffer.RESPONSES: responses.PARAMETERS, ToolOffer.MESSAGES: messages.PARAMETERS}
_PARTS = frozenset({"text", "image_url"})


def offer_for(turn: Turn, model: Model, functions: Functions, refusing: Collection[str]) -> ToolOffer:
    """Return how a model gets the tools that the turn's toolset is searched for. `refusing`: IDs of models that refused
    to load tools in this conversation."""
    provider = model.provider
    offer = ToolOffer(provider.tools_offered)
    if turn.searched is None or not model.tools:
        return ToolOffer.SEARCH
    if offer is ToolOffer.AUTO:
        offer = ToolOffer(native_wire(provider.kind, provider.base_url, model.name) or ToolOffer.SEARCH)
    if offer is ToolOffer.EAGER:
        most = dialect_of(provider.kind, provider.base_url, model.name).most_tools
        fits = len(_listed(functions, ToolOffer.EAGER)) + len(functions.client_tools) <= most
    else:
        fits = not offer.is_native or (model.id not in refusing and _is_expressible(offer, turn, functions))
    # A loaded function must not have the name of another one.
    are_apart = functions.reached.keys().isdisjoint({*functions.tools, *functions.client_tools})
    return offer if fits and are_apart else ToolOffer.SEARCH


def as_offered(functions: Functions, offer: ToolOffer) -> Functions:
    """Return the functions with those in the model's list that it starts with."""
    return functions if offer is ToolOffer.SEARCH else functions.listing(_listed(functions, offer))


def deferred_tools(functions: Functions, dialect: Dialect) -> DeferredTools:
    """Return the functions that a provider loads."""
    taken = functions.deferred(dialect)
    return DeferredTools(taken, {functions.reached[name].name: name for name in taken})


def with_search(tools: list[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return a request's tools with a search that loads what it finds."""
    return [_loading(tool) if tool["function"]["name"] == SEARCH else tool for tool in tools]


def _loading(tool: dict[str, Json]) -> dict[str, Json]:
    function = tool["function"]
    parameters = dict(function["parameters"])
    properties = dict(parameters["properties"])
    properties["limit"] = {**properties["limit"], "default": NATIVE_FOUND, "description": "How many tools to load."}
    parameters["properties"] = properties
    return {**tool, "function": {**function, "description": _SENTENCE, "parameters": parameters}}


def _listed(functions: Functions, offer: ToolOffer) -> dict[str, Tool]:
    if offer is ToolOffer.EAGER:
        own = {name: tool for name, tool in functions.tools.items() if name not in (SEARCH, DESCRIBE, CALL)}
        return {**own, **functions.reached}
    return {name: tool for name, tool in functions.tools.items() if name not in (DESCRIBE, CALL)}


def _is_expressible(offer: ToolOffer, turn: Turn, functions: Functions) -> bool:
    """Return whether a wire has a place for all of the request."""
    choice = turn.parameters.get("tool_choice")
    named = (choice.get("function") or {}).get("name") if isinstance(choice, dict) else None
    parts = (
        part for message in turn.messages if isinstance(message.get("content"), list) for part in message["content"]
    )
    return (
        turn.parameters.keys() <= _PARAMETERS[offer]
        and named not in (SEARCH, DESCRIBE, CALL)
        and all(isinstance(part, dict) and part.get("type") in _PARTS for part in parts)
        and (offer is not ToolOffer.MESSAGES or len(functions.reached) <= MOST_DEFERRED)
    )
