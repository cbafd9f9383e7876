"""The meaning of a provider's error: its status, headers and body as a ChatError. Pure; one map for each kind.

OpenAI distinguishes quota and rate by `error.code` and `error.type`, both with 429. Huawei Cloud MaaS answers in the
form of its gateway (`error_code`, `error_msg`) or in that of the server behind it (`object: error`, `code`), and some
of its 401 are quota. Built from the published documentation of both, and for Huawei not tried against the service.
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from mcphub.features.chat.errors import ChatError, invalid
from mcphub.features.chat.providers import error_bodies

LONGEST_MESSAGE = 300
"""Characters of a provider's message that are passed on."""
REASON = "It says: "
"""Prefix of the provider's own message."""
_QUOTA = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "billing_hard_limit_reached",
        "billing_not_active",
    }
)
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
    "APIG.0203": "LATE",
}
_SECRET = re.compile(r"(?i)\b(sk|key|bearer)([-_][\w*.-]{4,}| (?=[\w*.-]*[\d*])[\w*.-]{4,}| [\w*.-]{16,})")
"""Providers like to repeat a part of the key in their errors. After a space a plain short word is none."""


@dataclass(frozen=True, slots=True)
class ProviderError:
    """A provider's error, whatever form it came in."""

    status: int
    code: str
    type: str
    message: str
    param: str | None
    retry_after: float | None
    """Seconds."""

    @classmethod
    def read(cls, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        found = error_bodies.read(body)
        return cls(status, found.code, found.type, _public(found.message), found.param, _retry_after(headers))


def to_chat_error(provider: str, kind: str, error: ProviderError) -> ChatError:
    """Return the error that a turn ends with where this was a provider's last word."""
    meaning = _MAAS.get(error.code) if kind == "huawei_maas" else None
    meaning = meaning or _by_openai(error)
    detail = f" {REASON}{error.message}" if error.message else ""
    after = error.retry_after
    if meaning == "QUOTA_EXCEEDED":
        return ChatError("QUOTA_EXCEEDED", f"The quota at {provider} is used up. Tell the hub's operator.{detail}")
    if meaning == "RATE":
        return unavailable(
            f"{provider} limits the rate of requests. Try again later.{detail}",
            retry_after=after if after is not None else 1,
        )
    if meaning == "AUTHENTICATION_FAILED":
        if error.code == "ModelArts.81004":
            detail = " The service is not enabled for the account."
        # What it says may hold a part of the key.
        return ChatError(
            "AUTHENTICATION_FAILED",
            f"{provider} does not accept the hub's key. Tell the hub's operator."
            f"{detail if error.code == 'ModelArts.81004' else ''}",
        )
    if meaning == "MODEL":
        return invalid(
            "model",
            f"{provider} has no such model. Tell the hub's operator.{detail}",
            openai_code="model_not_found",
            http_status=404,
        )
    if meaning == "CONTENT_FILTER":
        return ChatError("CONTENT_FILTER", f"{provider} refuses the content.{detail}", param=error.param)
    if meaning == "LATE":
        return unavailable(f"{provider} did not answer in time.{detail}", retry_after=after)
    if meaning == "INVALID_QUERY":
        return ChatError(
            "INVALID_QUERY",
            f"{provider} refuses the request.{detail}",
            param=error.param,
            openai_code=error.code if error.code == "context_length_exceeded" else None,
        )
    return unavailable(f"{provider} fails with HTTP status {error.status}.{detail}", retry_after=after)


def unavailable(message: str, *, retry_after: float | None = None, should_retry: bool | None = None) -> ChatError:
    """Return the error of a provider that gives no answer, whatever it is that fails between the hub and its model.

    `retry_after`: seconds, where the provider names them.
    """
    return ChatError("PROVIDER_UNAVAILABLE", message, retry_after=retry_after, should_retry=should_retry)


def may_retry(failure: ChatError, error: ProviderError) -> bool:
    """Return whether the same request may be sent again at once: rate and passing failures of the provider."""
    return failure.code == "PROVIDER_UNAVAILABLE" and error.status in (429, 502, 503, 504)


def _by_openai(error: ProviderError) -> str:
    status = error.status
    if error.code in _QUOTA or error.type in _QUOTA:
        return "QUOTA_EXCEEDED"
    if error.code == "content_filter":
        return "CONTENT_FILTER"
    if error.code == "model_not_found" or status == 404:
        return "MODEL"
    if status in (401, 403):
        return "AUTHENTICATION_FAILED"
    if status == 402:
        return "QUOTA_EXCEEDED"
    if status == 429:
        return "RATE"
    if status in (408, 504):
        return "LATE"
    if 400 <= status < 500:
        return "INVALID_QUERY"
    return "DOWN"


def _public(text: str) -> str:
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
