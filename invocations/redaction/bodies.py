"""The stored bodies of one call: redacted, and truncated if too long.

`left_out` lists, per body, the missing parts: `redacted`, the locations; `truncated`, with the `bytes` and `sha256`
of the full text. A body that was cut short reads {"truncated": true, "bytes", "sha256", "head"}.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings

from invocations.redaction.hiding import Hidden
from invocations.redaction.policy import Redactor
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

_LONGEST_MESSAGE = 4096
_LARGEST_REFUSED = 64 * 1024
"""Characters of refused arguments that are looked through as a whole. Each text costs a digest, on the event loop, and
4096 characters are kept in any case."""
_BEGINNING = 1000
"""Members of larger ones that are looked through."""


class StoredBodies:
    """The bodies of one call as its rows hold them. Made only where something is left out, or may be."""

    __slots__ = (
        "_arguments",
        "_hidden",
        "_longest_result",
        "_redactor",
        "_scrubbed",
        "arguments",
        "digest",
        "left_out",
    )

    def __init__(
        self,
        arguments: Json,
        text: str,
        redactor: Redactor | None,
        limit: int | None = None,
        *,
        longest_result: int | None = None,
        is_spared: bool = False,
    ) -> None:
        """`text`: the canonical JSON of the arguments. `limit`: characters that are kept of them.

        Of a result longer than `longest_result` nothing but size and digest is kept. `is_spared`: nothing is hidden of
        the arguments.
        """
        self._redactor = redactor
        self._longest_result = longest_result
        self._hidden: Hidden | None = None
        whole: int | None = None
        if redactor is not None:
            self._hidden = redactor.hidden()
            if redactor.is_refused and len(text) > _LARGEST_REFUSED:
                whole = json.size(text)
                arguments = _beginning(arguments)
                text = json.canonical(arguments)
                self._hidden.seek([None])  # of what is not looked at no text may show elsewhere
        if redactor is not None and self._hidden is not None and not is_spared:
            text = redactor.arguments(arguments, text, self._hidden)
        self.digest = json.digest(text)
        """Of the arguments before they were cut short."""
        self.left_out: dict[str, Any] = {}
        self.arguments = self._kept("arguments", text, limit, whole=whole)

    def outcome(self, result: str | None, error: dict[str, Json] | None) -> tuple[str | None, str | None]:
        """Return result and error as canonical JSON to store; complete `left_out`."""
        message: str | None = None
        for name in ("result", "error"):
            self.left_out.pop(name, None)
        if result is not None:
            is_summed = self._longest_result is not None and len(result) > self._longest_result
            if self._redactor is not None and self._hidden is not None:
                self._hidden.begin()
                if not is_summed:
                    result = self._redactor.result(result, self._hidden)
            result = self._kept("result", result, 0 if is_summed else None)
        if error is not None:
            if self._redactor is not None and self._hidden is not None:
                self._hidden.begin()
                error = self._redactor.error(error, self._hidden)
            message = self._kept("error", json.canonical(error), error=error)
        return result, message

    def beside(self, value: dict[str, Json], *, is_result: bool = False) -> dict[str, Json]:
        """Return the record form of data kept beside the call's rows, such as a task's result.

        The value itself where nothing of it is hidden.
        """
        if self._redactor is None or self._hidden is None:
            return value
        if not is_result:
            fresh = self._redactor.error(value, self._hidden)
            return value if fresh == value else fresh
        text = json.canonical(value)
        recorded = self._redactor.result(text, self._hidden)
        return value if recorded is text else dict(json.loads_stored(recorded))

    @property
    def hidden(self) -> Hidden | None:
        """Return the values removed from the bodies so far."""
        return self._hidden

    def cleaned(self, text: str) -> str:
        """Return a text that names the target, without values that are kept of no argument."""
        if self._redactor is None or self._hidden is None:
            return text
        self._hidden.begin()
        return str(self._redactor.words(text, self._hidden))

    @property
    def marks(self) -> str | None:
        """`left_out` as the row holds it; None where nothing is."""
        return json.canonical(self.left_out) if self.left_out else None

    def _kept(
        self,
        name: str,
        text: str,
        limit: int | None = None,
        error: dict[str, Json] | None = None,
        *,
        whole: int | None = None,
    ) -> str:
        """Return the kept part of `text`. `whole`: the bytes of the body that it is the beginning of."""
        mark: dict[str, Any] = {}
        if self._hidden is not None and self._hidden.places:
            mark["redacted"] = self._hidden.places
        limit = settings.MCPHUB_AUDIT_BODY_CHARACTERS if limit is None else limit
        if whole is not None or len(text) > limit:
            length = json.size(text) if whole is None else whole
            size = {"bytes": length, "sha256": json.digest(text), "truncated": True}
            mark |= size
            if error is not None:
                data_kept = error["data"]
                data = {"errorCode": data_kept["errorCode"], "retryable": data_kept["retryable"], "details": {}, **size}
                text = json.canonical(
                    {"code": error["code"], "message": error["message"][:_LONGEST_MESSAGE], "data": data}
                )
            else:
                text = json.canonical({**size, "head": text[:limit]})
        if mark:
            self.left_out[name] = mark
        return text


def _beginning(value: Json) -> Json:
    """Return the value with its first members alone, each text cut short."""
    left = _BEGINNING

    def cut(value: Json) -> Json:
        nonlocal left
        left -= 1
        if isinstance(value, str):
            return value[:_LONGEST_MESSAGE]
        if isinstance(value, dict):
            return {name[:_LONGEST_MESSAGE]: cut(value[name]) for name in sorted(value) if left > 0}
        return [cut(each) for each in value if left > 0] if isinstance(value, list | tuple) else value

    return cut(value)


def stored(arguments: Json, text: str, redactor: Redactor | None, longest: int) -> StoredBodies | None:
    """Return the stored bodies of a call; None if its arguments are stored unchanged, and its outcome may be too."""
    if len(text) <= longest and (redactor is None or redactor.spares(arguments, text)):
        return None
    return StoredBodies(arguments, text, redactor)


def stored_outcome(arguments: str, text: str, redactor: Redactor | None, longest: int) -> StoredBodies | None:
    """Return the stored outcome of a call with unchanged arguments; None if its result or error, `text`, is unchanged
    too.
    """
    if len(text) <= longest and (redactor is None or redactor.spares_outcome(text)):
        return None
    return StoredBodies(None, arguments, redactor, is_spared=True)
