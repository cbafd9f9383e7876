"""The meaning of each error code for operators, in one sentence, and the next step."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

ADVICE: dict[str, tuple[Promise, Promise]] = {
    "audit_unavailable": (_("The call could not be recorded."), _("Check whether the database responds: see /ready.")),
    "body_timeout": (_("The client's request did not arrive in time."), _("The client may send it again.")),
    "cancelled": (_("The client cancelled the call or disconnected."), _("Nothing, if the client meant to cancel.")),
    "connection_failed": (
        _("The service behind the tool could not be reached; nothing was sent."),
        _(
            "Check the address of the tool or connection, and whether the service is running. The call is safe "
            "to retry."
        ),
    ),
    "duplicate_request": (
        _("The request ID or idempotency key was already used for another call."),
        _("The client must use a new one."),
    ),
    "egress_refused": (
        _("The egress guard blocked the address."),
        _("Check the tool's address. To allow a private address, add it under Connections, Allowed hosts."),
    ),
    "execution_error": (
        _("The tool ran and reported a failure."),
        _("Read the tool's message below; the hub's log has the details."),
    ),
    "forbidden": (
        _("The caller lacks the required scope, or the origin is not allowed."),
        _("Grant the key the scope, or allow the origin."),
    ),
    "interrupted": (
        _("The hub's process ended while the tool was running. Whether the call took effect is unknown."),
        _("Check the service before retrying the call."),
    ),
    "invalid_arguments": (
        _("The arguments don't match the tool's input schema."),
        _("The invalid fields are listed below. If models often fail here, clarify the schema or its descriptions."),
    ),
    "missing_client_capability": (
        _("The tool needs a capability that the client doesn't have."),
        _("Use a client that supports it."),
    ),
    "payload_too_large": (_("The request was too large."), _("Send less data, or raise the limit max_body_bytes.")),
    "writes_stopped": (
        _("Writes were stopped, and the tool is not read-only."),
        _("Allow writes again under Rules, Write stops; then let the caller repeat the call."),
    ),
    "policy_denied": (
        _("A call rule denied the call."),
        _("Read the rule's message; try the call on the rule's test bench before you change the rule."),
    ),
    "prompt_not_found": (_("This caller has no prompt with that name."), _("See the list of prompts.")),
    "quota_reached": (
        _("A quota is used up."),
        _("See the usage next to the quotas. Raise the quota, or wait until the window ends."),
    ),
    "rate_limited": (
        _("The caller exceeded the calls per minute that the key or the tool allows."),
        _("Raise the limit of the key or the tool, or let the client wait."),
    ),
    "resource_not_found": (_("This caller has no resource with that address."), _("See the list of resources.")),
    "result_invalid": (
        _("The result doesn't match the tool's output schema, or is too large."),
        _("Correct the output schema, or contact the tool's author."),
    ),
    "server_busy": (
        _("The process had no capacity for another call."),
        _("Retry the call; check the load of the process."),
    ),
    "server_error": (_("The hub itself failed."), _("The log has the cause, under the invocation ID.")),
    "session_not_found": (_("The session had already ended."), _("The client must initialize again.")),
    "timeout": (
        _("The tool did not finish before its deadline. The call may still take effect."),
        _("Check the service before retrying; raise the tool's timeout if it needs longer."),
    ),
    "tool_disabled": (_("The tool is disabled."), _("Enable it, or use another tool.")),
    "tool_not_found": (
        _("The tool doesn't exist, or this caller can't see it."),
        _("Check the name. Tools that belong to groups are visible only to keys and people in those groups."),
    ),
    "transport_error": (
        _("The connection broke during the call. The call may have taken effect."),
        _("Check the service before retrying the call."),
    ),
    "upstream_error": (
        _("The service behind the tool returned an error."),
        _("Its status and the beginning of its response are shown below."),
    ),
    "url_elicitation_required": (
        _("The user must open an address before the call."),
        _("The client shows the address and repeats the call."),
    ),
}
_OTHER = (_("The call was refused before a tool ran."), _("See the message below for the reason."))


def advice(code: str) -> tuple[str, str]:
    """Return the cause and the next step."""
    happened, then = ADVICE.get(code, _OTHER)
    return str(happened), str(then)
