"""Turns any exception into the caller's error, and logs it under the ID in that error."""

from __future__ import annotations

import logging
import time

from invocations.mapping.error_map import ErrorMap
from sessions_app.kit.database import is_away
from sessions_app.protocol.errors import AuditUnavailable, HubError, ServerError
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

_LINES_A_SECOND = 50
"""Beyond it errors are counted: whoever sends nonsense without end shall not fill the log."""


def as_hub_error(error: Exception, what: str, *values: object) -> HubError:
    """Return the error to answer with. `what` % `values` is for the log. Called while `error` is handled.

    A database that is away is nobody's mistake and soon back: then the caller may try again.
    """
    if isinstance(error, HubError):
        return error.parted()
    if is_away(error):
        away = AuditUnavailable("The hub's database cannot be used at this moment. Try again.")
        away.retry_after_seconds = 1
        cause, extra = str(error).strip(), {"correlation_id": away.correlation_id}
        logger.warning(f"{what}: the database cannot be used: %s", *values, cause, extra=extra)
        return away
    failed = ServerError()
    logger.exception(what, *values, extra={"correlation_id": failed.correlation_id})
    return failed


def error_object(error_map: ErrorMap, error: HubError) -> dict[str, Json]:
    """Return the `error` of the message that answers a request, and log it."""
    rendered = error_map.render(error, invocation_id=error.invocation_id)
    rendered["data"]["correlationId"] = error.correlation_id
    log("An error was answered", error.code, error.correlation_id)
    return rendered


def log(event: str, error_code: str, correlation_id: str) -> None:
    """Log an error under the ID that its caller received."""
    left_out = _pace.left_out()
    if left_out:
        logger.info("More errors were answered within a second than are logged", extra={"left_out": left_out})
    if _pace.admits():
        logger.info(event, extra={"error_code": error_code, "correlation_id": correlation_id})


class _Pace:
    """How many lines of this second are written."""

    def __init__(self) -> None:
        self._second = 0
        self._seen = 0

    def left_out(self) -> int:
        """Return how many lines the last second went without, once."""
        second = int(time.monotonic())
        if second == self._second:
            return 0
        seen, self._second, self._seen = self._seen, second, 0
        return max(0, seen - _LINES_A_SECOND)

    def admits(self) -> bool:
        self._seen += 1
        return self._seen <= _LINES_A_SECOND


_pace = _Pace()
