"""Every way a chat request can fail, and how each wire says it (seed 003's error states).

A `ChatError` ends the request. What a tool did wrong is no such error: the model is told, and the turn goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from invocations.mapping import ErrorMap
from sessions_app.protocol import errors
from sessions_app.protocol.errors import HubError


@dataclass(frozen=True, slots=True)
class Kind:
    """How one code is said: HTTP status, OpenAI's `type` and `code`, JSON-RPC number, worth a retry or not."""

    http_status: int
    type: str
    code: str
    jsonrpc_code: int
    retryable: bool


KINDS: dict[str, Kind] = {
    "INVALID_QUERY": Kind(400, "invalid_request_error", "invalid_query", -32602, False),
    "RATE_LIMITED": Kind(429, "rate_limit_error", "rate_limit_exceeded", -31005, True),
    "SESSION_NOT_FOUND": Kind(404, "invalid_request_error", "session_not_found", -31006, False),
    "SESSION_BUSY": Kind(409, "invalid_request_error", "session_busy", -31018, True),
    "NOT_FOUND": Kind(404, "invalid_request_error", "not_found", -32601, False),
    "MODEL_NOT_FOUND": Kind(404, "invalid_request_error", "model_not_found", -32602, False),
    "CONNECTION_FAILED": Kind(502, "api_error", "upstream_connection_failed", -31010, True),
    "TRANSPORT_ERROR": Kind(502, "api_error", "upstream_transport_error", -31011, False),
    "TIMEOUT": Kind(504, "timeout_error", "upstream_timeout", -31012, False),
    "TOOL_NOT_FOUND": Kind(404, "invalid_request_error", "tool_not_found", -32602, False),
    "INVALID_ARGUMENTS": Kind(400, "invalid_request_error", "invalid_arguments", -32602, False),
    "EXECUTION_ERROR": Kind(502, "api_error", "tool_execution_error", -31033, False),
    "PROVIDER_UNAVAILABLE": Kind(503, "api_error", "provider_unavailable", -31013, True),
    "AUTHENTICATION_FAILED": Kind(502, "api_error", "provider_authentication_failed", -31014, False),
    "QUOTA_EXCEEDED": Kind(429, "insufficient_quota", "insufficient_quota", -31015, False),
    "AUDIT_UNAVAILABLE": Kind(503, "api_error", "audit_unavailable", -31016, True),
    "SERVER_BUSY": Kind(503, "api_error", "server_busy", -31017, True),
    "CONTENT_FILTER": Kind(400, "invalid_request_error", "content_filter", -32602, False),
    "FORBIDDEN": Kind(403, "permission_error", "forbidden", -31003, False),
    "UNAUTHORIZED": Kind(401, "authentication_error", "invalid_api_key", -31001, False),
    "SERVER_ERROR": Kind(500, "api_error", "server_error", -32603, False),
}
"""By the code of seed 003, and some more in its manner."""


class ChatError(Exception):
    """A request that failed. `message` tells the client what is wrong and what to do next; it holds no secret.

    `openai_code` replaces the code that OpenAI's wire says, where there is a better known one.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: float | None = None,
        should_retry: bool | None = None,
        http_status: int | None = None,
        openai_code: str | None = None,
        invocation_id: str = "",
        details: dict[str, Any] | None = None,
    ) -> None:
        kind = KINDS[code]
        self.code = code
        self.message = message
        self.param = param
        self.retry_after = retry_after
        """Seconds."""
        self._retry: bool | None = should_retry
        self._retryable = kind.retryable
        self.http_status = http_status or kind.http_status
        self.type = kind.type
        self.openai_code = openai_code or kind.code
        self.jsonrpc_code = kind.jsonrpc_code
        self.invocation_id = invocation_id
        self.details = details or {}
        """What the door may tell besides: `rounds` and `invocation_ids` of a turn that failed half-way."""
        self.messages_added: list[dict[str, Any]] = []
        """What a turn that failed half-way had added to the conversation."""
        super().__init__(message)

    @property
    def should_retry(self) -> bool:
        return self._retryable if self._retry is None else self._retry

    @should_retry.setter
    def should_retry(self, value: bool) -> None:
        """What the case says goes before what the code says."""
        self._retry = value

    def say_as(self, mapping: ErrorMap) -> ChatError:
        """Take number, words and retry from the operators' mapping, where it has the code."""
        found = mapping.words(self.code.lower(), self.message, invocation_id=self.invocation_id)
        if found is not None:
            self.jsonrpc_code, self.message, self._retryable = found
        return self

    @classmethod
    def of(cls, error: HubError) -> ChatError:
        """Say what a door of the hub refused."""
        code = next((code for kind, code in _SAID_AS if isinstance(error, kind)), "SERVER_ERROR")
        if code == "SERVER_ERROR" and isinstance(error, errors.ProtocolError):
            code = "INVALID_QUERY"
        return cls(
            code, error.message, http_status=error.http_status, retry_after=error.retry_after_seconds,
            openai_code=error.code if code in ("INVALID_QUERY", "SERVER_ERROR") else None,
            invocation_id=error.invocation_id,
        )  # fmt: skip

    def body(self) -> dict[str, Any]:
        """Give the error as OpenAI's wire says it, with what a turn had done when it failed as `x_mcp`."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.openai_code}
        told = {"errorCode": self.code, "retryable": self.should_retry, **self.details}
        if self.invocation_id:
            told["invocationId"] = self.invocation_id
        return {"error": error, "x_mcp": told}


_SAID_AS: tuple[tuple[type[HubError], str], ...] = (
    (errors.Unauthenticated, "UNAUTHORIZED"),
    (errors.Forbidden, "FORBIDDEN"),
    (errors.RateLimited, "RATE_LIMITED"),
    (errors.AuditUnavailable, "AUDIT_UNAVAILABLE"),
    (errors.ServerBusy, "SERVER_BUSY"),
    (errors.ServerError, "SERVER_ERROR"),
    (errors.Refused, "INVALID_QUERY"),
)
