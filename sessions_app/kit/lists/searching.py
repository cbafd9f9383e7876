"""One line that finds rows of a list: `status:error -tool:echo,add took:>500 time:1h` and free words.

A list's filters are its keys. Commas separate values of which a row has one, a `-` before the key excludes them, quotes
keep blanks, commas and colons together. Keys with different names must all hold, as must each exclusion.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import singledispatch

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _t

from sessions_app.kit.lists.filters import Between, Demand, During, ListFilter, OneOf, Rows, WholeNumber, YesOrNo
from sessions_app.kit.shown import clipped

LONGEST = 2000
MOST_TOKENS, MOST_VALUES = 40, 50
QUICK = ("15m", "1h", "24h", "7d", "30d")
"""Times that are offered; any number of minutes, hours, days or weeks is taken."""
_QUOTED = r'"(?:[^"\\]|\\.)*"?'
_TOKEN = re.compile(rf'(-?)([A-Za-z][A-Za-z_]*):((?:{_QUOTED}|[^\s"])*)|({_QUOTED}|\S+)')
_VALUE = re.compile(rf"(?:{_QUOTED}|[^,\"])+")
_SPAN = re.compile(r"([0-9]{1,4})(m|h|d|w)")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
_NUMBER = re.compile(r"([0-9]{1,9})(ms|s)?")
_MOST_NAMED = 12
_LARGEST = 2**31 - 1


class WrongValue(ValueError):
    """The text is not a value of its filter; the message is for its author."""


@dataclass(frozen=True, slots=True)
class SearchToken:
    """A part of a search as it was written; `key` is empty for a free word."""

    key: str
    value: str
    is_excluded: bool
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """The problem of a token, and its accepted values."""

    token: SearchToken
    words: str


@dataclass(slots=True)
class Search:
    """A parsed search. With problems it finds nothing: leaving a part out would return wrong rows."""

    text: str
    tokens: list[SearchToken] = field(default_factory=list)
    demands: list[Demand] = field(default_factory=list)
    words: str = ""
    """The text outside tokens."""
    problems: list[SearchProblem] = field(default_factory=list)

    def narrow(self, rows: Rows) -> Rows:
        if self.problems:
            return rows.none()
        for each in self.demands:
            rows = each.narrow(rows)
        return rows

    def without(self, token: SearchToken) -> str:
        """Return the search without one of its tokens."""
        return " ".join(f"{self.text[: token.begin]} {self.text[token.end :]}".split())


def tokens(text: str) -> Iterator[SearchToken]:
    """Return the tokens and the free words of a search in their order."""
    for match in _TOKEN.finditer(text[:LONGEST]):
        sign, key, value, word = match.groups()
        if key is None:
            yield SearchToken("", _unquoted(word), False, match.start(), match.end())
        else:
            yield SearchToken(key.lower(), value, sign == "-", match.start(), match.end())


def read(text: str, declared: Sequence[ListFilter]) -> Search:
    """Read a search by the filters of its list; unknown parts are among its problems."""
    found = Search(text.strip())
    found.tokens = list(tokens(found.text))
    known, kept = keys(declared), dict[str, list[object]]()
    words = []
    for token in found.tokens[: MOST_TOKENS + 1]:
        if not token.key:
            words.append(token.value)
            continue
        of = known.get(token.key)
        try:
            if of is None:
                raise WrongValue(_unknown(token.key, known))
            values = [value_of(of, each) for each in values_of(of, token.value)]
        except WrongValue as problem:
            found.problems.append(SearchProblem(token, str(problem)))
            continue
        if token.is_excluded:
            found.demands.append(Demand(of, tuple(values), is_excluded=True))
        else:
            kept.setdefault(of.search_key, []).extend(values)
    found.demands += [Demand(known[key], tuple(values)) for key, values in kept.items()]
    found.words = " ".join(words)
    if len(found.tokens) > MOST_TOKENS or len(text) > LONGEST:
        said = _t("A search has at most %(parts)d parts and %(characters)d characters. Shorten it.")
        too_long = said % {"parts": MOST_TOKENS, "characters": LONGEST}
        found.problems.append(SearchProblem(found.tokens[-1], too_long))
    return found


def keys(declared: Sequence[ListFilter]) -> dict[str, ListFilter]:
    """Return the filters by the keys of a search; a filter is found by its name over REST, too."""
    offered = [each for each in declared if type(each) is not ListFilter]
    return {each.name: each for each in offered} | {each.search_key: each for each in offered}


def written(key: str, *values: str, is_excluded: bool = False) -> str:
    """Return the token for these values."""
    return f"{'-' if is_excluded else ''}{key}:{','.join(map(quoted, values))}"


def quoted(value: str) -> str:
    """Return a value as it is written in a search."""
    if value and not re.search(r'[\s,"\\]', value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def values_of(of: ListFilter, text: str) -> list[str]:
    """Return the values that commas separate, without their quotes; raise WrongValue where there is none."""
    found = [_unquoted(each) for each in _VALUE.findall(text)] if takes_commas(of) else [_unquoted(text)]
    if not all(found) or not found:
        raise WrongValue(_t("%(key)s: needs a value. %(how)s") % {"key": of.search_key, "how": how(of)})
    if len(found) > MOST_VALUES:
        raise WrongValue(_t("%(key)s: accepts at most %(most)d values.") % {"key": of.search_key, "most": MOST_VALUES})
    return found


def takes_commas(of: ListFilter) -> bool:
    return of.takes_several or isinstance(of, WholeNumber)


def how(of: ListFilter) -> str:
    """Return the syntax of a filter's values."""
    if isinstance(of, OneOf) and of.offered:
        return _t("Accepted values: %(values)s.") % {"values": _named([value for value, _label in of.offered])}
    if isinstance(of, YesOrNo):
        return _t("Accepted values: %(values)s.") % {"values": "yes, no"}
    if isinstance(of, Between):
        return _t("Enter 500, >500, <500 or 100..500.")
    if isinstance(of, During):
        return _t(
            "Enter 15m, 24h, 7d, today, 2026-01, 2026-01-31, 2026-01-01..2026-01-31, >2026-01-31T12:00 or <2026-01-31."
        )
    return ""


