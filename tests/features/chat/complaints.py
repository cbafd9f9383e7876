"""What providers answer instead of an answer: status, headers and body of each error, by name.

The words of `huawei_maas` follow its published table of errors, once in the form of its gateway and once in the form
of the server behind it. Nothing here was recorded from a live service.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Complaint(NamedTuple):
    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)


def _openai(
    status: int, code: str | None, message: str, kind: str, param: str | None = None, **headers: str
) -> Complaint:
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    more = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Complaint(status, _json(body), (("content-type", "application/json"), *more))


def _gateway(status: int, code: str, message: str) -> Complaint:
    return Complaint(status, _json({"error_code": code, "error_msg": message, "request_id": "scripted"}))


def _behind(status: int, message: str, kind: str = "BadRequestError") -> Complaint:
    """The form of the server behind the gateway: no `error` around it, `code` is the HTTP status."""
    return Complaint(
        status, _json({"object": "error", "message": message, "type": kind, "param": None, "code": status})
    )


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


_INVALID = "invalid_request_error"
COMPLAINTS: dict[str, Complaint] = {
    "invalid_request": _openai(400, None, "Invalid value for 'temperature'.", _INVALID, "temperature"),
    "context_length_exceeded": _openai(
        400, "context_length_exceeded", "This model's maximum context length is 8192 tokens.", _INVALID, "messages"
    ),
    "content_filter": _openai(400, "content_filter", "The prompt was filtered.", _INVALID, "prompt"),
    "invalid_api_key": _openai(401, "invalid_api_key", "Incorrect API key provided: sk-inv*****.", _INVALID),
    "forbidden": _openai(403, "unsupported_country_region_territory", "Not supported here.", "request_forbidden"),
    "model_not_found": _openai(404, "model_not_found", "The model does not exist.", _INVALID),
    "rate_limit_exceeded": _openai(
        429, "rate_limit_exceeded", "Rate limit reached for requests.", "requests", retry_after="1"
    ),
    "rate_limit_long": _openai(
        429, "rate_limit_exceeded", "Rate limit reached for tokens.", "tokens", retry_after="600"
    ),
    "insufficient_quota": _openai(429, "insufficient_quota", "You exceeded your current quota.", "insufficient_quota"),
    "credit_balance_exhausted": _openai(
        429, "credit_balance_exhausted", "The credit balance is used up.", "insufficient_quota"
    ),
    "server_error": _openai(500, None, "The server had an error.", "server_error"),
    "overloaded": _openai(503, None, "The engine is overloaded.", "server_error", retry_after="1"),
    "ModelArts.81001": _gateway(400, "ModelArts.81001", "Invalid request body."),
    "ModelArts.81002": _gateway(400, "ModelArts.81002", "The API key is missing."),
    "ModelArts.81003": _gateway(401, "ModelArts.81003", "The API key is invalid."),
    "ModelArts.81004": _gateway(401, "ModelArts.81004", "The service is not enabled."),
    "ModelArts.81005": _gateway(401, "ModelArts.81005", "The free quota is used up."),
    "ModelArts.81006": _gateway(401, "ModelArts.81006", "The account is frozen."),
    "ModelArts.81009": _gateway(404, "ModelArts.81009", "The model does not exist."),
    "ModelArts.81011": _gateway(403, "ModelArts.81011", "The content may be sensitive."),
    "ModelArts.81101": _gateway(429, "ModelArts.81101", "The RPM limit is reached."),
    "ModelArts.81103": _gateway(429, "ModelArts.81103", "The TPM limit is reached."),
    "APIG.0203": _gateway(504, "APIG.0203", "Backend timeout."),
    "vllm_bad_request": _behind(400, "max_tokens must be at least 1, got 0."),
    "vllm_not_found": _behind(404, "The model `x` does not exist.", "NotFoundError"),
    "html_502": Complaint(502, b"<html><body><h1>502 Bad Gateway</h1></body></html>", (("content-type", "text/html"),)),
    "empty_500": Complaint(500, b"", ()),
    "redirect": Complaint(307, b"", (("location", "/elsewhere/chat/completions"),)),
}
