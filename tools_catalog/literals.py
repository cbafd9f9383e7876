"""Finds credentials that stand in a header, a query or an environment as they are, not as {secret:NAME}. Pure.

Detected by name, as `Authorization`, or by value, as a token of a known format. A credential with a neutral name and
a value of no known format is not found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from sessions_app.kit.secret_forms import FORMS, Forms
from tools_catalog.upstream.credential_fields import tells_of_credential

_ALWAYS: Final = frozenset({"authorization", "proxy-authorization", "cookie"})
_KEYS: Final = re.compile(r"(?i)(?:^|[-_.])(?:subscription|application|functions|app|auth|access|account)[-_.]?key$")
_TOKENS: Final = Forms(set(FORMS) - {"payment_card", "address_secret"})
_PLACEHOLDER: Final = re.compile(r"\{[^{}]+\}")
_SWITCHES: Final = frozenset({("x-atlassian-token", "no-check"), ("x-atlassian-token", "nocheck")})
"""Names of credentials, with a harmless value: it shows Atlassian's servers that the request is not from a page."""
_SCHEME: Final = re.compile(r"(?P<before>[A-Za-z][A-Za-z0-9-]{1,20}\s+)(?P<value>\S+)")
"""`Bearer abc`: the word that defines the scheme stays."""


@dataclass(frozen=True, slots=True)
class PlainCredential:
    """A credential within a text: the part before it, itself, the part after it."""

    before: str
    value: str
    behind: str = ""

    def referring(self, name: str) -> str:
        """Return the text with a reference to the secret of this name."""
        return f"{self.before}{{secret:{name}}}{self.behind}"

    @property
    def plain(self) -> str:
        """The credential as it is sent: doubled braces of a template are one."""
        return self.value.replace("{{", "{").replace("}}", "}")


def literal_in(name: str, text: str) -> PlainCredential | None:
    """Return the credential that a header, a parameter or a variable holds as it is; None where there is none."""
    if (name.lower(), text.strip().lower()) in _SWITCHES:
        return None
    has_placeholder = _PLACEHOLDER.search(text.replace("{{", "").replace("}}", "")) is not None
    if _is_telling(name) and text.strip() and not has_placeholder:
        found = _SCHEME.fullmatch(text)
        return PlainCredential(found["before"], found["value"]) if found else PlainCredential("", text)
    for begin, end in _TOKENS.spans(text):
        if not _PLACEHOLDER.search(text[begin:end]):
            return PlainCredential(text[:begin], text[begin:end], text[end:])
    return None


def parameter_with_credential(url: str) -> str:
    """Return the name of a parameter in the query of an address that holds a credential; empty where none does."""
    try:
        query = urlsplit(url).query
    except ValueError:
        return ""  # the address is refused for another reason
    return next((name for name, text in parse_qsl(query) if literal_in(name, text) is not None), "")


def _is_telling(name: str) -> bool:
    return name.lower() in _ALWAYS or tells_of_credential(name) or _KEYS.search(name) is not None
