"""Views over the audit that read on the replica for auditors, where there is one."""

from __future__ import annotations

import contextlib
from typing import Any

from django.db import DatabaseError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from sessions_app.kit import replica

AS_OF = "X-Audit-As-Of"
"""Header of a response read on the replica: the moment up to which it is current, ISO 8601."""


class ReplicaReads(APIView):
    """Permissions are checked on the hub's database; rows come from the replica."""

    live_actions: frozenset[str] = frozenset()
    """Actions that follow calls live, and so read the hub's database."""
    _reading: contextlib.ExitStack | None = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in ("GET", "HEAD") and getattr(self, "action", "") not in self.live_actions:
            self._reading = contextlib.ExitStack()
            self._reading.enter_context(replica.reading())

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Response:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()
            if replica.is_set_up() and response.status_code < 400:
                self._say_as_of(response)
        return super().finalize_response(request, response, *args, **kwargs)

    def _say_as_of(self, response: Any) -> None:
        with contextlib.suppress(DatabaseError):  # went away just now: then nobody knows
            moment = replica.as_of()
            if moment is not None:
                response[AS_OF] = moment.isoformat().replace("+00:00", "Z")
