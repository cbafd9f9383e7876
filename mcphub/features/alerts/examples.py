"""The examples of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from sessions_app.protocol.json import Json

REQUESTS: Mapping[str, Json] = {}
_EVERYBODY: Mapping[str, Json] = {"person": None, "key": None, "provider": ""}
COMPONENTS: Mapping[str, Mapping[str, Json]] = dict.fromkeys(
    ("Alert", "AlertRequest", "PatchedAlertRequest"), _EVERYBODY
)
