"""Secrets of known formats: keys of clouds and source hosts, tokens, private keys, payment cards. Pure.

A text is first searched for words without which no form can be in it. No pattern reads a character more than a fixed
number of times, so a hostile text costs no more than a long one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, compress

Span = tuple[int, int]


def _always(found: re.Match[str]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class SecretForm:
    """The format of a secret. Its group `secret`, or all of it, is the secret."""

    needles: tuple[str, ...]
    """One of these is in each text that holds such a secret."""
    pattern: re.Pattern[str]
    is_one: Callable[[re.Match[str]], bool] = _always
    may_be_in: Callable[[str], object] | None = None
    """Cheaper than the pattern, and true of each text in which that is found."""
    overlaps: bool = False
    """Whether the next may begin within a false match."""

    def spans(self, text: str) -> Iterator[Span]:
        at = 0
        while (found := self.pattern.search(text, at)) is not None:
            if self.is_one(found):
                yield found.span("secret" if found.groupdict().get("secret") else 0)
            elif self.overlaps:
                at = found.start() + 1
                continue
            at = max(found.end(), at + 1)


def _has_digit(found: re.Match[str]) -> bool:
    return any(letter.isdigit() for letter in found[0])


_CARDS = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:2[2-9]|[3-6]\d|7[01])\d{13}|220[0-4]\d{12}|3[47]\d{13}|"
    r"3(?:0[0-5]|[68]\d)\d{11}|6(?:011|5\d\d|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}|62\d{14,17}"
)

_CARD_DIGITS = 13
_PIECE = 1024 * 1024


def is_card(digits: str) -> bool:
    """Return whether the digits are those of a payment card: an issuer's beginning and length, and the checksum
    (Luhn).
    """
    if not digits.isascii() or _CARDS.fullmatch(digits) is None:
        return False
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return sum(map(int, digits[-1::-2])) % 10 == -sum(n - 9 if n > 9 else n for n in doubled) % 10


def _has_digits_of_a_card(text: str) -> bool:
    if len(text) > _PIECE:  # not copied whole
        return sum(_digits(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE)) >= _CARD_DIGITS
    raw = text.encode("utf-8", "replace")  # as in _digits, without its frame: every recorded call looks here
    return len(raw) - len(raw.translate(None, b"0123456789")) >= _CARD_DIGITS


def _digits(text: str) -> int:
    raw = text.encode("utf-8", "replace")
    return len(raw) - len(raw.translate(None, b"0123456789"))


def _is_card(found: re.Match[str]) -> bool:
    return is_card(found[0].replace(" ", "").replace("-", ""))


_TELLING = (
    "token", "secret", "password", "passwd", "passphrase", "pwd", "apikey", "accesskey", "secretkey", "authkey",
    "signature", "credential", "credentials",
)  # fmt: skip
_CURSORS = ("page", "next", "continuation", "cursor")


def _names_a_secret(found: re.Match[str]) -> bool:
    name = re.sub(r"[^a-z]", "", found["name"].casefold())
    return name == "sig" or (name.endswith(_TELLING) and not name.startswith(_CURSORS))


FORMS: dict[str, SecretForm] = {
    "aws_key": SecretForm(
        ("AKIA", "ASIA", "ABIA", "ACCA"), re.compile(r"(?<![A-Z0-9])A(?:KI|SI|BI|CC)A[A-Z2-7]{16}(?![A-Z0-9])")
    ),
    "aws_secret": SecretForm(
        ("ecret_access_key", "SECRET_ACCESS_KEY", "ecretAccessKey"),
        re.compile(r"(?i:secret_?access_?key)[\"'\\]{0,4}\s{0,4}[=:]\s{0,4}[\"'\\]{0,4}(?P<secret>[A-Za-z0-9/+]{40})"),
    ),
    "google_key": SecretForm(
        ("AIza", "GOCSPX-", "ya29."),
        re.compile(r"(?<![A-Za-z0-9])(?:AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{20,1024})"),
    ),
    "azure_key": SecretForm(
        ("AccountKey=", "SharedAccessKey=", "8Q~"),
        re.compile(
            r"(?:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{40,100}={0,2})|"
            r"[A-Za-z0-9_~.]{3}8Q~[A-Za-z0-9_~.-]{31,34}"
        ),
    ),
    "github_token": SecretForm(
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"(?:gh[pousr]_|github_pat_)[A-Za-z0-9_]{22,255}"),
    ),
    "gitlab_token": SecretForm(
        tuple(f"gl{kind}-" for kind in ("pat", "dt", "rt", "cbt", "ptt", "ft", "imt", "agent", "oas", "soat")),
        re.compile(r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-[A-Za-z0-9_.-]{20,300}"),
    ),
    "slack_token": SecretForm(
        ("xox", "xapp-", "hooks.slack.com/services/"),
        re.compile(
            r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,250}|xapp-\d-[A-Za-z0-9-]{10,250}|"
            r"hooks\.slack\.com/services/(?P<secret>[A-Za-z0-9/]{20,100})"
        ),
    ),
    "stripe_key": SecretForm(
        ("_live_", "_test_", "whsec_"),
        re.compile(r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,250}|whsec_[A-Za-z0-9+/=]{24,100}"),
    ),
    "model_key": SecretForm(("sk-",), re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,250}"), _has_digit),
    "jwt": SecretForm(
        ("eyJ",), re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+\.[A-Za-z0-9_-]{8,}+[\w.-]*+")
    ),
    "private_key": SecretForm(
        ("PRIVATE KEY",), re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----END))*+")
    ),
    "payment_card": SecretForm(
        (),
        re.compile(
            r"[2-6](?<![\d.]\d)\d{3}"  # a set first, since the engine leaps to it
            r"(?:\d{9,15}|([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{1,3})?|[ -]\d{6}[ -]\d{4,5})(?!\d)"
        ),
        _is_card,
        _has_digits_of_a_card,
        overlaps=True,
    ),
    "address_password": SecretForm(
        ("://",), re.compile(r"://[^\s/:@?#\"'<>\\]{0,128}:(?P<secret>[^\s/@\"'<>\\]{1,256})@")
    ),
    "address_secret": SecretForm(
        ("=",), re.compile(r"[?&#;](?P<name>[\w.%-]{1,64})=(?P<secret>[^&#;\s\"'<>\\]{1,4096})"), _names_a_secret
    ),
}
"""By their names in rules. The names are kept in rows: do not change them."""


_GATES = "_-=/~. "
"""Characters of needles that many a text is without."""


class Forms:
    """Several forms at once."""

    def __init__(self, names: Iterable[str]) -> None:
        self._forms = [FORMS[name] for name in sorted(set(names))]
        told_by_words = [form for form in self._forms if form.needles and form.may_be_in is None]
        by_gate = _by_gate(needle for form in told_by_words for needle in form.needles)
        self._gates, self._needles = tuple(by_gate), tuple(by_gate.values())
        self._others = [form.may_be_in for form in self._forms if form.may_be_in is not None]
        self.has_cards = any(form is FORMS["payment_card"] for form in self._forms)

    @classmethod
    def of(cls, names: Iterable[str]) -> Forms | None:
        """Return the forms of these names; None for no names."""
        found = list(names)
        return cls(found) if found else None

    def __bool__(self) -> bool:
        return bool(self._forms)

    def may_be_in(self, text: str) -> bool:
        """Return whether JSON text may contain the format, judged without decoding it."""
        if "\\" in text and ("\\u" in text or "\\/" in text):
            return True  # JSON within a text may write any character so
        holds = text.__contains__
        if True not in map(holds, chain.from_iterable(compress(self._needles, map(holds, self._gates)))):
            for may_be_in in self._others:
                if may_be_in(text):
                    break
            else:
                return False
        return next(self._found(text), None) is not None

    def spans(self, text: str) -> list[Span]:
        """Return where secrets are, in order, none within another."""
        found: list[Span] = []
        for begin, end in sorted(self._found(text), key=lambda span: (span[0], -span[1])):
            if found and begin < found[-1][1]:
                found[-1] = found[-1][0], max(end, found[-1][1])
            else:
                found.append((begin, end))
        return found

    def _found(self, text: str) -> Iterator[Span]:
        for form in self._forms:
            if _may_hold(form, text):
                yield from form.spans(text)


def _by_gate(needles: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return needles by a character that each of them has: a text without it has none. Those without one are under
    "".
    """
    found: dict[str, tuple[str, ...]] = {}
    for needle in needles:
        gate = next((gate for gate in _GATES if gate in needle), "")
        found[gate] = (*found.get(gate, ()), needle)
    return found


def _may_hold(form: SecretForm, text: str) -> bool:
    if form.needles and not any(needle in text for needle in form.needles):
        return False
    return form.may_be_in is None or bool(form.may_be_in(text))
