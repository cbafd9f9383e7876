"""Prices of models in bundles. Their provider stands there by name, money in millionths."""

from __future__ import annotations

from datetime import UTC

from django.utils.dateparse import parse_datetime

from mcphub.features.chat.models import ChatModelPrice, ChatProvider
from tools_catalog.bundles import bundle, entries
from tools_catalog.bundles.entries import Kind, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.models.loadable import LoadableModel

KIND = "model_prices"

PRICE = Kind(
    name="price",
    model=ChatModelPrice,
    key="name",
    came_by=LoadableModel.came_by,
    wire={"provider": "provider_slug", "valid_from": "valid_from_text"},
    definition={
        "name": str,
        "provider": str,
        "model": str,
        "input_millionths": (int, type(None)),
        "cached_millionths": (int, type(None)),
        "output_millionths": (int, type(None)),
        "valid_from": str,
    },
    operation={},
)


def connect() -> None:
    bundle.PARTS.append(bundle.BundlePart(KIND, _load, lambda: entries.dump(PRICE)))


def _load(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(PRICE, given[KIND], report, complete=_complete, reason=reason, overwrite=overwrite)


def _complete(entry: Json) -> dict[str, Json]:
    check_members(entry, PRICE)
    for member in ("name", "provider"):
        if not entry.get(member):
            raise ValueError(f"{member}: it is missing.")
    if not ChatProvider.objects.filter(slug=entry["provider"]).exists():
        raise ValueError(f"provider: there is no {entry['provider']!r} here.")
    wanted = dict(entry)
    if "valid_from" in entry:
        wanted["valid_from"] = _moment(entry["valid_from"])
    return wanted


def _moment(text: str) -> str:
    """Return a moment in the form of `ChatModelPrice.valid_from_text`."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError("valid_from: write a moment with its zone, such as 2026-11-01T00:00:00Z.")
    return moment.astimezone(UTC).isoformat()
