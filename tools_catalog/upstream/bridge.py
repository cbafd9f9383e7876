"""Questions of an upstream, carried to the client that called; and the forwarded part of a call's `_meta`.

A handshake upstream asks by a request in the midst of a call, one without handshake answers `input_required` and is
called again. Both ways end at the one `ask` of the call's context, which knows how its client is asked.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from sessions_app.protocol import errors, mcp_apps
from sessions_app.protocol.tasks import EXTENSION
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.call.input_requests import Relayed
from tools_catalog.upstream import elicitation_ids, vendors
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.vendors import VendorExtension

MOST_ROUNDS: Final = 10
"""As the SDKs of MCP have it: an upstream that asks for ever is left."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
"""Before a call is repeated that asked for nothing but to be repeated."""

FORM, URL, SAMPLING, TOOLS, ROOTS, TASKS = "form", "url", "sampling", "tools", "roots", "tasks"
_NO_FORM: Final = {"mode": "form", "message": "", "requestedSchema": {"type": "object", "properties": {}}}
PROBES: Final = {
    FORM: Relayed("elicitation/create", _NO_FORM),
    URL: Relayed(
        "elicitation/create", {"mode": "url", "message": "", "url": "https://example.org", "elicitationId": "0"}
    ),
    SAMPLING: Relayed("sampling/createMessage", {"messages": [], "maxTokens": 1}),
    ROOTS: Relayed("roots/list", {}),
}
METHODS: Final = frozenset(probe.method for probe in PROBES.values())

Abilities = frozenset[str | VendorExtension]
EVERYTHING: Final[Abilities] = frozenset({*PROBES, TOOLS})

LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
"""Also of one hop, but the caller's wish decides the upstream's messages."""
_HOP: Final = ("io.modelcontextprotocol/", "mcphub/")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
_TRACE: Final = ("traceparent", "tracestate", "baggage")


def abilities(context: ToolContext) -> frozenset[str]:
    """The questions that the client of this call supports."""
    declared = context.call.client_capabilities
    if not declared:
        return frozenset()
    found = {name for name, probe in PROBES.items() if context.input.can_ask(probe)}
    sampling = declared.get("sampling")
    if SAMPLING in found and isinstance(sampling, dict) and "tools" in sampling:
        found.add(TOOLS)
    return frozenset(found)


def permitted(can_ask: Abilities, asking: Asking, client: Mapping[str, Json] | None = None) -> Abilities:
    """Return the part of it that the connection may ask, with the extensions of a client's capabilities that pass."""
    allowed = ((FORM, asking.elicits), (URL, asking.elicits), (SAMPLING, asking.samples), (ROOTS, asking.lists_roots))
    kept = can_ask & {name for name, is_allowed in allowed if is_allowed}
    if SAMPLING in kept:
        kept |= can_ask & {TOOLS}
    return kept | vendors.declared_among(client, asking.extensions) if asking.extensions and client else kept


def declared(can_ask: Abilities) -> dict[str, Json]:
    """Return the capabilities of a client that can be asked so much (MCP, ClientCapabilities).

    Views are always among them: one list of tools serves all clients, and the hub passes views on to those that show
    them. To the others it gives the texts, which every tool with a view has to have (SEP-1865, graceful degradation).
    """
    extensions: dict[str, Json] = {mcp_apps.EXTENSION: mcp_apps.CAPABILITY}
    capabilities: dict[str, Json] = {"extensions": extensions}
    if can_ask & {FORM, URL}:
        capabilities["elicitation"] = {mode: {} for mode in (FORM, URL) if mode in can_ask}
    if SAMPLING in can_ask:
        capabilities["sampling"] = {"tools": {}} if TOOLS in can_ask else {}
    if ROOTS in can_ask:
        capabilities["roots"] = {}
    if TASKS in can_ask:
        extensions[EXTENSION] = {}
    of_vendors = vendors.as_capabilities(each for each in can_ask if isinstance(each, VendorExtension))
    extensions.update(of_vendors.pop(vendors.EXTENSIONS, {}))
    return {**capabilities, **of_vendors}


