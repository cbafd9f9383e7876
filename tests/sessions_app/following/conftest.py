from __future__ import annotations

from sessions_app.models import ApiKey, BusEvent, McpSession
from tests.committed import committing

transactional_db = committing(ApiKey.groups.through, ApiKey.history.model, ApiKey, McpSession, BusEvent)
