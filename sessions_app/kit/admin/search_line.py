"""The search of a console list: one line of keys and values, its chips, and its completion.

The page's `filters` are the keys (`kit.lists.searching`), `q` in the address is the whole state. Controls that narrow
the list too are shown as chips beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib.admin.views.main import SEARCH_VAR
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase, JsonResponse, QueryDict
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _t

from sessions_app.kit.admin.changelist import POSITION, HubList
from sessions_app.kit.admin.parts import ListPart
from sessions_app.kit.lists import searching
from sessions_app.kit.lists.filters import During, ListFilter, OneOf, YesOrNo
from sessions_app.kit.lists.searching import Search, SearchToken
from sessions_app.kit.shown import clipped, visible

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin

MOST_OFFERED = 10
_NOT_OF_A_SEARCH = (*POSITION, "e")


@dataclass(frozen=True, slots=True)
class Chip:
    """One thing that narrows the list; `link` is the list without it."""

    words: str
    title: str
    link: str
    is_wrong: bool = False


@dataclass(frozen=True, slots=True)
class OfferedValue:
    """`text` replaces the current token."""

    text: str
    words: str
    goes_on: bool
    """Whether more is written behind it at once: a key awaits its value."""


class SearchLine(ListPart):
    """Finds by keys and values. The page's template is `admin/hub/found_list.html`, or made of it."""

    def urls(self, page: HubAdmin) -> list[URLPattern]:
        view = page.admin_site.admin_view(partial(self.complete_view, page))
        return [path("complete/", view, name=f"{page.opts.app_label}_{page.opts.model_name}_complete")]

    def context(self, page: HubAdmin, request: HttpRequest) -> dict[str, object]:
        search = page.search_of(request)
        quick = next((each for each in searching.keys(page.filters).values() if isinstance(each, During)), None)
        where = f"admin:{page.opts.app_label}_{page.opts.model_name}"
        return {
            "finding": {
                "problems": [visible(each.words, one_line=True) for each in search.problems],
                "quick": [] if quick is None else list(_quick(page, request, search, quick)),
                "complete": reverse(f"{where}_complete"),
                "help": page.search_help_text,
            }
        }

    def listed(self, page: HubAdmin, request: HttpRequest, shown: HubList) -> None:
        shown.chips = [*_of_search(page, request), *_of_controls(page, request, shown)]

    def complete_view(self, page: HubAdmin, request: HttpRequest) -> HttpResponseBase:
        """Return the completions at the caret: keys, or the values of one."""
        if not page.has_view_or_change_permission(request):
            raise PermissionDenied
        text = request.GET.get("text", "")[: searching.LONGEST].replace("\0", "")
        found = [{"text": each.text, "words": each.words, "on": each.goes_on} for each in offered(text, page.filters)]
        return JsonResponse({"offered": found}, headers={"Cache-Control": "no-store"})


def offered(text: str, declared: tuple[ListFilter, ...]) -> list[OfferedValue]:
    """Return the completions of the current token: `text` is that token up to the caret."""
    sign, rest = ("-", text[1:]) if text.startswith("-") else ("", text)
    key, colon, value = rest.partition(":")
    known = searching.keys(declared)
    if not colon:
        names = sorted({each.search_key: each for each in known.values()}.items())
        begun = [(name, of) for name, of in names if name.startswith(key.casefold())]
        within = [(name, of) for name, of in names if key.casefold() in name and (name, of) not in begun]
        return [OfferedValue(f"{sign}{name}:", _title(of), True) for name, of in [*begun, *within]]
    of = known.get(key.lower())
    if of is None:
        return []
    before, comma, last = value.rpartition(",") if searching.takes_commas(of) else ("", "", value)
    begun_value = last.strip('"')
    head = f"{sign}{key}:{before}{comma}"
    return [OfferedValue(head + searching.quoted(each), words, False) for each, words in _values(of, begun_value)]


def _values(of: ListFilter, begun: str) -> list[tuple[str, str]]:
    if isinstance(of, OneOf):
        pairs = [(value, str(label)) for value, label in of.offered]
    elif isinstance(of, YesOrNo):
        pairs = [("yes", str(of.yes or _t("Yes"))), ("no", str(of.no or _t("No")))]
    elif isinstance(of, During):
        pairs = [(word, _quick_words(word)) for word in (*searching.QUICK, "today", "yesterday")]
    elif of.known is not None:
        return of.known(begun)[:MOST_OFFERED]
    else:
        return []
    word = begun.casefold()
    return [(value, words) for value, words in pairs if word in value.casefold() or word in words.casefold()]


def address_of(page: HubAdmin, request: HttpRequest, text: str, *, without: tuple[str, ...] = ()) -> str:
    """Return the list with another search, at its first page; `without` are parameters that go."""
    query = request.GET.copy()
    for name in (*_NOT_OF_A_SEARCH, *without):
        query.pop(name, None)
    return address_with(page, query, text)


