"""Redaction of data beside the rows of calls: chat turns, approvals, tasks.

A row shows the redacted form. Where the product itself must read the row again, the clear text is kept apart in it,
encrypted and bound to its owner, and only where the two differ; whoever no longer needs it removes it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

from invocations.redaction.hiding import Hidden
from invocations.redaction.policy import BOTH, FORM, RedactionPolicy, RedactionRule
from sessions_app.kit.secret_forms import FORMS
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog import secrets

Text = TypeVar("Text")
"""A text, or JSON."""

of_call: ContextVar[Hidden | None] = ContextVar("of_call", default=None)
"""The values removed from the current call; the log searches for them."""


class RecordRedaction:
    """The values removed from one turn or request so far: a value hidden in one place is searched for in all later
    ones.

    Each method gives the value itself where nothing of it is hidden. Several threads may use one Record.
    """

    def __init__(self, policy: RedactionPolicy | None = None) -> None:
        self._policy = policy or RedactionPolicy()
        self._hidden = self._policy.hidden()
        self._noted = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """How much is sought."""
        return self._hidden.size

    def has_grown(self) -> bool:
        """Return whether more is sought than when this was last asked: earlier rows may hold it."""
        with self._lock:
            before, self._noted = self._noted, self._hidden.size
            return self._noted > before

    def values(self) -> list[Json]:
        """Return the removed values, for `seek` of another Record. For the product alone."""
        with self._lock:
            return self._hidden.values()

    def seek(self, values: list[Json]) -> None:
        with self._lock:
            self._hidden.seek(values)

    def learn(self, hidden: Hidden | None) -> None:
        """Search for values removed from a call's bodies too."""
        if hidden:
            with self._lock:
                self._hidden.seek(hidden.values())

    def arguments(self, tool: str, definition: Mapping[str, Json] | None, value: Json) -> Json:
        """Return the arguments of a call as they are recorded. Without a definition every rule counts."""
        if definition is not None:
            redactor = self._policy.of(tool, definition)
        else:
            redactor = self._policy.of_refused(tool, {}, keeps_text=True)
        with self._lock:
            if redactor is None or not isinstance(value, dict):
                return self._policy.words.words(value, self._hidden)
            text = json.canonical(value)
            recorded = redactor.arguments(value, text, self._hidden)
            fresh = value if recorded is text else json.loads_stored(recorded)
            return self._hidden.scrub(fresh)

    def words(self, value: Json) -> Json:
        """Return a text or JSON of people, models and tools, without known formats and values marked by rules."""
        with self._lock:
            return self._policy.words.words(value, self._hidden)

    def scrub(self, value: Json) -> Json:
        """Return a recorded value without values removed elsewhere since."""
        with self._lock:
            fresh = self._hidden.scrub(value)
            return value if fresh == value else fresh


def without_secrets(value: Text) -> Text:
    """Return a text of the hub, such as a log line or a connection's last error, without secrets of known formats,
    whatever the rules, and without values removed from the current call.
    """
    policy = _every_form()
    hidden = policy.hidden()
    made = of_call.get()
    if made:
        hidden.seek(made.values())
    fresh: Text = policy.words.words(value, hidden)
    return fresh


@cache
def _every_form() -> RedactionPolicy:
    from django.conf import settings

    rules = (RedactionRule("", BOTH, FORM, name) for name in FORMS)
    return RedactionPolicy(rules, settings.MCPHUB_ENCRYPTION_KEYS)


def apart(shown: object, clear: object, *, of: str) -> str | None:
    """Return the clear text as a row keeps it; None where the row shows all of it. `of`: its owner."""
    return None if shown is clear else seal(clear, of=of)


def seal(value: Json, *, of: str) -> str:
    """Encrypt data that only the product reads."""
    return secrets.encrypt(json.dumps(value).decode("utf-8", "surrogatepass"), aad=_bound(of))


def unseal(token: str, *, of: str) -> Json:
    """Raise SecretError where the key is gone, or the token was changed or moved."""
    return json.loads_stored(secrets.decrypt(token, aad=_bound(of)))


def _bound(of: str) -> str:
    return f"clear text of {of}"
