"""Secrets that an upstream was sent, taken out of what it says: an echo must not reach clients, rows or logs. Pure."""

from __future__ import annotations

from typing import Any

from sessions_app.protocol import errors, json
from sessions_app.protocol.json import Json
from tools_catalog import echoes
from tools_catalog.backends.http.template import Secrets
from tools_catalog.bindings import Destination


class Scrubber:
    """Gives the secrets of one connection, and knows them again."""

    def __init__(self, secret: Secrets) -> None:
        self._secret = secret
        self._known: dict[str, tuple[str, ...]] = {}
        """Secret -> its forms as they stand in JSON."""

    def __call__(self, name: str, to: Destination) -> str:
        value = self._secret(name, to)
        if len(value) >= echoes.SHORTEST and value not in self._known:
            self._known[value] = echoes.forms_in_json(value)
        return value

    @property
    def is_needed(self) -> bool:
        """Whether the upstream was sent a secret that it could echo."""
        return bool(self._known)

    def text(self, text: str) -> str:
        return echoes.without(text, self._known)

    def value(self, value: Json) -> Any:
        """Give a JSON value without secrets: the same where it has none."""
        if not self._known:
            return value
        text = json.dumps(value).decode()
        found = [form for forms in self._known.values() for form in forms if form in text]
        if not found:
            return value
        for escaped in found:
            text = text.replace(escaped, echoes.INSTEAD)
        return json.loads(text.encode(), max_depth=1000)

    def error(self, error: errors.HubError) -> None:
        """Take secrets out of what an error tells."""
        if self._known:
            error.message = self.text(error.message)
            error.args = (error.message,)
            error.details = self.value(error.details)
