from __future__ import annotations

from invocations.models import McpIdempotencyKey, McpRequestEnvelope, McpToolInvocation
from sessions_app.models import BusEvent, McpSession, RateLimitBucket, ServerProcess
from tests.committed import committing

transactional_db = committing(
    McpIdempotencyKey, McpRequestEnvelope, McpToolInvocation, BusEvent, McpSession, RateLimitBucket, ServerProcess
)
