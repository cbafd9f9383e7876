"""What a provider's error means: its status, headers and body as a ChatError. Pure; one map for each kind.

OpenAI tells quota from rate by `error.code` and `error.type`, both with 429. Huawei Cloud MaaS answers in the form of
its gateway (`error_code`, `error_msg`) or in that of the server behind it (`object: error`, `code`), and some of its
401 are quota. Built from the published documentation of both, and for Huawei not tried against the service.
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcphub.chat.errors import ChatError
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError

LONGEST_MESSAGE = 300
"""Characters of what a provider says that are passed on."""
_QUOTA = frozenset({
    "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded", "organization_usage_limit_exceeded", "billing_hard_limit_reached",
    "billing_not_active",
})  # fmt: skip
_MAAS = {
    "ModelArts.81001": "INVALID_QUERY",
    "ModelArts.81002": "AUTHENTICATION_FAILED",
    "ModelArts.81003": "AUTHENTICATION_FAILED",
    "ModelArts.81004": "AUTHENTICATION_FAILED",
    "ModelArts.81005": "QUOTA_EXCEEDED",
    "ModelArts.81006": "QUOTA_EXCEEDED",
    "ModelArts.81009": "MODEL",
    "ModelArts.81011": "CONTENT_FILTER",
    "ModelArts.81101": "RATE",
    "ModelArts.81103": "RATE",
    "APIG.0203": "TIMEOUT",
}
_SECRET = re.compile(r"(?i)\b(sk|key|bearer)[-_ ][\w*.-]{4,}")
"""Providers like to repeat a part of the key in their errors."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """A provider's error, whatever form it came in."""

    status: int
    code: str
    type: str
    message: str
    param: str | None
    retry_after: float | None
    """Seconds."""

    @classmethod
    def read(cls, status: int, headers: Mapping[str, str], body: bytes) -> Complaint:
        try:
            value: Any = json.loads(body)
        except ParseError:
            value = None
        found = value if isinstance(value, dict) else {}
        inner = found.get("error")
        if isinstance(inner, str):
            found = {"message": inner, **found}
        elif isinstance(inner, dict):
            found = inner
        code = found.get("error_code") or found.get("code") or ""
        message = found.get("message") or found.get("error_msg") or ""
        param = found.get("param")
        return cls(
            status, str(code), str(found.get("type") or ""), _shown(str(message)),
            param if isinstance(param, str) else None, _retry_after(headers),
        )  # fmt: skip


def understand(provider: str, kind: str, complaint: Complaint) -> ChatError:
    """Give the error that a turn ends with where this was a provider's last word."""
    meaning = _MAAS.get(complaint.code) if kind == "huawei_maas" else None
    meaning = meaning or _by_openai(complaint)
    said = f" It says: {complaint.message}" if complaint.message else ""
    after = complaint.retry_after
    if meaning == "QUOTA_EXCEEDED":
        return ChatError("QUOTA_EXCEEDED", f"The quota at {provider} is used up. Tell the hub's operator.{said}")
    if meaning == "RATE":
        return ChatError(
            "PROVIDER_UNAVAILABLE", f"{provider} limits the rate of requests. Try again later.{said}",
            retry_after=after if after is not None else 1,
        )  # fmt: skip
    if meaning == "AUTHENTICATION_FAILED":
        if complaint.code == "ModelArts.81004":
            said = " The service is not enabled for the account."
        # What it says may hold a part of the key.
        return ChatError(
            "AUTHENTICATION_FAILED",
            f"{provider} does not accept the hub's key. Tell the hub's operator."
            f"{said if complaint.code == 'ModelArts.81004' else ''}",
        )
    if meaning == "MODEL":
        return ChatError(
            "INVALID_QUERY", f"{provider} has no such model. Tell the hub's operator.{said}", param="model",
            openai_code="model_not_found", http_status=404,
        )  # fmt: skip
    if meaning == "CONTENT_FILTER":
        return ChatError("CONTENT_FILTER", f"{provider} refuses the content.{said}", param=complaint.param)
    if meaning == "TIMEOUT":
        return ChatError("TIMEOUT", f"{provider} did not answer in time.{said}")
    if meaning == "INVALID_QUERY":
        return ChatError(
            "INVALID_QUERY", f"{provider} refuses the request.{said}", param=complaint.param,
            openai_code=complaint.code if complaint.code == "context_length_exceeded" else None,
        )  # fmt: skip
    return ChatError(
        "PROVIDER_UNAVAILABLE", f"{provider} fails with HTTP status {complaint.status}.{said}", retry_after=after
    )


def may_retry(error: ChatError, complaint: Complaint) -> bool:
    """Whether the same request may be sent again at once: rate and passing failures of the provider."""
    return error.code in ("PROVIDER_UNAVAILABLE", "TIMEOUT") and complaint.status in (429, 502, 503, 504)


def _by_openai(complaint: Complaint) -> str:
    status = complaint.status
    if complaint.code in _QUOTA or complaint.type in _QUOTA:
        return "QUOTA_EXCEEDED"
    if complaint.code == "content_filter":
        return "CONTENT_FILTER"
    if complaint.code == "model_not_found" or status == 404:
        return "MODEL"
    if status in (401, 403):
        return "AUTHENTICATION_FAILED"
    if status == 402:
        return "QUOTA_EXCEEDED"
    if status == 429:
        return "RATE"
    if status in (408, 504):
        return "TIMEOUT"
    if 400 <= status < 500:
        return "INVALID_QUERY"
    return "DOWN"


def _shown(text: str) -> str:
    text = _SECRET.sub("(not shown)", " ".join(text.split()))
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Read `retry-after-ms`, or `Retry-After` as seconds or as a date."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = headers.get(name, "")
        try:
            return max(0.0, min(86_400.0, float(text) / scale))
        except ValueError:
            continue
    try:
        moment = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    return max(0.0, min(86_400.0, moment.timestamp() - time.time()))
