"""Values of settings without the secrets in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from mcphub.environment import Mail

MASK: Final = "•••"


def secret(value: object) -> str:
    return MASK if value else ""


def userinfo(value: str) -> str:
    """Return an address with its password masked. A user's name alone may be a token, so it is masked too."""
    scheme, found, rest = value.partition("://")
    if not found:
        return MASK if "@" in value else value
    authority, slash, path = rest.partition("/")
    given, at, host = authority.rpartition("@")
    if not at:
        return value
    user, colon, _password = given.partition(":")
    return f"{scheme}://{f'{user}:{MASK}' if colon else MASK}@{host}{slash}{path}"


def address(value: str) -> str:
    """Return an address with its password, its query and its fragment masked."""
    for mark in ("?", "#"):
        head, found, _tail = value.partition(mark)
        value = f"{head}{mark}{MASK}" if found else head
        if found:
            break
    return userinfo(value)


def origin(value: str) -> str:
    """Return scheme and host alone: the path of a webhook may be its secret."""
    if not value:
        return ""
    parts = urlsplit(value)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}/{MASK}"


def command(words: Sequence[str]) -> str:
    """Return the program alone: its arguments may hold a secret."""
    return f"{words[0]} {MASK}" if len(words) > 1 else " ".join(words)


def database(entry: Mapping[str, Any]) -> str:
    """Return the address of an entry of DATABASES; empty where there is none."""
    if not entry:
        return ""
    kind = str(entry["ENGINE"]).rpartition(".")[2]
    if kind == "sqlite3":
        return f"sqlite:///{entry['NAME']}"
    user = f"{entry.get('USER', '')}{f':{MASK}' if entry.get('PASSWORD') else ''}"
    port = f":{entry['PORT']}" if entry.get("PORT") else ""
    return f"postgres://{f'{user}@' if user else ''}{entry.get('HOST', '')}{port}/{entry['NAME']}"


def mail(server: Mail | None) -> str:
    if server is None:
        return ""
    given = server.options
    if "file_path" in given:
        return f"file://{given['file_path']}"
    scheme = "smtp+tls" if given["use_tls"] else "smtps" if given["use_ssl"] else "smtp"
    user = f"{given['username']}{f':{MASK}' if given['password'] else ''}"
    return f"{scheme}://{f'{user}@' if user else ''}{given['host']}:{given['port']}"
