"""How a REST request fails: one shape for every error, whatever raised it, and never a page or a traceback.

{"error": {"code": …, "message": what is wrong and the next step, "details": {…}, "retryable": bool},
 "type": "about:blank", "title": the status in words, "status": …, "detail": the message once more}

The second half is a problem of RFC 9457, with `error` as an extension member; clients of DRF read `detail`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from typing import Any

from django.conf import settings
from django.core.exceptions import NON_FIELD_ERRORS, DisallowedHost, PermissionDenied, SuspiciousOperation
from django.core.exceptions import ValidationError as ModelInvalid
from django.http import Http404, JsonResponse
from django.urls import get_script_prefix
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import set_rollback

from sessions_app.kit.database import is_away
from sessions_app.protocol import errors

logger = logging.getLogger(__name__)

NOT_FOUND = "not_found"
"""Seed 004's word for an address or an object that is not there."""
CODES = (
    "parse_error",
    "invalid_request",
    "invalid_params",
    "unauthorized",
    "forbidden",
    NOT_FOUND,
    "method_not_allowed",
    "not_acceptable",
    "conflict",
    "payload_too_large",
    "unsupported_media_type",
    "rate_limited",
    "quota_reached",
    "server_busy",
    "audit_unavailable",
    "server_error",
)
"""Every code that REST answers with."""
PROBLEM = "application/problem+json"
NO_TYPE = "about:blank"
"""RFC 9457, 4.2.1: the title is the status in words. `error.code` distinguishes errors of one status."""
MOST_NAMED = 20
"""Fields that one refusal names; of the others it gives the number."""
_LONGEST_NAME = 100
_LONGEST_WORDS = 500
_RETRYABLE_STATUSES = frozenset({429, 503})
_FIELDS_SENTENCE = "The request was not accepted. `details.fields` says what to change in each field."
_CONFLICT_SENTENCE = (
    "The request keeps to the schema and cannot be done as things stand. `details.fields` says what stands against it."
)
_OWN_ADDRESS = re.compile(r"(?<![\w/.])/api/")
"""In sentences: a host has REST below its prefix."""
_STANDS_AGAINST = frozenset({"unique", "does_not_exist"})
"""DRF's codes for conflicts with other rows rather than the schema."""
_UNREADABLE = "The database does not answer now. Try again; /ready says how the hub is."


class Conflict(errors.HubError):
    """The request keeps to the schema, and cannot be done as things stand."""

    code = "conflict"
    sentence = "This cannot be done as things stand."
    http_status = 409


class NoSuchPage(errors.HubError):
    """A cursor that is none of the list."""

    code = NOT_FOUND
    sentence = "There is no such page. Follow `next` and `previous` as they are given."
    http_status = 404


@dataclass(frozen=True, slots=True)
class _Raised:
    status: int
    code: str
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, object]:
        retryable = self.status in _RETRYABLE_STATUSES
        message = _OWN_ADDRESS.sub(f"{get_script_prefix()}api/", self.message)
        return problem(self.status, self.code, message, dict(self.details), retryable)


def problem(
    status: int, code: str, message: str, details: dict[str, Any], retryable: bool, **more: object
) -> dict[str, Any]:
    """Return the body of an error: a problem of RFC 9457 with an `error` of the hub's own, `more` within it."""
    error = {"code": code, "message": message, "details": details, "retryable": retryable, **more}
    title = HTTPStatus(status).phrase
    return {"error": error, "type": NO_TYPE, "title": title, "status": status, "detail": message}


def render_exception(exc: Exception, context: dict[str, object]) -> Response:
    """Answer any exception of a view; DRF's EXCEPTION_HANDLER."""
    told = _tell(exc, context)
    if told.status >= 500:
        request = context.get("request")
        logger.error("REST failed: %s", getattr(request, "path", ""), exc_info=exc)
    set_rollback()
    _let_go(context.get("request"))
    return Response(told.body(), status=told.status, headers=dict(told.headers), content_type=PROBLEM)


def render_outside(exc: Exception) -> JsonResponse:
    """Answer requests that fail before a view is reached, such as one with a foreign Host header."""
    told = _tell(exc, {})
    return JsonResponse(told.body(), status=told.status, headers=dict(told.headers), content_type=PROBLEM)


def _tell(exc: Exception, context: dict[str, object]) -> _Raised:
    if isinstance(exc, errors.HubError):
        return _told_of_hub(exc)
    if isinstance(exc, ModelInvalid):
        return _Raised(409, "conflict", _CONFLICT_SENTENCE, {"fields": _bounded(_model_fields(exc))})
    if isinstance(exc, Http404):
        return _missing(context)
    if isinstance(exc, PermissionDenied):
        return _Raised(403, "forbidden", errors.Forbidden.sentence)
    if isinstance(exc, DisallowedHost):
        return _Raised(400, "invalid_request", errors.MisdirectedRequest.sentence)
    if isinstance(exc, SuspiciousOperation):
        return _Raised(400, "invalid_request", "The request is malformed. /api/docs shows what is expected.")
    if is_away(exc):
        return _Raised(503, "audit_unavailable", _UNREADABLE, headers={"Retry-After": "1"})
    if isinstance(exc, drf.APIException):
        return _told_of_framework(exc, context)
    return _Raised(500, "server_error", errors.HubError.sentence)


