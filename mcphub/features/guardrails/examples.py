"""Examples of guardrails for the OpenAPI document, as people would send and get them."""

from __future__ import annotations

from collections.abc import Mapping

from sessions_app.protocol.json import Json

_GUARDRAIL: Mapping[str, Json] = {
    "name": "no-mail",
    "applies_to": "all",
    "direction": "arguments",
    "checked_by": "detectors",
    "detectors": "email",
    "action": "mask",
    "on_failure": "closed",
}
REQUESTS: Mapping[str, Json] = {
    "GuardrailRequest": _GUARDRAIL,
    "PatchedGuardrailRequest": {"action": "refuse", "reason": "asked for in ticket 4711"},
    "TryGuardrailRequest": {"value": {"to": "ada@example.org"}, "detectors": "email"},
}
COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "Guardrail": {**_GUARDRAIL, "target": "", "function": "", "service": "", "path": "", "words": "", "seconds": 2},
    "TriedGuardrail": {
        "found": {"email": 1},
        "places": ["$.to"],
        "masked": {"to": "[masked:email]"},
        "milliseconds": 0.2,
    },
}
