"""The tables of this floor. Django looks for them here, and other modules import them from here."""

from sessions_app.accountable import AccountablePerson
from sessions_app.history.models import AuditEvent, WaitingChange
from sessions_app.login.models import LoginLimit
from sessions_app.models.keys import ApiKey
from sessions_app.models.lists import ListColumns, SavedView
from sessions_app.models.processes import ProcessTransport, ServerProcess
from sessions_app.models.sessions import (
    BusEvent,
    McpSession,
    RateLimitBucket,
    RemoteConnection,
    ResourceSubscription,
    StreamEvent,
)
from sessions_app.refused_requests import RefusedRequest
from sessions_app.workspaces.models import McpWorkspace

__all__ = [
    "AccountablePerson",
    "ApiKey",
    "AuditEvent",
    "BusEvent",
    "ListColumns",
    "LoginLimit",
    "McpSession",
    "McpWorkspace",
    "ProcessTransport",
    "RateLimitBucket",
    "RefusedRequest",
    "RemoteConnection",
    "ResourceSubscription",
    "SavedView",
    "ServerProcess",
    "StreamEvent",
    "WaitingChange",
]
