"""What a running tool may know of its call, and say before the answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from invocations.origin import Origin, Voice
from sessions_app.protocol.errors import MissingClientCapability

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""MCP's levels, least severe first (RFC 5424)."""


class CallContext:
    """The ToolContext of one call. Silent once the call has ended."""

    __slots__ = ("_last", "_log_from", "_open", "_origin", "_token", "_voice", "deadline", "invocation_id", "tool_name")

    def __init__(
        self,
        origin: Origin,
        tool_name: str,
        invocation_id: str,
        voice: Voice | None,
        progress_token: str | int | None,
        log_level: str | None,
    ) -> None:
        self._origin = origin
        self.tool_name = tool_name
        self.invocation_id = invocation_id
        self._voice = voice
        self._token = progress_token
        self._log_from = LOG_LEVELS.index(log_level) if log_level in LOG_LEVELS else len(LOG_LEVELS)
        self._last = float("-inf")
        self._open = True
        self.deadline = float("inf")

    @property
    def caller_label(self) -> str:
        return self._origin.caller.label

    @property
    def caller_principal(self) -> str:
        return self._origin.caller.principal

    @property
    def caller_scopes(self) -> frozenset[str]:
        return self._origin.caller.scopes

    @property
    def client_capabilities(self) -> Mapping[str, Any]:
        return self._origin.client_capabilities

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send `notifications/progress`, if the client gave a token. What does not rise is left out (MCP, Progress)."""
        if self._voice is None or self._token is None or not self._open:
            return
        if not self._last < progress < float("inf"):  # NaN neither rises nor can be sent
            return
        self._last = progress
        params: dict[str, Any] = {"progressToken": self._token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self._voice.notify("notifications/progress", params)

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send `notifications/message`, if the client asked for the level."""
        if level not in LOG_LEVELS:
            raise ValueError(f"{level!r} is no MCP log level; use one of {', '.join(LOG_LEVELS)}.")
        if self._voice is None or not self._open or LOG_LEVELS.index(level) < self._log_from:
            return
        params = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        await self._voice.notify("notifications/message", params)

    def remaining_seconds(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def require_capability(self, name: str) -> None:
        if name not in self._origin.client_capabilities:
            raise MissingClientCapability({name: {}})

    def close(self) -> None:
        self._open = False
