"""The base of the admin's lists: the rows of a page, for tables that are never counted.

`admin_base` puts pages together from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.http import HttpRequest, QueryDict

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList as _List
else:
    from unfold.views import ChangeList as _List


MOST_TRIED = 30
"""Parameters; no list has as many filters."""


COLUMNS = "columns"
"""In the address of a list: the names of the columns to show, with commas between them (see admin_lists)."""
BEFORE, AFTER = "before", "after"
"""The same: beside which row a page begins (see admin_keyset)."""
POSITION = ("p", BEFORE, AFTER)


class HubList(_List):
    chips: Sequence[object] = ()
    """The active filters, each with a link that removes it (see search_line)."""

    def get_filters_params(self, params: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
        kept = super().get_filters_params(params)
        kept.pop(COLUMNS, None)  # no filter
        return kept


def holds_nul(query: QueryDict) -> bool:
    return any("\x00" in text for name, texts in query.lists() for text in (name, *texts))


def without_meaning(request: HttpRequest, listed: Callable[[HttpRequest], ChangeList]) -> Iterator[str]:
    """Return the parameters of an address with which a list cannot be made, each tried alone; of many the first."""
    for number, name in enumerate(request.GET):
        alone = copy(request)
        alone.GET = QueryDict(urlencode({name: request.GET.getlist(name)}, doseq=True))
        try:
            if number >= MOST_TRIED:
                raise IncorrectLookupParameters(name)
            listed(alone)
        except (IncorrectLookupParameters, DisallowedModelAdminLookup):
            yield name
