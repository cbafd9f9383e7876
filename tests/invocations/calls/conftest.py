from __future__ import annotations

import pytest

from invocations.models import McpIdempotencyKey, McpRequestEnvelope, McpToolInvocation
from sessions_app.models import BusEvent, McpSession, RateLimitBucket, ServerProcess
from tests.committed import committing

transactional_db = committing(
    McpIdempotencyKey, McpRequestEnvelope, McpToolInvocation, BusEvent, McpSession, RateLimitBucket, ServerProcess
)


@pytest.fixture(autouse=True)
def patient_ledger(settings):
    """A loaded machine may take seconds for a commit; who tests the bound sets it."""
    settings.MCPHUB_LEDGER_TIMEOUT_SECONDS = 20
