"""Which fields of a form ask for a credential: by name, title, format and words, in English and Russian. Pure.

It finds forms that state their purpose. A form that asks for a password and calls it a colour is not found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

from tools_catalog.call.base import Json

_WORDS: Final = """
secret secrets token pwd psw pin pins cvv cvv2 cvc cvc2 csc otp totp ssn bearer mnemonic credential credentials
секрет секрета секреты токен токена пин
"""
"""Of a name or a title. In sentences they mean too much else."""
_NAME_ENDS: Final = frozenset({"pass"})
"""The last word of a name: `db_pass`, and not `boarding_pass_number`."""
_PARTS: Final = """
password passwort passwd passphrase passcode passkey apikey accesskey secretkey privatekey signingkey encryptionkey
secrettoken accesstoken authtoken apitoken bearertoken refreshtoken clientsecret cardnumber creditcard debitcard
bankcard cardno securitycode verificationcode onetimecode recoverycode backupcode pincode seedphrase recoveryphrase
парол ключapi apiключ ключдоступа секретныйключ секретногоключа закрытыйключ закрытогоключа приватныйключ
приватногоключа номеркарт номербанковскойкарт пинкод кодподтверждения кодизсмс одноразовыйкод одноразовогокода
кодовоеслово сидфраз токендоступа токенадоступа
"""
"""At any position, also across the words of a sentence, without its spaces and signs."""
_LOOKALIKES: Final = str.maketrans("аеорсухкмтві", "aeopcyxkmtbi")
_CASES: Final = re.compile(r"(?<=[a-zа-яё0-9])(?=[A-ZА-ЯЁ])|(?<=[A-ZА-ЯЁ])(?=[A-ZА-ЯЁ][a-zа-яё])")
_BREAKS: Final = re.compile(r"[\W_]+")
_LATIN, _CYRILLIC = re.compile(r"[a-z]"), re.compile(r"[а-яё]")
_SINGLE: Final = frozenset(_WORDS.split())
_ANYWHERE: Final = tuple(_PARTS.split())
_MOST_NODES: Final = 2000
_LONGEST_TEXT: Final = 4000
"""Characters of one text that are looked at; a client shows no person more."""


def credential_field(message: str, schema: Mapping[str, Json]) -> str | None:
    """Return the name of a field that asks for a credential; None without one. Raises ValueError for a schema that is
    too large to look through.
    """
    first = ""
    for name, field in _fields(schema):
        if _is_closed(field):
            continue
        first = first or name
        title, words = field.get("title"), field.get("description")
        if field.get("format") == "password" or field.get("writeOnly") is True:
            return name
        if _names_one(name, is_name=True) or (isinstance(title, str) and _names_one(title)):
            return name
        if isinstance(words, str) and _tells_of_one(_words(words)):
            return name
    # The fields may have names that say nothing, where the sentence above them says it.
    return first if first and _tells_of_one(_words(message)) else None


def tells_of_credential(name: str) -> bool:
    """Return whether a header, a query parameter or a variable of this name carries a credential."""
    return _names_one(name, is_name=True)


def _fields(schema: Mapping[str, Json]) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """Return all fields by name, however deep they stand: not every client keeps to flat forms."""
    nodes: list[Json] = [schema]
    seen = 0
    while nodes:
        node = nodes.pop()
        children = list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
        seen += 1 + len(children)
        if seen > _MOST_NODES:
            raise ValueError("the form is too large")
        if isinstance(node, dict) and isinstance(properties := node.get("properties"), dict):
            yield from ((name, field) for name, field in properties.items() if isinstance(field, dict))
        nodes += [child for child in children if isinstance(child, dict | list)]


def _is_closed(field: Mapping[str, Json]) -> bool:
    """Return whether a person can only choose from the form's list."""
    if field.get("type") == "boolean":
        return True
    items = field.get("items")
    choices = items if field.get("type") == "array" and isinstance(items, dict) else field
    return any(isinstance(choices.get(word), list) and choices[word] for word in ("enum", "oneOf", "anyOf"))


def _names_one(text: str, *, is_name: bool = False) -> bool:
    words = _words(text)
    if not words:
        return False
    return not _SINGLE.isdisjoint(words) or (is_name and words[-1] in _NAME_ENDS) or _tells_of_one(words)


def _tells_of_one(words: list[str]) -> bool:
    joined = "".join(words)
    return any(part in joined for part in _ANYWHERE)


def _words(text: str) -> list[str]:
    """Return the words of a name or a sentence, without case, invisible characters, and letters of a foreign script."""
    plain = unicodedata.normalize("NFKC", text[:_LONGEST_TEXT])
    plain = "".join(char for char in plain if unicodedata.category(char) not in ("Cf", "Mn"))
    split = _BREAKS.sub(" ", _CASES.sub(" ", plain)).casefold().split()
    return [_of_one_script(word) for word in split]


def _of_one_script(word: str) -> str:
    return word.translate(_LOOKALIKES) if _LATIN.search(word) and _CYRILLIC.search(word) else word
