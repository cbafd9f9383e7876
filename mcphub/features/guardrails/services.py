"""Guardrails that are HTTP services: asked through the egress guard, with the address and headers of a service row.

The hub POSTs {"guardrail", "version", "direction", "method", "tool", "connection", "principal", "value"}. The answer is
{"findings": {kind: count}}, and "value" where the guardrail masks. Anything else is a failure.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, cast

from mcphub.features.guardrails.guardrail import CheckFailed, GuardedCall, GuardrailFinding
from sessions_app.protocol.errors import HubError, ToolTimeout
from sessions_app.protocol.json import Json
from tools_catalog.backends.http.backend import HttpBackend
from tools_catalog.backends.http.configuration import HttpConfiguration, Service
from tools_catalog.call.base import NOTHING
from tools_catalog.call.context import ToolContext
from tools_catalog.vault import secret_for

MOST_AT_ONCE = 64
"""Requests of a process that wait for guardrail services."""
_LARGEST_ANSWER = 16 << 20


def configuration_of(service: Service, path: str, seconds: float) -> HttpConfiguration:
    """Return how the service is asked; raise ValueError for a path that cannot be."""
    raw: dict[str, Json] = {
        "service": service.slug,
        "method": "POST",
        "url": path or "/",
        "body": "{payload}",
        "response": {"as": "json"},
        "timeout_seconds": seconds,
        "max_response_bytes": _LARGEST_ANSWER,
    }
    return HttpConfiguration.parse(raw, service)


@dataclass(frozen=True, slots=True)
class _Deadline:
    at: float

    def remaining_seconds(self) -> float:
        return max(0.0, self.at - time.monotonic())


@dataclass(frozen=True, slots=True)
class _Asking:
    """A backend's view of the context of a call."""

    deadline: _Deadline
    call: Any = None


class ServiceCheck:
    def __init__(self, service: Service, path: str, seconds: float) -> None:
        self._backend = HttpBackend(configuration_of(service, path, seconds), secret=secret_for)

    async def look(self, name: str, version: int, value: Json, call: GuardedCall, seconds: float) -> GuardrailFinding:
        global _asking
        if _asking >= MOST_AT_ONCE:
            raise CheckFailed(f"{MOST_AT_ONCE} requests to guardrail services wait already")
        payload: dict[str, Json] = {
            "guardrail": name,
            "version": version,
            "direction": call.direction,
            "method": call.method,
            "tool": call.tool,
            "connection": call.connection,
            "principal": call.principal,
            "value": value,
        }
        context = cast("ToolContext", _Asking(_Deadline(time.monotonic() + seconds)))
        _asking += 1
        try:
            async with asyncio.timeout(seconds):
                result = await self._backend.call({"payload": payload}, context)
            return _finding(result.structured)
        except (TimeoutError, ToolTimeout) as error:
            raise CheckFailed(f"its service did not answer within {seconds:g} s") from error
        except HubError as error:
            raise CheckFailed(f"its service failed with {error.code}") from error
        except ValueError as error:
            raise CheckFailed(f"its service answered nonsense: {error}") from error
        finally:
            _asking -= 1


def _finding(answer: object) -> GuardrailFinding:
    if not isinstance(answer, dict) or not answer.keys() <= {"findings", "value"} or "findings" not in answer:
        raise ValueError("it is no object with findings")
    finding = GuardrailFinding(answer["findings"], answer.get("value", NOTHING))
    finding.check()
    return finding


_asking = 0
