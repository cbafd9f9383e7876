"""Numbers that identify a person: each with its format, and its checksum or date. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NumberForm:
    pattern: str
    """Its format, for RE2; it must not touch another word or number."""
    is_one: Callable[[str], bool]
    """Gets the number without blanks and signs."""
    words: tuple[str, ...] = ()
    """One of them must stand before a number of so weak a form that others would be taken for it."""
    sign: str = ""
    """Written with this sign it needs no word."""
    keeps_signs: bool = False
    """`is_one` gets it as it is written."""


def luhn(digits: str) -> bool:
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    return (sum(map(int, digits[-1::-2])) + sum(n - 9 if n > 9 else n for n in doubled)) % 10 == 0


def _weighed(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def _is_date(year: int, month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1] and year >= 0


_VERHOEFF = (
    *("0123456789", "1234067895", "2340178956", "3401289567", "4012395678"),
    *("5987604321", "6598710432", "7659821043", "8765932104", "9876543210"),
)
_TURNS = (
    *("0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258"),
)


def _verhoeff(digits: str) -> bool:
    state = 0
    for place, digit in enumerate(reversed(digits)):
        state = int(_VERHOEFF[state][int(_TURNS[place % 8][int(digit)])])
    return state == 0


def _us_ssn(number: str) -> bool:
    area, group, serial = number[:3], number[3:5], number[5:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000" and len(set(number)) > 1


def _fr_nir(number: str) -> bool:
    body = number[:13].upper().replace("2A", "19").replace("2B", "18")
    return body.isdigit() and number[13:].isdigit() and 97 - int(body) % 97 == int(number[13:])


def _es_dni(number: str) -> bool:
    number = number.upper()
    digits = {"X": "0", "Y": "1", "Z": "2"}.get(number[0], number[0]) + number[1:-1]
    return digits.isdigit() and "TRWAGMYFPDXBNJZSQVHLCKE"[int(digits) % 23] == number[-1]


_VALUES = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21)
_MORE_VALUES = (2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
_ODD = dict(zip("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", (*_VALUES, *_VALUES, *_MORE_VALUES), strict=True))


def _it_fiscale(number: str) -> bool:
    number = number.upper()
    even = sum(int(sign) if sign.isdigit() else ord(sign) - 65 for sign in number[1:15:2])
    return chr(65 + (even + sum(_ODD[sign] for sign in number[0:15:2])) % 26) == number[15]


def _de_steuer(number: str) -> bool:
    if number[0] == "0" or max(number[:10].count(digit) for digit in set(number[:10])) not in (2, 3):
        return False
    product = 10
    for digit in number[:10]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(number[10])


def _nl_bsn(number: str) -> bool:
    return len(set(number)) > 1 and (_weighed(number, (9, 8, 7, 6, 5, 4, 3, 2)) - int(number[8])) % 11 == 0


def _pl_pesel(number: str) -> bool:
    month = int(number[2:4]) % 20
    is_date = _is_date(int(number[:2]), month, int(number[4:6]))
    return is_date and _weighed(number, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def _se_personal(number: str) -> bool:
    number = number[-10:]
    return _is_date(int(number[:2]), int(number[2:4]), int(number[4:6])) and luhn(number)


def _fi_hetu(number: str) -> bool:
    if not number[-1].isdigit() and number[-1].upper() in "GIOQ":
        return False
    digits = number[:6] + number[7:10]
    is_date = _is_date(int(number[4:6]), int(number[2:4]), int(number[:2]))
    return is_date and "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(digits) % 31] == number[10].upper()


def _be_national(number: str) -> bool:
    if not _is_date(int(number[:2]), int(number[2:4]) or 1, int(number[4:6]) or 1):
        return False
    return any(97 - int(century + number[:9]) % 97 == int(number[9:]) for century in ("", "2"))


def _ch_ahv(number: str) -> bool:
    return (10 - _weighed(number[:12], (1, 3) * 6) % 10) % 10 == int(number[12])


def _br_cpf(number: str) -> bool:
    if len(set(number)) == 1:
        return False
    for count in (9, 10):
        rest = _weighed(number[:count], tuple(range(count + 1, 1, -1))) * 10 % 11 % 10
        if rest != int(number[count]):
            return False
    return True


def _in_aadhaar(number: str) -> bool:
    return number[0] not in "01" and len(set(number)) > 2 and _verhoeff(number)


def _ru_snils(number: str) -> bool:
    rest = _weighed(number[:9], (9, 8, 7, 6, 5, 4, 3, 2, 1)) % 101
    return len(set(number)) > 1 and rest % 100 == int(number[9:])


def _ru_inn(number: str) -> bool:
    first = _weighed(number, (7, 2, 4, 10, 3, 5, 9, 4, 6, 8)) % 11 % 10
    second = _weighed(number, (3, 7, 2, 4, 10, 3, 5, 9, 4, 6, 8)) % 11 % 10
    return len(set(number)) > 1 and first == int(number[10]) and second == int(number[11])


def _cn_id(number: str) -> bool:
    if not (1800 <= int(number[6:10]) <= 2099 and _is_date(0, int(number[10:12]), int(number[12:14]))):
        return False
    sum_ = _weighed(number[:17], (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2))
    return "10X98765432"[sum_ % 11] == number[17].upper()


def _uk_nino(number: str) -> bool:
    first, second = number[0].upper(), number[1].upper()
    return (
        first not in "DFIQUV"
        and second not in "DFIQUVO"
        and first + second not in ("BG", "GB", "NK", "KN", "TN", "NT", "ZZ")
    )


def _ca_sin(number: str) -> bool:
    return number[0] not in "08" and luhn(number)


NATIONAL: Mapping[str, NumberForm] = {
    "us_ssn": NumberForm(r"\d{3}[- ]\d{2}[- ]\d{4}", _us_ssn),
    "uk_nino": NumberForm(r"[A-Za-z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-Da-d]", _uk_nino),
    "ca_sin": NumberForm(r"\d{3}[ -]\d{3}[ -]\d{3}|\d{9}", _ca_sin, ("sin", "social insurance", "assurance sociale")),
    "fr_nir": NumberForm(r"[12] ?\d{2} ?\d{2} ?(?:\d{2}|2[ABab]) ?\d{3} ?\d{3} ?\d{2}", _fr_nir),
    "es_dni": NumberForm(r"(?:\d{8}|[XYZxyz]-?\d{7})[- ]?[A-HJ-NP-TV-Za-hj-np-tv-z]", _es_dni),
    "it_codice_fiscale": NumberForm(r"[A-Za-z]{6}\d\d[A-EHLMPR-Ta-ehlmpr-t]\d\d[A-Za-z]\d{3}[A-Za-z]", _it_fiscale),
    "de_steuer_id": NumberForm(r"\d{2} ?\d{3} ?\d{3} ?\d{3}", _de_steuer, ("steuer", "tax id", "idnr", "tin")),
    "nl_bsn": NumberForm(r"\d{4}[. ]?\d{2}[. ]?\d{3}", _nl_bsn, ("bsn", "burgerservice", "sofi")),
    "be_national": NumberForm(
        r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}|\d{11}",
        _be_national,
        ("rijksregister", "registre national", "national number", "rrn", "insz", "niss"),
        "-",
    ),
    "ch_ahv": NumberForm(r"756[. ]?\d{4}[. ]?\d{4}[. ]?\d{2}", _ch_ahv),
    "pl_pesel": NumberForm(r"\d{11}", _pl_pesel, ("pesel",)),
    "se_personnummer": NumberForm(
        r"(?:19|20)?\d{6}[-+]?\d{4}", _se_personal, ("personnummer", "person nr", "personnr", "samordning")
    ),
    "fi_hetu": NumberForm(r"\d{6}[-+A-Fa-fU-Yu-y]\d{3}[0-9A-Ya-y]", _fi_hetu, keeps_signs=True),
    "br_cpf": NumberForm(r"\d{3}\.\d{3}\.\d{3}-\d{2}|\d{11}", _br_cpf, ("cpf", "contribuinte"), "-"),
    "in_aadhaar": NumberForm(r"\d{4}[ -]?\d{4}[ -]?\d{4}", _in_aadhaar, ("aadhaar", "aadhar", "uidai", "uid", "आधार")),
    "ru_snils": NumberForm(r"\d{3}-\d{3}-\d{3}[ -]\d{2}|\d{11}", _ru_snils, ("снилс", "snils", "страхов"), "-"),
    "ru_inn": NumberForm(r"\d{12}", _ru_inn, ("инн", "inn", "налогоплательщик")),
    "cn_id": NumberForm(r"[1-9]\d{5}(?:18|19|20)\d{9}[0-9Xx]", _cn_id),
}
"""By the name of the kind; it stands in rows, so it stays."""

IBAN = r"\b[A-Za-z]{2}[0-9]{2}(?: ?[A-Za-z0-9]){11,30}"
_IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27,
    "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28,
    "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23,
    "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26,
    "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21,
    "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28,
    "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22,
    "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23, "ST": 25,
    "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}  # fmt: skip


def iban_characters(text: str) -> int:
    """Return the length of the IBAN at the beginning, including spaces; 0 if there is none."""
    length = _IBAN_LENGTHS.get(text[:2].upper())
    if length is None:
        return 0
    plain: list[str] = []
    taken = 0
    for sign in text:
        taken += 1
        if sign != " ":
            plain.append(sign)
        if len(plain) == length:
            break
    number = "".join(plain).upper()
    follows = text[taken : taken + 1]
    if len(number) != length or follows.isalnum() or not (number.isascii() and number.isalnum()):
        return 0
    moved = number[4:] + number[:4]
    return taken if int("".join(str(int(sign, 36)) for sign in moved)) % 97 == 1 else 0


_COUNTRIES = """
1 7 20 27 30 31 32 33 34 36 39 40 41 43 44 45 46 47 48 49 51 52 53 54 55 56 57 58 60 61 62 63 64 65 66 81 82
84 86 90 91 92 93 94 95 98 211 212 213 216 218 220 221 222 223 224 225 226 227 228 229 230 231 232 233 234 235
236 237 238 239 240 241 242 243 244 245 246 248 249 250 251 252 253 254 255 256 257 258 260 261 262 263 264
265 266 267 268 269 290 291 297 298 299 350 351 352 353 354 355 356 357 358 359 370 371 372 373 374 375 376
377 378 380 381 382 383 385 386 387 389 420 421 423 500 501 502 503 504 505 506 507 508 509 590 591 592 593
594 595 596 597 598 599 670 672 673 674 675 676 677 678 679 680 681 682 683 685 686 687 688 689 690 691 692
850 852 853 855 856 880 886 960 961 962 963 964 965 966 967 968 970 971 972 973 974 975 976 977 992 993 994
995 996 998
"""
COUNTRIES = frozenset(_COUNTRIES.split())
"""Country codes of telephone numbers (ITU-T E.164)."""


def is_international(digits: str) -> bool:
    return 8 <= len(digits) <= 15 and any(digits[:count] in COUNTRIES for count in (1, 2, 3)) and len(set(digits)) > 2
