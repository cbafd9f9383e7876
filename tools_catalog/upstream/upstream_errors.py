"""An upstream's own errors as ours, and those that ask the calling client to open an address or to declare a
capability.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sessions_app.protocol import errors
from tools_catalog.call.base import Json
from tools_catalog.call.context import ToolContext
from tools_catalog.call.input_requests import Url
from tools_catalog.upstream import bridge, elicitation_ids, vendors
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.elicitation_ids import Remember

_MOST_ADDRESSES: Final = 20
"""That one error may demand to be opened."""
_LONGEST_TEXT: Final = 4000


class AddressesToOpen(errors.UpstreamError):
    """The upstream's error -32042: a person must be at these addresses first."""

    def __init__(self, words: str, error: Json, addresses: list[dict[str, Json]], remember: Remember | None) -> None:
        super().__init__(words, upstream=error, addresses=addresses)
        self.remember = remember


class CapabilityMissing(errors.UpstreamError):
    """The upstream's error -32021: its client does not declare a required capability."""

    def __init__(self, words: str, error: Json, needs: dict[str, Json]) -> None:
        super().__init__(words, upstream=error, needs=needs)


def upstream_error(
    code: int, message: str, data: Json = None, remember: Remember | None = None
) -> errors.UpstreamError:
    """Return an upstream's own JSON-RPC error as ours."""
    words = f"The upstream answered with error {code}: {message[:1000]}"
    error = {"code": code, "message": message[:1000]}
    found = data if isinstance(data, dict) else {}
    if code == errors.URL_ELICITATION_REQUIRED and _are_addresses(found.get("elicitations")):
        return AddressesToOpen(words, error, found["elicitations"], remember)
    needs = found.get("requiredCapabilities")
    if code == errors.MISSING_CLIENT_CAPABILITY and isinstance(needs, dict) and needs:
        return CapabilityMissing(words, error, needs)
    return errors.UpstreamError(words, upstream=error)


async def pass_on(error: errors.UpstreamError, context: ToolContext, asking: Asking) -> None:
    """Forward the demand in the upstream's error to the client of a call. Comes back where that is nothing.

    Raises MissingClientCapability, UrlElicitationRequired, AskFailed.
    """
    if isinstance(error, CapabilityMissing):
        needs = error.details.pop("needs")
        # It makes no sense for a client to declare what the connection may not ask.
        allowed = bridge.declared(bridge.permitted(bridge.EVERYTHING, asking))
        is_forbidden = any(name in needs and name not in allowed for name in ("elicitation", "sampling", "roots"))
        is_forbidden = is_forbidden or vendors.undeclarable(needs, asking.extensions)
        if not is_forbidden and not covers(context.call.client_capabilities, needs):
            raise errors.MissingClientCapability(needs) from error
    if not isinstance(error, AddressesToOpen):
        return
    addresses, wanted = error.details.pop("addresses"), {}
    if not asking.elicits or not all(asking.may_open(address["url"]) for address in addresses):
        return
    for number, address in enumerate(addresses, 1):
        ours = elicitation_ids.ours(address, context)
        try:
            wanted[f"upstream_address_{number}"] = Url(asking.message(address["message"]), address["url"], ours)
        except ValueError:
            return  # no address for a person
        if error.remember is not None:
            error.remember(address["elicitationId"], ours, context)
    context.suspension.resume_with("")  # the call has ended over there: the client's next round makes it anew
    await context.input.require(wanted)


def covers(declared: Json, needed: Mapping[str, Json]) -> bool:
    """Return whether capabilities name all that is needed."""
    return isinstance(declared, Mapping) and all(
        name in declared and (not isinstance(value, dict) or covers(declared[name], value))
        for name, value in needed.items()
    )


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