@singledispatch
def value_of(of: ListFilter, text: str) -> object:
    """Return the value that a text means to a filter; raise WrongValue.

    Kinds that a floor declares for itself are registered there.
    """
    if "\0" in text:
        raise _wrong(of, text)
    return text


@value_of.register
def _(of: OneOf, text: str) -> object:
    offered = of.offered
    for value, label in offered:
        if text.casefold() in (value.casefold(), str(label).casefold()):
            return value
    if of.is_open:
        return text
    raise _wrong(of, text)


@value_of.register
def _(of: YesOrNo, text: str) -> object:
    word = {"yes": True, "true": True, "no": False, "false": False}.get(text.casefold())
    if word is None:
        raise _wrong(of, text)
    return word


@value_of.register
def _(of: WholeNumber, text: str) -> object:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 11 and abs(int(text)) <= _LARGEST):
        raise WrongValue(_t("%(key)s: enter a whole number.") % {"key": of.search_key})
    if of.least is not None and int(text) < of.least:
        said = _t("%(key)s: enter a whole number of at least %(least)d.")
        raise WrongValue(said % {"key": of.search_key, "least": of.least})
    return int(text)


@value_of.register
def _(of: Between, text: str) -> tuple[int | None, int | None]:
    least, dots, most = text.partition("..")
    if dots:
        return _number(of, least), _number(of, most)
    sign = re.match(r"(>=?|<=?)?", text)
    assert sign is not None
    number = _number(of, text[sign.end() :])
    if number is None:
        raise _wrong(of, text)
    ends: dict[str, tuple[int | None, int | None]] = {
        ">": (number + 1, None),
        ">=": (number, None),
        "<": (None, max(0, number - 1)),
        "<=": (None, number),
    }
    return ends.get(sign[0], (number, number))


def _number(of: ListFilter, text: str) -> int | None:
    if not text:
        return None
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise _wrong(of, text)
    number = int(match[1]) * (1000 if match[2] == "s" else 1)
    return min(number, _LARGEST)


@value_of.register
def _(of: During, text: str) -> tuple[datetime | None, datetime | None]:
    now = timezone.localtime()
    if match := _SPAN.fullmatch(text):
        return now - int(match[1]) * _UNITS[match[2]], None
    today = now.date()
    days = {"today": today, "yesterday": today - timedelta(days=1)}
    if text.casefold() in days:
        day = days[text.casefold()]
        return _begin(day), _begin(day + timedelta(days=1))
    try:
        least, dots, most = text.partition("..")
        if dots:
            return _moment(least, is_end=False), _moment(most, is_end=True)
        if text[0] in "<>":
            at = _moment(text[1:].removeprefix("="), is_end=False)
            return (at, None) if text[0] == ">" else (None, at)
        return _moment(text, is_end=False), _moment(text, is_end=True)
    except (ValueError, OverflowError) as error:
        raise _wrong(of, text) from error


def _moment(text: str, *, is_end: bool) -> datetime | None:
    """Return the moment that is written, or the begin or end of its month or day; raise ValueError."""
    if not text:
        return None
    if _MONTH.fullmatch(text):
        first = date.fromisoformat(f"{text}-01")
        return _begin((first + timedelta(days=31)).replace(day=1) if is_end else first)
    if (day := parse_date(text)) is not None:
        return _begin(day + timedelta(days=1)) if is_end else _begin(day)
    at = parse_datetime(text)
    if at is None:
        raise ValueError
    at = at if timezone.is_aware(at) else timezone.make_aware(at)
    return at


def _begin(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))


def _wrong(of: ListFilter, text: str) -> WrongValue:
    said = _t("%(key)s: “%(value)s” isn't accepted. %(how)s")
    return WrongValue((said % {"key": of.search_key, "value": clipped(text, 60), "how": how(of)}).strip())


def _unknown(key: str, known: dict[str, ListFilter]) -> str:
    names = sorted({each.search_key for each in known.values()})
    said = _t(
        "Unknown key “%(key)s”. Available keys: %(keys)s. To search for this text itself, put it in double quotes."
    )
    return said % {"key": clipped(key, 40), "keys": ", ".join(names)}


def _named(values: Sequence[str]) -> str:
    more = " …" if len(values) > _MOST_NAMED else ""
    return ", ".join(map(quoted, values[:_MOST_NAMED])) + more


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    inner = text[1:-1] if len(text) > 1 and text.endswith('"') else text[1:]
    return re.sub(r"\\(.)", r"\1", inner)
