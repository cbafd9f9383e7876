"""Ids of addresses that a person is to open (MCP 2025-11-25, URL mode elicitation).

Each hop has its own id for one address, as the ids of two upstreams may be alike. The upstream's later notification
about its ID reaches the session that was sent there, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream.calls import CallsUnderWay

_REMEMBERED: Final = 1000
"""Addresses of one session of which news may still come."""

Remember = Callable[[str, str, ToolContext], None]
"""Takes the id of an address at the upstream, the id that the client knows it by, and the call that it is about."""


def renamed(
    method: str, params: Mapping[str, Json], context: ToolContext, remember: Remember | None = None
) -> Mapping[str, Json]:
    """Return the params of a question; those about an address with the id that it has here."""
    if method != "elicitation/create" or params.get("mode") != "url":
        return params
    own, theirs = ours(params, context), params.get("elicitationId")
    if remember is not None and isinstance(theirs, str):
        remember(theirs, own, context)
    return {**params, "elicitationId": own}


class AddressIds:
    """The addresses that one session of an upstream sent its callers to. `person_done` takes an id of ours."""

    def __init__(self, calls: CallsUnderWay, person_done: Callable[[str], None]) -> None:
        self._calls = calls
        self._person_done = person_done
        self._known: dict[str, tuple[str, ToolContext]] = {}

    def remember(self, theirs: str, ours: str, call: ToolContext) -> None:
        self._known[theirs] = (ours, call)
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    def call_of(self, theirs: str) -> ToolContext | None:
        """Return the call whose client was sent to the address of this ID."""
        return self._known.get(theirs, ("", None))[1]

    async def completed(self, theirs: str) -> None:
        """Notify the client that the person is done there: on the stream of the call while that runs."""
        ours, call = self._known.pop(theirs, ("", None))
        if call is not None and call in self._calls:
            await call.notifier.elicitation_complete(ours)
        elif ours:
            self._person_done(ours)


def ours(address: Mapping[str, Json], context: ToolContext) -> str:
    """Return the hub's id of an address of the upstream."""
    return context.input.elicitation_id(f"{address.get('url')} {address.get('elicitationId')}")
