"""McpErrorMapping applied: an internal failure becomes the JSON-RPC error that callers and auditors read.

The map is a value made from rows; loading is up to the runtime. Rendering never fails.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from sessions_app.protocol import errors, json, schemas
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

_FIELD = re.compile(r"\{([a-z_A-Z]+)\}")
_GENERAL_FIELDS = frozenset({"message", "tool", "invocation_id", "error_code"})
_DETAIL_FIELDS: Mapping[str, frozenset[str]] = {
    "timeout": frozenset({"timeout_seconds"}),
    "invalid_arguments": frozenset({"violations"}),
    "unsupported_protocol_version": frozenset({"supported", "requested"}),
    "upstream_error": frozenset({"status"}),
    "payload_too_large": frozenset({"limit_bytes"}),
    "method_not_found": frozenset({"method"}),
    "rate_limited": frozenset({"retry_after_seconds"}),
    "quota_reached": frozenset({"quota", "limit", "used", "unit", "currency", "resetsAt", "retryAfterSeconds"}),
    "duplicate_request": frozenset({"first"}),
    "resource_not_found": frozenset({"uri"}),
    "prompt_not_found": frozenset({"prompt"}),
}

FIXED_CODES: Mapping[str, int] = {
    kind.code: kind.jsonrpc_code
    for kind in (
        errors.ParseError,
        errors.InvalidRequest,
        errors.MethodNotFound,
        errors.InvalidParams,
        errors.ToolNotFound,
        errors.ResourceNotFound,
        errors.PromptNotFound,
        errors.HeaderMismatch,
        errors.MissingClientCapability,
        errors.UnsupportedProtocolVersion,
        errors.UrlElicitationRequired,
    )
}
"""Numbers that the protocol prescribes; a mapping may change their words, not them."""

RETRY_SAFE_CODES = frozenset({"timeout", "transport_error", "interrupted", "connection_failed", "upstream_error"})
"""A second call may help, and may repeat the effect: retryable if the tool is retry-safe."""

DATA_SCHEMA = {
    "type": "object",
    "properties": {
        "errorCode": {"type": "string"},
        "details": {"type": "object"},
        "retryable": {"type": "boolean"},
        "invocationId": {"type": "string"},
        "traceId": {"type": "string"},
    },
    "required": ["errorCode", "details", "retryable"],
}


@dataclass(frozen=True, slots=True)
class ErrorRule:
    """One row of McpErrorMapping."""

    internal_code: str
    json_rpc_code: int
    message_template: str
    retryable: bool
    data_schema: Mapping[str, Any]


def _default(code: str, number: int, retryable: bool = False) -> ErrorRule:
    return ErrorRule(code, number, "{message}", retryable, DATA_SCHEMA)


DEFAULTS: tuple[ErrorRule, ...] = (
    *(_default(code, number) for code, number in FIXED_CODES.items()),
    _default("tool_disabled", errors.INVALID_PARAMS),
    _default("invalid_arguments", errors.INVALID_PARAMS),
    _default("server_error", errors.INTERNAL_ERROR),
    _default("unauthorized", -31001),
    _default("host_refused", -31002),
    _default("forbidden", -31003),
    _default("duplicate_request", -31004),
    _default("rate_limited", -31005, True),
    _default("session_not_found", -31006),
    _default("payload_too_large", -31007),
    _default("body_timeout", -31008, True),
    _default("quota_reached", -31009, True),
    _default("connection_failed", -31010, True),
    _default("transport_error", -31011),
    _default("timeout", -31012),
    _default("provider_unavailable", -31013, True),
    _default("authentication_failed", -31014),
    _default("quota_exceeded", -31015),
    _default("audit_unavailable", -31016, True),
    _default("server_busy", -31017, True),
    _default("session_busy", -31018, True),
    _default("method_not_allowed", -31020),
    _default("not_acceptable", errors.INVALID_REQUEST),
    _default("unsupported_media_type", -31021),
    _default("cancelled", -31030),
    _default("interrupted", -31031),
    _default("upstream_error", -31032),
    _default("execution_error", -31033),
    _default("result_invalid", -31034),
    _default("egress_refused", -31035),
    _default("policy_denied", -31036),
    _default("guardrail_refused", -31037),
    _default("guardrail_failed", -31038),
    _default("writes_stopped", -31039),
)
"""The rows that ship (numbers: the product's error table; unmapped codes fall back to server_error)."""


class ErrorMap:
    """All rules at one moment. Immutable."""

    def __init__(self, rules: Iterable[ErrorRule] = ()) -> None:
        self._rules = {rule.internal_code: rule for rule in DEFAULTS} | {rule.internal_code: rule for rule in rules}
        self._validators: dict[str, schemas.Validator] = {}
        for code, rule in self._rules.items():
            if rule.data_schema and rule.data_schema != DATA_SCHEMA:
                try:
                    self._validators[code] = schemas.compile(dict(rule.data_schema))
                except (TypeError, ValueError):
                    logger.exception("The data schema of %s cannot be used and is passed over", code)

    def words(self, code: str, message: str, **fields: str) -> tuple[int, str, bool] | None:
        """Return number, words and whether to try again of a failure that is none of a call; None for an unknown
        code.
        """
        rule = self._rules.get(code)
        if rule is None:
            return None
        values = {**fields, "message": message, "error_code": code}
        words = _FIELD.sub(lambda field: values.get(field[1], ""), rule.message_template)
        return rule.json_rpc_code, words, rule.retryable

    def rule(self, code: str) -> ErrorRule:
        return self._rules.get(code) or self._rules["server_error"]

    def render(
        self,
        error: errors.HubError,
        *,
        invocation_id: str = "",
        trace_id: str = "",
        tool: str = "",
        retry_safe: bool = False,
    ) -> dict[str, Json]:
        """Return the JSON-RPC error object: code, message, and data {errorCode, details, retryable, …}.

        `retry_safe`: calling the tool again does no harm. Members that the specification wants at the top of `data`
        stand beside ours. Details that break the rule's data schema are left out rather than sent.
        """
        rule = self.rule(error.code)
        fields = {
            **error.details,
            "message": error.message,
            "tool": tool or error.details.get("tool", ""),
            "invocation_id": invocation_id,
            "error_code": error.code,
        }
        message = _FIELD.sub(lambda field: str(fields.get(field[1], "")), rule.message_template)
        data: dict[str, Any] = {
            **error.spec_data,
            "errorCode": error.code,
            "details": _sendable(error.details),
            "retryable": rule.retryable or error.was_not_made or (retry_safe and error.code in RETRY_SAFE_CODES),
        }
        if invocation_id:
            data["invocationId"] = invocation_id
        if trace_id:
            data["traceId"] = trace_id
        if error.retry_after_seconds is not None:
            data["retryAfterSeconds"] = error.retry_after_seconds
        validator = self._validators.get(rule.internal_code)
        if validator is not None and not validator.is_valid(data):
            data["details"] = {}
        if invocation_id:
            data["correlationId"] = invocation_id
        number = rule.json_rpc_code if error.wire_code is None else error.wire_code
        return {"code": number, "message": message, "data": data}


def _sendable(details: dict[str, Json]) -> dict[str, Json]:
    """Return details unchanged, or none if a backend put in something that is not JSON."""
    try:
        json.canonical(details)
    except ValueError:
        return {}
    return details


def problems(code: str, number: int, template: str, data_schema: object) -> dict[str, str]:
    """Return the problems of a mapping, by field, for an operator. Empty: nothing."""
    found: dict[str, str] = {}
    if code in FIXED_CODES and number != FIXED_CODES[code]:
        found["json_rpc_code"] = _("The protocol fixes the number of %(code)s at %(number)s.") % {
            "code": code,
            "number": FIXED_CODES[code],
        }
    if code not in FIXED_CODES and number == errors.URL_ELICITATION_REQUIRED:
        found["json_rpc_code"] = _("The protocol reserves %(number)s for addresses that a person must open.") % {
            "number": number
        }
    known = _GENERAL_FIELDS | _DETAIL_FIELDS.get(code, frozenset())
    bare = _FIELD.sub("", template)
    unknown = sorted(set(_FIELD.findall(template)) - known)
    if "{" in bare or "}" in bare or unknown:
        found["message_template"] = _("Enter fields as {name}. Available fields: %(known)s.") % {
            "known": ", ".join(f"{{{name}}}" for name in sorted(known))
        }
    if data_schema:
        try:
            schemas.check(data_schema)
        except ValueError as error:
            found["data_schema"] = str(error)
    return found


def as_result(rendered: dict[str, Json]) -> dict[str, Json]:
    """Return a failure as a result with `isError`: the words for the model, the data for programs."""
    return {
        "content": [{"type": "text", "text": rendered["message"]}],
        "isError": True,
        "_meta": {"mcphub/error": {"code": rendered["code"], **rendered["data"]}},
    }
