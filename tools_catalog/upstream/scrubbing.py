"""Secrets that an upstream was sent, taken out of what it says: an echo must not reach clients, rows or logs. Pure."""

from __future__ import annotations

from typing import Any, Final

from sessions_app.protocol import errors, json
from tools_catalog.upstream.spec import Secrets

_SHORTEST: Final = 6
"""Shorter ones stand in ordinary words."""
_INSTEAD: Final = "[secret]"


class Scrubber:
    """Gives the secrets of one connection, and knows them again."""

    def __init__(self, secret: Secrets) -> None:
        self._secret = secret
        self._known: dict[str, str] = {}
        """Secret -> the same as it stands in JSON."""

    def __call__(self, name: str, host: str) -> str:
        value = self._secret(name, host)
        if len(value) >= _SHORTEST and value not in self._known:
            self._known[value] = json.dumps(value).decode()[1:-1]
        return value

    def text(self, text: str) -> str:
        for value in self._known:
            if value in text:
                text = text.replace(value, _INSTEAD)
        return text

    def value(self, value: Any) -> Any:
        """Give a JSON value without secrets: the same where it has none."""
        if not self._known:
            return value
        text = json.dumps(value).decode()
        found = [escaped for escaped in self._known.values() if escaped in text]
        if not found:
            return value
        for escaped in found:
            text = text.replace(escaped, _INSTEAD)
        return json.loads(text.encode(), max_depth=1000)

    def error(self, error: errors.HubError) -> None:
        """Take secrets out of what an error tells."""
        if self._known:
            error.message = self.text(error.message)
            error.args = (error.message,)
            error.details = self.value(error.details)
