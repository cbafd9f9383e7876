"""What a caller is told of a failure that is not his own."""

from __future__ import annotations

import logging
from typing import Any

from sessions_app.database import is_away
from sessions_app.protocol.errors import AuditUnavailable, HubError, ServerError

logger = logging.getLogger(__name__)


def told(error: Exception, what: str, *values: Any) -> HubError:
    """Give the error to answer with. `what` % `values` is for the log. Called while `error` is handled.

    A database that is away is nobody's mistake and soon back: then the caller may try again.
    """
    if isinstance(error, HubError):
        return error.parted()
    if is_away(error):
        logger.warning(f"{what}: the database cannot be used: %s", *values, str(error).strip())
        away = AuditUnavailable("The hub's database cannot be used at this moment. Try again.")
        away.retry_after_seconds = 1
        return away
    logger.exception(what, *values)
    return ServerError()
