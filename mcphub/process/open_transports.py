"""The transports of this process, as rows for all processes: their settings, and their last failures."""

from __future__ import annotations

from collections.abc import Iterable

from channels.db import database_sync_to_async
from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from invocations.redaction.records import without_secrets
from sessions_app.models import ProcessTransport
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json
from sessions_app.transports import REMOTE, SSE, STREAMABLE_HTTP, TRANSPORTS, ClientTransport

_TOOLSETS = "/mcp/s/"
_LONGEST_ERROR = 500


class OpenTransports:
    """One a process."""

    def __init__(self, process_id: str) -> None:
        self._process_id = process_id
        self._failures: dict[str, str] = {}
        """By transport, not written yet."""

    async def open(self, served: Iterable[ClientTransport]) -> None:
        """Record that the process serves these from now on."""
        rows = [
            ProcessTransport(process_id=self._process_id, type=each.name, configuration=configuration(each))
            for each in served
        ]
        await database_sync_to_async(_put)(rows)

    def failed(self, transport: str, error: HubError) -> None:
        """Note the last error of a transport. Never waits: housekeeping writes it."""
        self._failures[transport] = f"{error.code}: {error.message}".replace("\0", "")[:_LONGEST_ERROR]

    def failed_at(self, path: str, error: HubError) -> None:
        """Note an error of the transport that is served at a path, if one is."""
        found = served_at(path)
        if found is not None:
            self.failed(found.name, error)

    def flush(self) -> None:
        """Write the noted failures. Blocks on the database."""
        noted, self._failures = self._failures, {}
        now = timezone.now()
        for transport, words in noted.items():
            self._rows().filter(type=transport).update(
                last_error=without_secrets(words)[:_LONGEST_ERROR], last_error_at=now
            )

    def close(self) -> None:
        """Record that none accepts requests any more. Blocks on the database."""
        self.flush()
        self._rows().update(is_active=False)

    def _rows(self) -> QuerySet[ProcessTransport]:
        return ProcessTransport.objects.filter(process_id=self._process_id)


def configuration(transport: ClientTransport) -> dict[str, Json]:
    """Return how a transport is set, by the settings of this process."""
    found: dict[str, Json] = {"max_body_bytes": settings.MCPHUB_MAX_BODY_BYTES}
    if transport.path:
        found |= {"path": transport.path, "url": settings.MCPHUB_PUBLIC_URL.rstrip("/") + transport.path}
        found["heartbeat_seconds"] = settings.MCPHUB_HEARTBEAT_SECONDS
        found["body_timeout_seconds"] = settings.MCPHUB_BODY_TIMEOUT_SECONDS
    if transport.messages_path:
        found["messages_path"] = transport.messages_path
    if transport == REMOTE:
        found["max_clients"] = settings.MCPHUB_MAX_CLIENTS
    if transport in (STREAMABLE_HTTP, SSE):
        found["max_streams"] = settings.MCPHUB_MAX_STREAMS
    return found


def served_at(path: str) -> ClientTransport | None:
    """Return the transport that has a path, those of toolsets included."""
    path = path.rstrip("/") or "/"
    if path.startswith(_TOOLSETS):
        last = "/" + path.rpartition("/")[2]
        return SSE if path.count("/") > 3 and last in (SSE.path, SSE.messages_path) else STREAMABLE_HTTP
    return next((each for each in TRANSPORTS.values() if each.path and path in (each.path, each.messages_path)), None)


def _put(rows: list[ProcessTransport]) -> None:
    ProcessTransport.objects.bulk_create(rows)
