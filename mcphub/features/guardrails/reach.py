"""Guardrails as policies that keep their tools: edits of tools and services that would evade one are held back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcphub.features.guardrails.guardrail import OPEN
from mcphub.features.guardrails.models import McpGuardrail
from tools_catalog.models import HttpService
from tools_catalog.models.reach import MISLED, READERS, Policed, by_scope, is_elsewhere, where
from tools_catalog.models.renaming import SCOPED

if TYPE_CHECKING:
    from tools_catalog.models.places import PlaceModel


def connect() -> None:
    READERS.append(_policies)
    MISLED.append(_blinded)
    SCOPED.append(McpGuardrail)


def _policies() -> Iterable[Policed]:
    return [by_scope(row, _label(row)) for row in McpGuardrail.objects.filter(enabled=True, watching=False)]


def _blinded(place: PlaceModel, moved: PlaceModel) -> list[str]:
    """Return the guardrails that a service answers, and that would ask elsewhere, otherwise, or nobody at all."""
    if not isinstance(place, HttpService) or not isinstance(moved, HttpService):
        return []
    rows = McpGuardrail.objects.filter(enabled=True, checked_by=McpGuardrail.Check.SERVICE, service=place.slug)
    if not is_elsewhere(place, moved):  # else it reads what others send, also where it is logged only
        rows = rows.filter(watching=False)
        if all(where(place, name) == where(moved, name) for name in place.BOUND if name != "enabled"):
            rows = rows.filter(on_failure=OPEN) if place.enabled and not moved.enabled else rows.none()
    return [_label(row) for row in rows]


def _label(row: McpGuardrail) -> str:
    return f"{row._meta.verbose_name} {row.name}"
