"""What a code of an error means to an operator, in a sentence, and what to do next."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

ADVICE: dict[str, tuple[Promise, Promise]] = {
    "audit_unavailable": (_("The call could not be recorded."), _("See whether the database answers: /ready says.")),
    "body_timeout": (_("The client's request did not arrive in time."), _("The client may send it again.")),
    "cancelled": (_("The client cancelled the call, or went away."), _("Nothing, if the client meant to.")),
    "connection_failed": (
        _("The service behind the tool was not reached; nothing was sent."),
        _("Check the address of the tool or connection, and whether the service runs. The call may be made again."),
    ),
    "duplicate_request": (
        _("The request id or idempotency key was used for another call."),
        _("The client must use a new one."),
    ),
    "egress_refused": (
        _("The egress guard refused the address."),
        _("Check the tool's address; a private one is named in MCPHUB_EGRESS_ALLOW."),
    ),
    "execution_error": (
        _("The tool ran and reported a failure."),
        _("Read the tool's message below; the log of the hub has the rest."),
    ),
    "forbidden": (
        _("The caller lacks the scope, or the origin is foreign."),
        _("Give the key the scope, or allow the origin."),
    ),
    "interrupted": (
        _("The hub's process ended while the tool ran. Whether it took effect is unknown."),
        _("Look at the service before the call is made again."),
    ),
    "invalid_arguments": (
        _("The arguments break the tool's input schema."),
        _("The places are named below. If models often fail here, make the schema or its descriptions clearer."),
    ),
    "missing_client_capability": (
        _("The tool needs a capability that the client lacks."),
        _("Use a client that has it."),
    ),
    "payload_too_large": (_("The request was too large."), _("Send less, or raise MCPHUB_MAX_BODY_BYTES.")),
    "policy_denied": (
        _("A rule about calls denied the call."),
        _("Read the rule's words; try the call on the rule's test bench before you change it."),
    ),
    "prompt_not_found": (_("There is no such prompt for this caller."), _("See the list of prompts.")),
    "quota_reached": (
        _("A quota is used up."),
        _("See who is near what beside the quotas. Raise the quota, or let the client wait until it is released."),
    ),
    "rate_limited": (
        _("The caller made more calls a minute than the key or the tool allows."),
        _("Raise the limit of the key or the tool, or let the client wait."),
    ),
    "resource_not_found": (_("There is no such resource for this caller."), _("See the list of resources.")),
    "result_invalid": (
        _("The result breaks the tool's output schema, or is too large."),
        _("Correct the output schema, or tell the tool's author."),
    ),
    "server_busy": (_("The process had no room for another call."), _("Try again; see the process's load.")),
    "server_error": (_("The hub itself failed."), _("The log has the cause, under the invocation's id.")),
    "session_not_found": (_("The session had ended."), _("The client must initialize again.")),
    "timeout": (
        _("The tool did not finish before its deadline. It may still take effect."),
        _("Look at the service before the call is made again; raise the tool's timeout if it needs longer."),
    ),
    "tool_disabled": (_("The tool is switched off."), _("Enable it, or point the client to another.")),
    "tool_not_found": (
        _("There is no such tool, or the caller may not see it."),
        _("Check the name; a tool in groups is seen by keys and people of these groups."),
    ),
    "transport_error": (
        _("The connection broke while the call ran. It may have taken effect."),
        _("Look at the service before the call is made again."),
    ),
    "upstream_error": (
        _("The service behind the tool answered with a failure."),
        _("Its status and the beginning of its answer stand below."),
    ),
    "url_elicitation_required": (
        _("The user must open an address before the call."),
        _("The client shows it and calls again."),
    ),
}
_OTHER = (_("The call was refused before a tool ran."), _("The message below says why."))


def advice(code: str) -> tuple[str, str]:
    """Give what happened, and what to do next."""
    happened, then = ADVICE.get(code, _OTHER)
    return str(happened), str(then)