def address_with(page: HubAdmin, query: QueryDict, text: str) -> str:
    if text:
        query[SEARCH_VAR] = text
    else:
        query.pop(SEARCH_VAR, None)
    where = reverse(f"admin:{page.opts.app_label}_{page.opts.model_name}_changelist")
    return f"{where}?{query.urlencode(safe=',:')}" if query else where


def toggled(page: HubAdmin, request: HttpRequest, of: ListFilter, value: str, *, is_excluded: bool = False) -> str:
    """Return the list with a value of a filter added to its search, or taken out where it is there."""
    search = page.search_of(request)
    here = _holding(search, of, value, is_excluded)
    parameter = (of.console_parameter,)
    if here is not None:
        left = [each for each in searching.values_of(of, here.value) if each != value]
        rest = search.without(here)
        token = searching.written(of.search_key, *left, is_excluded=is_excluded) if left else ""
        return address_of(page, request, f"{rest} {token}".strip(), without=parameter)
    if not is_excluded and request.GET.get(of.console_parameter) == value:
        return address_of(page, request, search.text, without=parameter)
    token = searching.written(of.search_key, value, is_excluded=is_excluded)
    return address_of(page, request, f"{search.text} {token}".strip(), without=parameter)


def replaced(page: HubAdmin, request: HttpRequest, of: ListFilter, token: str) -> str:
    """Return the list with this token in the place of all others of its filter."""
    search = page.search_of(request)
    kept = [each for each in search.tokens if _of(page, each) is not of]
    text = " ".join(search.text[each.begin : each.end] for each in kept)
    names = [of.console_parameter, f"{of.of}_from_0", f"{of.of}_from_1", f"{of.of}_to_0", f"{of.of}_to_1"]
    return address_of(page, request, f"{text} {token}".strip(), without=tuple(names))


def is_chosen(page: HubAdmin, request: HttpRequest, of: ListFilter, value: str) -> bool:
    search = page.search_of(request)
    return _holding(search, of, value, False) is not None or request.GET.get(of.console_parameter) == value


def _holding(search: Search, of: ListFilter, value: str, is_excluded: bool) -> SearchToken | None:
    for token in search.tokens:
        if token.key in (of.search_key, of.name) and token.is_excluded is is_excluded and token.value:
            try:
                if value in searching.values_of(of, token.value):
                    return token
            except searching.WrongValue:
                continue
    return None


def _of(page: HubAdmin, token: SearchToken) -> ListFilter | None:
    return searching.keys(page.filters).get(token.key)


def _title(of: ListFilter) -> str:
    words = of.facet or of.label
    return str(words or of.help_text).replace("`", "")


def _quick(page: HubAdmin, request: HttpRequest, search: Search, of: During) -> Iterator[dict[str, object]]:
    for word in searching.QUICK:
        here = any(token.key in (of.search_key, of.name) and token.value == word for token in search.tokens)
        link = replaced(page, request, of, "" if here else searching.written(of.search_key, word))
        yield {"words": word, "title": _quick_words(word), "link": link, "is_chosen": here}


def _quick_words(word: str) -> str:
    return {
        "15m": _t("the last 15 minutes"),
        "1h": _t("the last hour"),
        "24h": _t("the last 24 hours"),
        "7d": _t("the last 7 days"),
        "30d": _t("the last 30 days"),
        "today": _t("today"),
        "yesterday": _t("yesterday"),
    }[word]


def _of_search(page: HubAdmin, request: HttpRequest) -> Iterator[Chip]:
    search = page.search_of(request)
    wrong = {each.token for each in search.problems}
    for token in search.tokens:
        written = search.text[token.begin : token.end]
        link = address_of(page, request, search.without(token))
        of = _of(page, token)
        words = written
        if of is not None and token not in wrong:
            said = _t("%(key)s is not %(values)s") if token.is_excluded else _t("%(key)s: %(values)s")
            values = _t(" or ").join(searching.values_of(of, token.value))
            words = said % {"key": of.search_key, "values": values}
        yield Chip(clipped(words, 60), visible(written, one_line=True), link, token in wrong)


def _of_controls(page: HubAdmin, request: HttpRequest, shown: HubList) -> Iterator[Chip]:
    for spec in shown.filter_specs:
        names = [name for name in spec.expected_parameters() if name and request.GET.get(name)]
        if not names:
            continue
        values = " ".join(_words(spec, request.GET[name]) for name in names)
        link: Any = shown.get_query_string(remove=names)
        words = f"{spec.title}: {values}"
        yield Chip(clipped(words, 60), visible(words, one_line=True), str(link))


def _words(spec: Any, value: str) -> str:
    """Return a value of a control as the control calls it. A control of all values that occur has no words for them."""
    choices = getattr(spec, "lookup_choices", None) or getattr(getattr(spec, "field", None), "flatchoices", None) or ()
    pairs = [each for each in choices if isinstance(each, tuple)]
    return str({str(key): words for key, words in pairs}.get(value, value))
