"""What must stay bounded while a hub works, as another process counts it: `Hub.operate` runs this."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

_LATE_SECONDS = 120
"""A sweep comes every half a minute, and later on a loaded machine."""


def bounded() -> dict[str, int]:
    """Return by name what is counted. soak.py knows how much there may be of each."""
    from django.conf import settings
    from django.db import connection
    from django.utils import timezone
    from oauth2_provider.models import AccessToken, Grant

    from invocations.chain import service
    from invocations.models import McpTask
    from sessions_app import bus, events
    from sessions_app.models import BusEvent, McpSession, RemoteConnection, ServerProcess, StreamEvent
    from sessions_app.refused_requests import RefusedRequest

    now = timezone.now()

    def older(model: Any, seconds: int) -> int:
        return model.objects.filter(created_at__lt=now - timedelta(seconds=seconds + _LATE_SECONDS)).count()  # type: ignore[no-any-return]

    log = service.log_on(connection)
    through, highest = log.head().through, log.highest()
    found = {
        "live sessions": McpSession.objects.live().count(),
        "processes": ServerProcess.objects.filter(status="running").count(),
        "connections of the remote profile": RemoteConnection.objects.count(),
        "refused requests": RefusedRequest.objects.count(),
        "codes of sign-ins": Grant.objects.count(),
        "access tokens": AccessToken.objects.count(),
        "tasks": McpTask.objects.count(),
        "rows without a seal": sum(highest[name] - through[name] for name in highest),
        "events of streams past their time": older(StreamEvent, events.KEEP_SECONDS),
        "events of the bus past their time": older(BusEvent, bus.KEEP_SECONDS),
        "events of streams": StreamEvent.objects.count(),
        "events of the bus": BusEvent.objects.count(),
    }
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
            found["connections to PostgreSQL"] = cursor.fetchone()[0]
    else:
        log_file = settings.MCPHUB_DATA_DIR / "hub.sqlite3-wal"
        found["MiB of SQLite's log"] = log_file.stat().st_size >> 20 if log_file.exists() else 0
    return found