def _told_of_hub(exc: errors.HubError) -> _Raised:
    status = exc.http_status
    if status is None:
        status = errors.HTTP_STATUS[exc.jsonrpc_code] if isinstance(exc, errors.ProtocolError) else 400
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status == 503 or exc.retry_after_seconds is not None:
        headers["Retry-After"] = f"{max(1, round(exc.retry_after_seconds or 1))}"
    return _Raised(status, exc.code, exc.message, exc.details, headers)


def _told_of_framework(exc: drf.APIException, context: dict[str, object]) -> _Raised:
    status, words = exc.status_code, str(exc.detail)
    if isinstance(exc, drf.ValidationError):
        fields = {"fields": _bounded(_flat(exc.detail))}
        if set(_leaves(exc.get_codes())) <= _STANDS_AGAINST:
            return _Raised(409, "conflict", _CONFLICT_SENTENCE, fields)
        return _Raised(400, "invalid_params", _FIELDS_SENTENCE, fields)
    if isinstance(exc, drf.NotAuthenticated | drf.AuthenticationFailed):
        sentence = (
            words
            if isinstance(exc, drf.AuthenticationFailed)
            else f"A key or a login is needed. Send `Authorization: Bearer <key>`, or log in{_where()}."
        )
        return _Raised(401, "unauthorized", sentence, headers={"WWW-Authenticate": "Bearer"})
    if isinstance(exc, drf.NotFound):
        return _missing(context)
    if isinstance(exc, drf.PermissionDenied):
        csrf = words.startswith("CSRF")
        return _Raised(403, "forbidden", f"{words} Send the cookie's value as X-CSRFToken." if csrf else words)
    if isinstance(exc, drf.MethodNotAllowed):
        allowed = sorted(set(getattr(context.get("view"), "allowed_methods", [])))
        sentence = f"This address does not serve the method. Use {' or '.join(allowed) or 'another address'}."
        return _Raised(405, "method_not_allowed", sentence, {"allowed": allowed})
    if isinstance(exc, drf.NotAcceptable):
        return _Raised(406, "not_acceptable", "The answer is JSON only. Send Accept: application/json.")
    if isinstance(exc, drf.UnsupportedMediaType):
        return _Raised(415, "unsupported_media_type", errors.UnsupportedMediaType.sentence)
    if isinstance(exc, drf.Throttled):
        wait = getattr(exc, "wait", None)
        headers = {"Retry-After": f"{wait:.0f}"} if wait else {}
        return _Raised(429, "rate_limited", errors.RateLimited.sentence, headers=headers)
    if isinstance(exc, drf.ParseError):
        return _Raised(400, "parse_error", "The body is not valid JSON. Send one UTF-8 JSON object.")
    if status < 500:
        return _Raised(status, "invalid_request", words)
    return _Raised(status, "server_error", errors.HubError.sentence)


def _where() -> str:
    return "" if settings.MCPHUB_EMBEDDED else " at /admin/"


def _missing(context: dict[str, object]) -> _Raised:
    sentence = getattr(context.get("view"), "missing", "There is nothing here. /api/docs shows what there is.")
    return _Raised(404, NOT_FOUND, sentence)


def refused_members(problems: Iterable[tuple[str, str]]) -> drf.ValidationError:
    """Return the refusal of members {name, its problem}, of which a body may have hundreds of thousands."""
    found = iter(problems)
    named: dict[str, Any] = {name[:_LONGEST_NAME]: [words] for name, words in islice(found, MOST_NAMED)}
    if rest := sum(1 for _ in found):
        named[NON_FIELD_ERRORS] = [_more(rest)]
    return drf.ValidationError(named)


def _more(number: int) -> str:
    return f"{number} more fields are wrong."


def _bounded(fields: dict[str, list[str]]) -> dict[str, list[str]]:
    kept = {
        name[:_LONGEST_NAME]: [words[:_LONGEST_WORDS] for words in lines[:MOST_NAMED]]
        for name, lines in islice(fields.items(), MOST_NAMED + 1)
    }
    if rest := len(fields) - len(kept):
        kept.setdefault("*", []).append(_more(rest))
    return kept


def _let_go(request: object) -> None:
    """Forget the body: request and view refer to each other, and would keep it until garbage is collected."""
    if isinstance(request, Request):
        own: Any = request
        own._full_data = own._data = {}


def _model_fields(exc: ModelInvalid) -> dict[str, list[str]]:
    by_field = exc.message_dict if hasattr(exc, "error_dict") else {NON_FIELD_ERRORS: exc.messages}
    return {("*" if name == NON_FIELD_ERRORS else name): list(words) for name, words in by_field.items()}


def _leaves(codes: Any) -> Iterator[str]:
    """Return DRF's codes of a refusal, however they are nested."""
    if codes is None or isinstance(codes, str):
        yield codes or ""
    else:
        for inner in codes.values() if isinstance(codes, dict) else codes:
            yield from _leaves(inner)


def _flat(detail: object, path: str = "") -> dict[str, list[str]]:
    """Return DRF's nested messages by dotted path; `*` is the whole body."""
    if isinstance(detail, dict):
        found: dict[str, list[str]] = {}
        for name, inner in detail.items():
            here = "" if name in ("non_field_errors", NON_FIELD_ERRORS) else str(name)
            for key, words in _flat(inner, ".".join(filter(None, (path, here)))).items():
                found.setdefault(key, []).extend(words)
        return found
    if isinstance(detail, list):
        if any(isinstance(item, dict) for item in detail):
            numbered = {str(index): item for index, item in enumerate(detail) if item}
            return _flat(numbered, path)
        return {path or "*": [str(item) for item in detail]}
    return {path or "*": [str(detail)]}
