"""What a request of a revision without sessions says of its client.

The SDK's client says in each what its own callbacks can. The hub asks for many clients over one child or one session,
so each request is given what the client of its call can, and `make` puts that in the place of the SDK's words.
"""

from __future__ import annotations

from typing import Any, Final

from sessions_app.protocol import envelope
from tools_catalog.backends.base import Json
from tools_catalog.upstream import bridge
from tools_catalog.upstream.bridge import Abilities

_SAID: Final = "mcphub/clientCapabilities"
"""In `_meta`, on the way through the SDK only: keys like it never come from a caller (`bridge.passed_on`)."""


def saying(params: dict[str, Json], can_ask: Abilities) -> dict[str, Json]:
    """Give the params of a request whose client can be asked so much."""
    return {**params, "_meta": {**params.get("_meta", {}), _SAID: bridge.declared(can_ask)}}


def make(message: Any) -> None:
    """Change a message that the SDK sends in place, where it carries such words."""
    params = getattr(getattr(message, "message", None), "params", None)
    meta = params.get("_meta") if isinstance(params, dict) else None
    if isinstance(meta, dict) and _SAID in meta:
        meta[envelope.CLIENT_CAPABILITIES] = meta.pop(_SAID)
