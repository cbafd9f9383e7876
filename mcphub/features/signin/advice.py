"""Messages for OAuth errors that the libraries leave without one: the problem, and the next step."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "invalid_grant": "The code or refresh token is unknown, was used before, or is over. Sign in again.",
        "invalid_client": "The client is unknown, or its secret is wrong. Register the client again.",
        "invalid_scope": "Ask for tools:list, tools:call or chat.",
        "unauthorized_client": "The client may not ask for this. Register the client again.",
        "unsupported_grant_type": "Use a grant of grant_types_supported in the hub's document.",
        "unsupported_response_type": "Use response_type=code.",
        "access_denied": "The person did not allow it.",
    }
)
