"""Structured logs: one event a line, as JSON or for a terminal.

Logs contain names, codes, IDs and figures. Payloads, keys, headers and queries of addresses never are. Quotes in
names and exceptions lose secrets of every known format, and values that the rules remove from the current call's
record.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

from django.http import HttpRequest

correlation_id: ContextVar[str] = ContextVar("correlation_id", default="")
"""Of the current request; each of its log lines contains it."""
MOST_OF_A_KIND = 60
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every record; others were given as `extra`."""


def formatter(style: Literal["console", "json"]) -> logging.Formatter:
    """Return the formatter that settings.LOGGING names."""
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
        if record.exc_info and not _is_refusal(record):
            line["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=repr)


class ConsoleFormatter(logging.Formatter):
    """Time, level, event, logger and extra attributes, in columns; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        given = "".join(f" {name}={value!r}" for name, value in _extra(record).items())
        event = f"{record.getMessage():<30} [{record.name}]{given}"
        if record.exc_info and not _is_refusal(record):
            event = f"{event}\n{self.formatException(record.exc_info)}"
        return f"{_timestamp(record)} [{record.levelname.lower():<9}] {redacted(event)}"


class FewOfAKind(logging.Filter):
    """Lets `most` warnings of a kind pass in a minute, so that nobody outside fills a disk with them.

    A kind is a logger with its text before arguments are put in. The first record of a later minute has the number of
    suppressed ones as `left_out`.
    """

    def __init__(self, most: int = MOST_OF_A_KIND, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most = most
        self._now = now
        self._lock = threading.Lock()
        self._began = float("-inf")
        self._seen: Counter[tuple[str, str]] = Counter()
        self._left_out: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        kind = (record.name, str(record.msg)[:200])
        with self._lock:
            if self._now() - self._began >= 60:
                self._began = self._now()
                for each, count in self._seen.items():
                    if count > self._most:
                        self._left_out[each] += count - self._most
                self._seen.clear()
            self._seen[kind] += 1
            if self._seen[kind] > self._most:
                return False
            left_out = self._left_out.pop(kind, 0)
        if left_out:
            record.left_out = left_out
        return True


def redacted(value: object) -> object:
    """Return a text, or a JSON-compatible value, without values that must not be logged; anything else as its text."""
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


def _is_refusal(record: logging.LogRecord) -> bool:
    """Return whether Django logs an answer of 4xx: the line says what was refused, and a traceback nothing but
    where.
    """
    status = getattr(record, "status_code", None)
    return record.name.startswith("django.") and isinstance(status, int) and 400 <= status < 500


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
