"""Structured logs: one event a line, as JSON or for a terminal.

What is logged are names, codes, ids and figures. Payloads, keys, headers and queries of addresses never are. What a
name or an exception quotes of them goes: secrets of every known form, and what the rules take from the record of the
call under way.
"""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

from django.http import HttpRequest

correlation_id: ContextVar[str] = ContextVar("correlation_id", default="")
"""Of the request that is served; each line that is logged meanwhile says it."""
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; its other attributes were given as `extra`."""


def formatter(style: Literal["console", "json"]) -> logging.Formatter:
    """Give the formatter that settings.LOGGING names."""
    return JsonFormatter() if style == "json" else ConsoleFormatter()


class JsonFormatter(logging.Formatter):
    """An object a record; a value that JSON has no form for is written as Python shows it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "event": redacted(record.getMessage()),
            "logger": record.name,
            "level": record.levelname.lower(),
            **{name: redacted(value) for name, value in _extra(record).items()},
            "timestamp": _timestamp(record),
        }
        if record.exc_info:
            line["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=repr)


class ConsoleFormatter(logging.Formatter):
    """Time, level, event, logger and what else was given, in columns; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        given = "".join(f" {name}={value!r}" for name, value in _extra(record).items())
        event = f"{record.getMessage():<30} [{record.name}]{given}"
        if record.exc_info:
            event = f"{event}\n{self.formatException(record.exc_info)}"
        return f"{_timestamp(record)} [{record.levelname.lower():<9}] {redacted(event)}"


def redacted(value: object) -> object:
    """Give a text, or what JSON has a form for, without what must not be logged; anything else as its text."""
    from invocations.redaction.records import without_secrets  # logging is set up before applications are

    if value is None or isinstance(value, int | float):
        return value
    return without_secrets(value if isinstance(value, str | dict | list | tuple) else repr(value))


def _extra(record: logging.LogRecord) -> dict[str, object]:
    given = {name: value for name, value in vars(record).items() if name not in _PLAIN}
    if isinstance(request := given.pop("request", None), HttpRequest):  # Django's own; its form shows the query
        given["path"] = request.path
    served = correlation_id.get()
    return {"correlation_id": served, **given} if served else given


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
