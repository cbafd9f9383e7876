"""The form above a list of REST's pages: a field for each parameter that the view declares, and takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from sessions_app.kit.rest.filters import BooleanParameter, SeveralParameter

_EXCLUDES = "not_"


@dataclass(frozen=True, slots=True)
class PageControl:
    """A field of the form: one entry for each value that was asked for, and an empty one where there is none."""

    name: str
    values: list[str]
    choices: list[str]
    """Empty: any text."""
    help_text: str
    is_rare: bool
    """Parts that delete rows are collapsed: they would double the form."""


def controls(view: Any, request: HttpRequest) -> list[PageControl]:
    """Return the fields of a list's form; none for a page that takes no parameters."""
    if getattr(view, "detail", True):
        return []
    found = [_control(name, made, request) for name, made in _parameters(view).items()]
    own = [name for name in getattr(view, "parameters", ()) if name not in {each.name for each in found}]
    if getattr(view, "paginator", None) is not None and "limit" not in own:
        own.append("limit")
    return found + [PageControl(name, request.GET.getlist(name) or [""], [], "", False) for name in own]


def _parameters(view: Any) -> dict[str, Any]:
    for backend in view.filter_backends:
        filter_set = backend().get_filterset_class(view, view.queryset)
        if filter_set is not None:
            return dict(filter_set.base_filters)
    return {}


def _control(name: str, made: Any, request: HttpRequest) -> PageControl:
    choices: list[str] = []
    if isinstance(made, BooleanParameter):
        choices = ["true", "false"]
    elif isinstance(made, SeveralParameter) and not made.field.is_open:
        choices = made.field.known
    help_text = str(made.extra.get("help_text") or "")
    return PageControl(name, request.GET.getlist(name) or [""], choices, help_text, name.startswith(_EXCLUDES))
