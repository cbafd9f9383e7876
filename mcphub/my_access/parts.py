"""The parts of the page in their order, each with its rows and actions.

A further part is a module with a `PART`, named in `pages.py` or by a `MyAccessPart` of a feature, and a template. A
part shows and changes data of `request.user` alone: another person's ID is answered like an unknown one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django.http import HttpRequest, HttpResponse

Deed = Callable[[HttpRequest], HttpResponse | str]
"""Performs a form's action; returns a page of its own, or a sentence about the result. Raises Http404."""


@dataclass(frozen=True, slots=True)
class Part:
    id: str
    """Its anchor on the page and its word in addresses."""
    template: str
    rows: Callable[[HttpRequest], Mapping[str, object]]
    """Returns the context of its template; bounded."""
    deeds: Mapping[str, Deed] = field(default_factory=dict)
    """Word in the address `/me/<id>/<word>/` -> the action of a POST there."""


class DeedRefused(Exception):
    """An action is refused; the sentence has the reason and the next step."""
