"""What the page is made of: parts in their order, each with its rows and its deeds.

A further part is a module with a `PART`, named in `pages.PARTS`, and a template beside the others. What a part shows or
does is of `request.user` alone: an id that names something of somebody else is answered like one that names nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django.http import HttpRequest, HttpResponse

Deed = Callable[[HttpRequest], HttpResponse | str]
"""Does what a form asks; gives a page of its own, or a sentence that says what was done. Raises Http404."""


@dataclass(frozen=True, slots=True)
class Part:
    id: str
    """Its anchor on the page and its word in addresses."""
    template: str
    rows: Callable[[HttpRequest], Mapping[str, object]]
    """Gives what its template shows; bounded."""
    deeds: Mapping[str, Deed] = field(default_factory=dict)
    """Word in the address `/me/<id>/<word>/` -> what a POST there does."""


class DeedRefused(Exception):
    """A deed cannot be done; the sentence says why, and what to do."""
