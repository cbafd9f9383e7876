"""Personal data of known formats: e-mail, telephone, payment card, IBAN, national numbers. Pure, linear."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from sessions_app.kit.secret_forms import FORMS
from tools_catalog.detectors import numbers
from tools_catalog.detectors.linear import Linear
from tools_catalog.detectors.numbers import NumberForm

Found = Iterator[tuple[str, int, int]]
"""Kind, beginning, end: in bytes of UTF-8."""

_BEFORE = 60
"""Bytes before a number that must contain the word that identifies it."""
_LONGEST_IBAN = 48
_EMAIL = r"[\pL\pN._%+'-]{1,64}@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}[A-Za-z]{2,24}"
_CARD = r"(?:^|[^0-9])[2-6]\d{3}(?:\d{9,15}|[ -]\d{4}[ -]\d{4}[ -]\d{4}|[ -]\d{6}[ -]\d{4,5})"
_INTERNATIONAL = r"(?:\+|\b00)[1-9](?:[ .\-()/]{0,2}\d){6,14}"
_AMERICAN = r"(?:\b1[ .-])?(?:\([2-9]\d{2}\) ?|\b[2-9]\d{2}[ .-])[2-9]\d{2}[ .-]\d{4}\b"
_SAID = (
    r"(?i)(?:phone|\btel|\bmobile?\b|\bcell|\bfax\b|\bhandy|téléphone|\bportable\b|teléfono|móvil|\bcelular|тел|моб|whatsapp|"
    r"电话|手机|電話)[^0-9\n]{0,20}?(?P<secret>\(?\d(?:[ .\-()/]{0,2}\d){6,12})"
)
PATTERNS: Mapping[str, tuple[str, ...]] = {
    "email": (_EMAIL,),
    "card": (_CARD,),
    "iban": (numbers.IBAN,),
    "phone": (_INTERNATIONAL, _AMERICAN, _SAID),
    **{kind: (rf"\b(?:{form.pattern})",) for kind, form in numbers.NATIONAL.items()},
}
"""By kind, a pattern that every text with it matches."""
KINDS = tuple(PATTERNS)

_LINEAR = {kind: tuple(map(Linear, patterns)) for kind, patterns in PATTERNS.items()}
_IBAN = Linear(numbers.IBAN)
_FRACTION = re.compile(rb"\+\d{1,3}\.\d+")
_GOES_ON = re.compile(rb"\d[ .-]\Z")
_BESIDE = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def prepare(kind: str) -> None:
    """Compile the patterns of a kind, before a call waits for that."""
    for pattern in _LINEAR.get(kind, ()):
        pattern.prepare()
    if kind == "iban":
        _IBAN.prepare()


def found(raw: bytes, kind: str) -> Found:
    """Return where personal data of a kind is in a folded text, as UTF-8."""
    if kind == "email":
        return _emails(raw)
    if kind == "card":
        return _cards(raw)
    if kind == "iban":
        return _ibans(raw)
    if kind == "phone":
        return _phones(raw)
    return _national(raw, kind, numbers.NATIONAL[kind])


def _emails(raw: bytes) -> Found:
    for begin, end in _LINEAR["email"][0].places(raw):
        while raw[begin : begin + 1] in (b".", b"_", b"-", b"'"):
            begin += 1
        if raw[begin : begin + 1] != b"@" and raw[end : end + 1] not in (b"@", b"-"):
            yield "email", begin, end


def _cards(raw: bytes) -> Found:
    text = raw.decode("latin-1")  # a card is of ASCII, and each byte stays in its place
    for begin, end in FORMS["payment_card"].spans(text):
        yield "card", begin, end


def _ibans(raw: bytes) -> Found:
    place = _IBAN.first(raw)
    while place is not None:
        begin = place[0]
        taken = numbers.iban_characters(raw[begin : begin + _LONGEST_IBAN].decode("latin-1"))
        if taken:
            yield "iban", begin, begin + taken
        place = _IBAN.first(raw, begin + (taken or 1))


def _phones(raw: bytes) -> Found:
    international, american, said = _LINEAR["phone"]
    for begin, end in international.places(raw):
        digits = bytes(filter(b"0123456789".__contains__, raw[begin:end])).decode()
        is_part = _FRACTION.fullmatch(raw, begin, end) or _GOES_ON.search(raw, max(0, begin - 2), begin)
        if not is_part and numbers.is_international(digits.lstrip("0")) and _is_alone(raw, begin, end):
            yield "phone", begin, end
    for begin, end in american.places(raw):
        if _is_alone(raw, begin, end):
            yield "phone", begin, end
    for begin, end in said.places(raw):
        if _is_alone(raw, begin, end) and len(set(raw[begin:end])) > 3:
            yield "phone", begin, end


def _national(raw: bytes, kind: str, form: NumberForm) -> Found:
    pattern, at = _LINEAR[kind][0], 0
    while (place := pattern.first(raw, at)) is not None:
        begin, end = place
        at = begin + 1
        if not _is_alone(raw, begin, end):
            continue
        written = raw[begin:end].decode("ascii")
        plain = written if form.keeps_signs else "".join(filter(str.isalnum, written))
        if form.is_one(plain) and _is_told(raw, begin, written, form):
            at = end
            yield kind, begin, end


def _is_told(raw: bytes, begin: int, written: str, form: NumberForm) -> bool:
    if not form.words or (form.sign and form.sign in written):
        return True
    before = raw[max(0, begin - _BEFORE) : begin].decode("utf-8", "ignore").lower()
    return any(_is_said(word, before) for word in form.words)


def _is_alone(raw: bytes, begin: int, end: int) -> bool:
    """Return whether a number is no part of a longer one, of a word, of a path or of a version."""
    if begin and (raw[begin - 1] in _BESIDE or (raw[begin - 1] in b".+-/" and raw[begin : begin + 1] != b"+")):
        return False
    after = raw[end : end + 2]
    return not after or not (after[0] in _BESIDE or after[0] in b"-/" or re.match(rb"[.,]\d", after) is not None)


def _is_said(word: str, text: str) -> bool:
    """Return whether a word, or for a long one its prefix, is in the text."""
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at] if at else "", text[at + len(word) : at + len(word) + 1]
        if not before.isalnum() and (len(word) > 4 or not after.isalpha()):
            return True
        at = text.find(word, at + 1)
    return False