async def answered(
    result: dict[str, Json],
    repeat: Callable[[dict[str, Json]], Awaitable[dict[str, Json]]],
    context: ToolContext,
    asking: Asking,
) -> dict[str, Json]:
    """Go on with a call that the upstream answered `input_required`, until it answers it whole.

    `repeat` sends the call again with the members given. Raises UpstreamError, AskFailed, MissingClientCapability.
    """
    pause = _FIRST_PAUSE_SECONDS
    for number in range(MOST_ROUNDS):
        if result.get("resultType") != "input_required":
            return result
        again: dict[str, Json] = {}
        requests = result.get("inputRequests") or {}
        if not isinstance(requests, dict):
            raise errors.UpstreamError("The upstream asks in a form that MCP does not have.")
        if requests:
            again["inputResponses"] = await asked(requests, context, asking, number=number)
        else:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        result = await repeat(again)
    raise errors.UpstreamError(f"The upstream asked {MOST_ROUNDS} times and came to no end.")


async def ask(
    method: str, params: Mapping[str, Json], context: ToolContext, asking: Asking, remember: elicitation_ids.Remember
) -> Mapping[str, Json]:
    """Put one question of an upstream to the client of a call; give the client's result. Raises a HubError."""
    asked_as = elicitation_ids.renamed(method, asking.checked(method, params), context, remember)
    number = 1
    while True:
        key = f"upstream_{number}"
        try:
            found: Mapping[str, Json] = (await context.input.ask({key: Relayed(method, asked_as)}))[key]
            return found
        except ValueError:
            number += 1  # the key of an earlier question of this call
            if number > MOST_ROUNDS:
                raise errors.UpstreamError(f"The upstream asked {MOST_ROUNDS} times and came to no end.") from None


def passed_on(meta: Mapping[str, Json] | None, log_level: str | None = None) -> dict[str, Json]:
    """Return the part of a caller's `_meta` for the upstream: all but the keys of one hop, and a trace only whole.

    `log_level` is the caller's wish, however it was expressed.
    """
    if not isinstance(meta, dict) or not meta:
        return {} if log_level is None else {LOG_LEVEL: log_level}
    kept = {key: value for key, value in meta.items() if key != "progressToken" and not key.startswith(_HOP)}
    if log_level is not None:
        kept[LOG_LEVEL] = log_level
    parent = kept.get("traceparent")
    if not isinstance(parent, str) or not _TRACEPARENT.fullmatch(parent):
        for key in _TRACE[:2]:
            kept.pop(key, None)
    for key in _TRACE[1:]:
        if key in kept and not isinstance(kept[key], str):
            del kept[key]
    return kept


async def asked(
    requests: Mapping[str, Json], context: ToolContext, asking: Asking, *, number: int = 0
) -> dict[str, Mapping[str, Json]]:
    """Put questions of an upstream to the client of a call, in its round of this `number`; give the results by key."""
    questions = {}
    for key, request in requests.items():
        if not isinstance(request, dict) or not isinstance(request.get("params", {}), dict):
            raise errors.UpstreamError("The upstream asks in a form that MCP does not have.")
        method = str(request.get("method"))
        checked = asking.checked(method, request.get("params", {}))
        # A key names one question of a call, and an upstream may use it in each of its rounds.
        given = elicitation_ids.renamed(method, checked, context)
        questions[key if not number else f"{key}#{number}"] = Relayed(method, given)
    try:
        answers = await context.input.ask(questions)
    except ValueError:
        if number >= MOST_ROUNDS:
            raise errors.UpstreamError(f"The upstream asked {MOST_ROUNDS} times and came to no end.") from None
        return await asked(requests, context, asking, number=number + 1)
    return {key: answers[key if not number else f"{key}#{number}"] for key in requests}
