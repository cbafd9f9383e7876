"""Secrets sent to an upstream, removed from its answers: an echo must not reach clients, rows or logs. Pure."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from sessions_app.protocol import errors, json
from sessions_app.protocol.json import Json
from tools_catalog import echoes
from tools_catalog.backends.http.template import Secrets
from tools_catalog.bindings import Destination

_MOST_TOKENS: Final = 64
"""Of accounts, that are searched for in an upstream's answers."""


class Scrubber:
    """Gives the secrets of one connection, and knows them again."""

    def __init__(self, secret: Secrets) -> None:
        self._secret = secret
        self._known: dict[str, tuple[str, ...]] = {}
        """Secret -> its forms as they stand in JSON."""
        self._tokens: deque[str] = deque()

    def __call__(self, name: str, to: Destination) -> str:
        value = self._secret(name, to)
        if len(value) >= echoes.SHORTEST and value not in self._known:
            self._known[value] = echoes.forms_in_json(value)
        return value

    def know(self, token: str) -> None:
        """Know a token that is sent, too; of those that come and go, the newest."""
        if len(token) < echoes.SHORTEST or token in self._known:
            return
        self._known[token] = echoes.forms_in_json(token)
        self._tokens.append(token)
        if len(self._tokens) > _MOST_TOKENS:
            self._known.pop(self._tokens.popleft(), None)

    @property
    def is_needed(self) -> bool:
        """Whether the upstream was sent a secret that it could echo."""
        return bool(self._known)

    def text(self, text: str) -> str:
        return echoes.without(text, self._known)

    def value(self, value: Json) -> Any:
        """Return a JSON value without secrets: the same where it has none."""
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
        """Remove secrets from an error's text."""
        if self._known:
            error.message = self.text(error.message)
            error.args = (error.message,)
            error.details = self.value(error.details)
