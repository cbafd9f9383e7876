"""The audit's rows as the ledger takes them: tuples in the order of `statements`, times as the database writes them."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from django.conf import settings

from invocations.origin import Origin, clip
from invocations.records import Row, new_invocation_id
from invocations.redaction.bodies import Stored
from invocations.running import Call
from sessions_app.protocol import json
from tools_catalog.catalog import Tool


class Rows:
    """Makes rows for one process."""

    def __init__(self, is_sqlite: bool, process_id: str) -> None:
        self.process_id = process_id
        self._limit = settings.MCPHUB_AUDIT_BODY_CHARACTERS
        self._zone = "" if is_sqlite else "+00"
        self._second = -1
        self._prefix = ""

    def moment(self, seconds: float) -> str:
        """Give seconds since the epoch as the database's text for a timestamp, in UTC."""
        second = int(seconds)
        if second != self._second:
            self._second = second
            self._prefix = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S.")
        return f"{self._prefix}{int((seconds - second) * 1e6):06d}{self._zone}"

    def envelope(self, call: Call) -> Row:
        """Give the row of an intent."""
        tool, origin = call.tool, call.origin
        params = f'{{"arguments":{call.arguments},"name":{json.canonical(tool.name)}}}'
        context = origin.context
        if call.stored is not None or tool.connection is not None:
            context = _with_more(context, call)
        return (
            call.invocation_id, origin.session_id, self.process_id, call.request_json, "tools/call", params,
            tool.name, tool.version, tool.digest, origin.caller.principal, context, self.moment(call.received),
        )  # fmt: skip

    def outcome(
        self,
        call: Call,
        started: float,
        elapsed_seconds: float,
        result: str | None,
        code: str,
        rendered: dict[str, Any] | None,
        *,
        duplicate_of: str = "",
    ) -> Row:
        """Give the invocation's row; `result` is canonical JSON.

        The duration is of a monotonic clock; `finished_at` follows from it.
        """
        tool, moment = call.tool, self.moment
        received = moment(call.received)
        error = json_code = retryable = None
        if rendered is not None:
            error, json_code, retryable = json.canonical(rendered), rendered["code"], rendered["data"]["retryable"]
        left_out = None
        stored = call.stored
        if stored is None and max(len(result or ""), len(error or "")) > self._limit:
            stored = Stored(None, call.arguments, None)
        if stored is not None:
            result, error = stored.outcome(result, rendered)
            left_out = stored.marks
        return (
            call.invocation_id, call.origin.session_id, self.process_id, call.request_json, tool.name,
            tool.version, tool.digest, call.arguments, call.digest, "error" if code else "ok",
            result, error, code, json_code, retryable, received,
            received if started == call.received else moment(started),
            moment(started + elapsed_seconds), int(elapsed_seconds * 1000), duplicate_of, 1, left_out,
            tool.connection, *call.origin.columns,
        )  # fmt: skip

    def refusal(
        self,
        origin: Origin,
        name: str,
        arguments: str,
        digest: str,
        request_id: str | int | None,
        received: float,
        code: str,
        rendered: dict[str, Any],
        *,
        tool: Tool | None = None,
        result: str | None = None,
        error: str | None = None,
        left_out: str | None = None,
        invocation_id: str = "",
        occurrences: int = 1,
    ) -> Row:
        """Give the row of calls that were not made; `result` is what a model was told instead, as canonical JSON.

        `error` is `rendered` as it is stored, where something of it is not.
        """
        now = time.time()
        moment = self.moment(now)
        return (
            invocation_id or new_invocation_id(), origin.session_id, self.process_id,
            None if request_id is None else json.canonical(request_id), clip(name, 128), tool.version if tool else "",
            tool.digest if tool else "", arguments, digest, "error", result,
            error or json.canonical(rendered), code, rendered["code"], rendered["data"]["retryable"],
            self.moment(received), moment, moment, 0, "", occurrences, left_out,
            tool.connection if tool else None, *origin.columns,
        )  # fmt: skip


def _with_more(context: str, call: Call) -> str:
    """Add to an envelope's context what only the call knows and recovery must repeat."""
    more: dict[str, Any] = json.loads(context.encode())
    if call.tool.connection is not None:
        more["connection"] = call.tool.connection
    if call.stored is not None and call.stored.left_out:
        more |= {"left_out": call.stored.left_out, "arguments_digest": call.digest}
    return json.canonical(more)
