"""What an upstream's error asks of the client that called: to open an address, to declare a capability.

And the ids of addresses. Each side has its own for one address, as those of two upstreams may be alike, and what the
upstream says of its id later reaches the session that was sent there, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sessions_app.protocol import errors
from tools_catalog.backends.base import Json, ToolContext
from tools_catalog.backends.questions import Url
from tools_catalog.upstream.calls import Calls

_MOST_ADDRESSES: Final = 20
"""That one error may demand to be opened."""
_LONGEST_TEXT: Final = 4000
_REMEMBERED: Final = 1000
"""Addresses of one session of which news may still come."""

Remember = Callable[[str, str, ToolContext], None]
"""Takes the id of an address at the upstream, the id that the client knows it by, and the call that it is about."""


class AddressesToOpen(errors.UpstreamError):
    """The upstream's error -32042: a person must be at these addresses first."""

    def __init__(self, words: str, told: Json, addresses: list[dict[str, Json]], remember: Remember | None) -> None:
        super().__init__(words, upstream=told, addresses=addresses)
        self.remember = remember


class CapabilityMissing(errors.UpstreamError):
    """The upstream's error -32021: its client does not declare what the request needs."""

    def __init__(self, words: str, told: Json, needs: dict[str, Json]) -> None:
        super().__init__(words, upstream=told, needs=needs)


def upstream_error(
    code: int, message: str, data: Json = None, remember: Remember | None = None
) -> errors.UpstreamError:
    """Give an upstream's own JSON-RPC error as ours."""
    words = f"The upstream answered with error {code}: {message[:1000]}"
    told = {"code": code, "message": message[:1000]}
    found = data if isinstance(data, dict) else {}
    if code == errors.URL_ELICITATION_REQUIRED and _are_addresses(found.get("elicitations")):
        return AddressesToOpen(words, told, found["elicitations"], remember)
    needs = found.get("requiredCapabilities")
    if code == errors.MISSING_CLIENT_CAPABILITY and isinstance(needs, dict) and needs:
        return CapabilityMissing(words, told, needs)
    return errors.UpstreamError(words, upstream=told)


async def pass_on(error: errors.UpstreamError, context: ToolContext, *, may_ask: bool) -> None:
    """Put to the client of a call what the upstream's error asks of it. Comes back where that is nothing.

    Raises MissingClientCapability, UrlElicitationRequired, AskFailed.
    """
    if isinstance(error, CapabilityMissing):
        needs = error.details.pop("needs")
        if not covers(context.client_capabilities, needs):
            raise errors.MissingClientCapability(needs) from error
    if not isinstance(error, AddressesToOpen):
        return
    addresses, wanted = error.details.pop("addresses"), {}
    if not may_ask:
        return
    for number, address in enumerate(addresses, 1):
        ours = _ours(address, context)
        try:
            wanted[f"upstream_address_{number}"] = Url(address["message"], address["url"], ours)
        except ValueError:
            return  # no address for a person
        if error.remember is not None:
            error.remember(address["elicitationId"], ours, context)
    context.park("")  # the call has ended over there: the client's next round makes it anew
    await context.require(wanted)


def named_here(
    method: str, params: Mapping[str, Json], context: ToolContext, remember: Remember | None = None
) -> Mapping[str, Json]:
    """Give the params of a question; those about an address with the id that it has here."""
    if method != "elicitation/create" or params.get("mode") != "url":
        return params
    ours, theirs = _ours(params, context), params.get("elicitationId")
    if remember is not None and isinstance(theirs, str):
        remember(theirs, ours, context)
    return {**params, "elicitationId": ours}


def covers(declared: Json, needed: Mapping[str, Json]) -> bool:
    """Whether capabilities name all that is needed."""
    return isinstance(declared, Mapping) and all(
        name in declared and (not isinstance(value, dict) or covers(declared[name], value))
        for name, value in needed.items()
    )


class Addresses:
    """The addresses that one session of an upstream sent its callers to. `person_done` takes an id of ours."""

    def __init__(self, calls: Calls, person_done: Callable[[str], None]) -> None:
        self._calls = calls
        self._person_done = person_done
        self._known: dict[str, tuple[str, ToolContext]] = {}

    def remember(self, theirs: str, ours: str, call: ToolContext) -> None:
        self._known[theirs] = (ours, call)
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    async def completed(self, theirs: str) -> None:
        """Tell whom it concerns that the person is done there: on the stream of the call while that runs."""
        ours, call = self._known.pop(theirs, ("", None))
        if call is not None and call in self._calls:
            await call.elicitation_complete(ours)
        elif ours:
            self._person_done(ours)


def _ours(address: Mapping[str, Any], context: ToolContext) -> str:
    return context.elicitation_id(f"{address.get('url')} {address.get('elicitationId')}")


def _are_addresses(given: Json) -> bool:
    return (
        isinstance(given, list)
        and 0 < len(given) <= _MOST_ADDRESSES
        and all(
            isinstance(each, dict)
            and all(
                isinstance(each.get(name), str) and len(each[name]) <= _LONGEST_TEXT
                for name in ("message", "url", "elicitationId")
            )
            for each in given
        )
    )
