"""Quotas that warn or refuse, as notices. One is over when its window ends: the next is another subject."""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.features.quotas import amounts, usage
from mcphub.features.quotas.usage import QuotaUse
from sessions_app.protocol.json import Json

_MOST = 200
"""More are not reported one by one in any case."""


def near() -> dict[str, dict[str, Json]]:
    return {_subject(use): _facts(use) for use in _uses() if use.soft is not None}


def spent() -> dict[str, dict[str, Json]]:
    return {_subject(use): _facts(use) for use in _uses() if use.state == "refuses"}


def shown(facts: Mapping[str, object]) -> dict[str, object]:
    """Return the amounts in words."""
    unit, found = facts.get("unit"), {name: facts.get(name) for name in ("used", "limit")}
    return {
        name: amounts.shown(number, str(unit))
        for name, number in found.items()
        if unit in amounts.UNITS and isinstance(number, int)
    }


def _uses() -> list[QuotaUse]:
    return usage.uses(near=True, most=_MOST)


def _subject(use: QuotaUse) -> str:
    return f"{use.quota} {use.subject} {use.window.begins}"


def _facts(use: QuotaUse) -> dict[str, Json]:
    return {
        "quota": use.quota,
        "caller": use.label or use.subject,
        "used": use.used,
        "limit": use.limit,
        "unit": use.unit,
        "ends": f"{use.ends_at:%Y-%m-%d %H:%M} UTC",
        **({"principal": use.subject} if use.subject.startswith(("user:", "key:")) else {}),
    }
