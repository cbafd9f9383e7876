"""Every failure of a chat request, in the form of each wire.

A `ChatError` ends the request. The failure of a tool is none: the model gets it as a result, and the turn goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

from invocations.mapping.error_map import ErrorMap
from sessions_app.protocol import errors
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """The wire forms of a code: HTTP status, OpenAI's `type` and `code`, JSON-RPC number, retryable or not."""

    http_status: int
    type: str
    code: str
    jsonrpc_code: int
    retryable: bool


ERROR_CODES: dict[str, ErrorCode] = {
    "INVALID_QUERY": ErrorCode(400, "invalid_request_error", "invalid_query", -32602, False),
    "RATE_LIMITED": ErrorCode(429, "rate_limit_error", "rate_limit_exceeded", -31005, True),
    "SESSION_NOT_FOUND": ErrorCode(404, "invalid_request_error", "session_not_found", -31006, False),
    "SESSION_BUSY": ErrorCode(409, "invalid_request_error", "session_busy", -31018, True),
    "NOT_FOUND": ErrorCode(404, "invalid_request_error", "not_found", -32601, False),
    "MODEL_NOT_FOUND": ErrorCode(404, "invalid_request_error", "model_not_found", -32602, False),
    "TIMEOUT": ErrorCode(504, "timeout_error", "request_timeout", -31012, False),
    "TOOL_NOT_FOUND": ErrorCode(404, "invalid_request_error", "tool_not_found", -32602, False),
    "PROVIDER_UNAVAILABLE": ErrorCode(503, "api_error", "provider_unavailable", -31013, True),
    "AUTHENTICATION_FAILED": ErrorCode(502, "api_error", "provider_authentication_failed", -31014, False),
    "QUOTA_EXCEEDED": ErrorCode(429, "insufficient_quota", "insufficient_quota", -31015, False),
    "QUOTA_REACHED": ErrorCode(429, "insufficient_quota", "insufficient_quota", -31009, True),
    "AUDIT_UNAVAILABLE": ErrorCode(503, "api_error", "audit_unavailable", -31016, True),
    "SERVER_BUSY": ErrorCode(503, "api_error", "server_busy", -31017, True),
    "CONTENT_FILTER": ErrorCode(400, "invalid_request_error", "content_filter", -32602, False),
    "FORBIDDEN": ErrorCode(403, "permission_error", "forbidden", -31003, False),
    "UNAUTHORIZED": ErrorCode(401, "authentication_error", "invalid_api_key", -31001, False),
    "SERVER_ERROR": ErrorCode(500, "api_error", "server_error", -32603, False),
}
"""Failures of a request, by the code of the hub's own contract. OpenAI's wire and JSON-RPC have theirs beside it."""

TOOL_ERROR_CODES: dict[str, str] = {
    "connection_failed": "CONNECTION_FAILED",
    "egress_refused": "CONNECTION_FAILED",
    "transport_error": "TRANSPORT_ERROR",
    "timeout": "TIMEOUT",
    "tool_not_found": "TOOL_NOT_FOUND",
    "tool_disabled": "TOOL_NOT_FOUND",
    "invalid_arguments": "INVALID_ARGUMENTS",
    "invalid_params": "INVALID_ARGUMENTS",
    "execution_error": "EXECUTION_ERROR",
    "upstream_error": "EXECUTION_ERROR",
    "result_invalid": "EXECUTION_ERROR",
}
"""Failures of a tool call, by the internal code of the audit. The turn continues: the model receives the error."""


def tool_error_code(internal_code: str) -> str:
    """Return the code of the hub's own contract for the failure of a call; empty for no failure."""
    return TOOL_ERROR_CODES.get(internal_code, internal_code.upper())


class ChatError(Exception):
    """A request that failed. `message` states the problem and the next step for the client, without secrets.

    `openai_code` replaces the code on OpenAI's wire with a better known one.
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
        details: dict[str, Json] | None = None,
    ) -> None:
        kind = ERROR_CODES[code]
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
        """Additional facts for the endpoint: `rounds` and `invocation_ids` of a turn that failed half-way."""
        super().__init__(message)

    @property
    def should_retry(self) -> bool:
        return self._retryable if self._retry is None else self._retry

    @should_retry.setter
    def should_retry(self, value: bool) -> None:
        """The case's own answer precedes the code's."""
        self._retry = value

    def apply_mapping(self, mapping: ErrorMap) -> ChatError:
        """Take number, words and retry from the operators' mapping, where it has the code."""
        found = mapping.words(self.code.lower(), self.message, invocation_id=self.invocation_id)
        if found is not None:
            self.jsonrpc_code, self.message, self._retryable = found
        return self

    @classmethod
    def of(cls, error: HubError) -> ChatError:
        """Return the chat error for an error of the hub."""
        code = next((code for kind, code in _SAID_AS if isinstance(error, kind)), "SERVER_ERROR")
        if code == "SERVER_ERROR" and isinstance(error, errors.ProtocolError):
            code = "INVALID_QUERY"
        return cls(
            code,
            error.message,
            http_status=error.http_status,
            retry_after=error.retry_after_seconds,
            openai_code=error.code if code in ("INVALID_QUERY", "SERVER_ERROR") else None,
            invocation_id=error.invocation_id,
            details=dict(error.details) if code == "QUOTA_REACHED" else None,
        )

    def body(self) -> dict[str, Json]:
        """Return the error in OpenAI's form, with the turn's completed work as `x_mcp`."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.openai_code}
        extension = {"errorCode": self.code, "retryable": self.should_retry, **self.details}
        if self.invocation_id:
            extension["invocationId"] = self.invocation_id
        return {"error": error, "x_mcp": extension}


def invalid(
    param: str,
    message: str,
    *,
    openai_code: str | None = None,
    http_status: int | None = None,
    should_retry: bool | None = None,
) -> ChatError:
    """Return the error of a request in which the parameter `param` is wrong."""
    return ChatError(
        "INVALID_QUERY",
        message,
        param=param,
        openai_code=openai_code,
        http_status=http_status,
        should_retry=should_retry,
    )


_SAID_AS: tuple[tuple[type[HubError], str], ...] = (
    (errors.Unauthenticated, "UNAUTHORIZED"),
    (errors.Forbidden, "FORBIDDEN"),
    (errors.RateLimited, "RATE_LIMITED"),
    (errors.QuotaReached, "QUOTA_REACHED"),
    (errors.AuditUnavailable, "AUDIT_UNAVAILABLE"),
    (errors.ServerBusy, "SERVER_BUSY"),
    (errors.ServerError, "SERVER_ERROR"),
    (errors.Refused, "INVALID_QUERY"),
)
