"""What is stored of the bodies of one call: redacted, and cut short where they are too long.

`left_out` says of each body what is not there: `redacted`, the places; `truncated`, with the `bytes` and the
`sha256` of what would stand there. A body that was cut short reads {"truncated": true, "bytes", "sha256", "head"}.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from invocations.redaction.hiding import Hidden
from invocations.redaction.policy import Redactor
from sessions_app.protocol import json

_LONGEST_MESSAGE = 4096


class Stored:
    """The bodies of one call as its rows hold them. Made only where something may be left out."""

    __slots__ = ("_arguments", "_hidden", "_redactor", "_scrubbed", "arguments", "digest", "left_out")

    def __init__(self, arguments: Any, text: str, redactor: Redactor | None, limit: int | None = None) -> None:
        """`text`: the canonical JSON of the arguments. `limit`: characters that are kept of them."""
        self._redactor = redactor
        self._hidden: Hidden | None = None
        if redactor is not None:
            self._hidden = redactor.hidden()
            text = redactor.arguments(arguments, text, self._hidden)
        self.digest = json.digest(text)
        """Of the arguments before they were cut short."""
        self.left_out: dict[str, Any] = {}
        self.arguments = self._kept("arguments", text, limit)

    def outcome(self, result: str | None, error: dict[str, Any] | None) -> tuple[str | None, str | None]:
        """Give result and error as canonical JSON to store; complete `left_out`."""
        said: str | None = None
        for name in ("result", "error"):
            self.left_out.pop(name, None)
        if result is not None:
            if self._redactor is not None and self._hidden is not None:
                self._hidden.begin()
                result = self._redactor.result(result, self._hidden)
            result = self._kept("result", result)
        if error is not None:
            if self._hidden:
                self._hidden.begin()
                error = self._hidden.scrub(error)
            said = self._kept("error", json.canonical(error), error=error)
        return result, said

    @property
    def marks(self) -> str | None:
        """`left_out` as the row holds it; None where nothing is."""
        return json.canonical(self.left_out) if self.left_out else None

    def _kept(self, name: str, text: str, limit: int | None = None, error: dict[str, Any] | None = None) -> str:
        mark: dict[str, Any] = {}
        if self._hidden is not None and self._hidden.places:
            mark["redacted"] = self._hidden.places
        limit = settings.MCPHUB_AUDIT_BODY_CHARACTERS if limit is None else limit
        if len(text) > limit:
            size = {"bytes": len(text.encode("utf-8", "surrogatepass")), "sha256": json.digest(text), "truncated": True}
            mark |= size
            if error is not None:
                told = error["data"]
                data = {"errorCode": told["errorCode"], "retryable": told["retryable"], "details": {}, **size}
                text = json.canonical(
                    {"code": error["code"], "message": error["message"][:_LONGEST_MESSAGE], "data": data}
                )
            else:
                text = json.canonical({**size, "head": text[:limit]})
        if mark:
            self.left_out[name] = mark
        return text


def stored(arguments: Any, text: str, redactor: Redactor | None) -> Stored | None:
    """Give what is stored of a call; None where its arguments are, as they are, and its outcome may be too."""
    if redactor is None and len(text) <= settings.MCPHUB_AUDIT_BODY_CHARACTERS:
        return None
    return Stored(arguments, text, redactor)
