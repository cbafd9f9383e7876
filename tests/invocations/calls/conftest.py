from __future__ import annotations

import pytest
from django.db import connection

from invocations.models import McpIdempotencyKey, McpRequestEnvelope, McpToolInvocation
from sessions_app.models import BusEvent, McpSession, RateLimitBucket, ServerProcess

_TABLES = (
    McpIdempotencyKey, McpRequestEnvelope, McpToolInvocation, BusEvent, McpSession, RateLimitBucket, ServerProcess,
)  # fmt: skip


@pytest.fixture
def transactional_db(django_db_setup, django_db_blocker):
    """The database with nothing held back: the ledger's own connection must see what a test writes.

    Empties only the tables that calls write to, where pytest-django's would flush all and run every
    post_migrate hook again: a tenth of a second against one and a half.
    """
    with django_db_blocker.unblock():
        assert "test" in str(connection.settings_dict["NAME"])
        yield
        with connection.cursor() as cursor:
            for model in _TABLES:
                cursor.execute(f"DELETE FROM {model._meta.db_table}")
        connection.close()
