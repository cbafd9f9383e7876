"""What the lists of the core are for, or how their rows come about: shown while a list is empty. By `<app>_<model>`."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

PURPOSES: dict[str, str | Promise] = {
    "invocations_mcptoolinvocation": _(
        "Every tool call is recorded here when it arrives, with caller, outcome and duration. Connect a "
        "client to make the first one."
    ),
    "sessions_app_mcpsession": _(
        "A client that connects with a handshake opens a session. Stateless clients have none; their calls "
        "are under Calls."
    ),
    "invocations_mcptask": _(
        "A call that its client follows in the background is a task. Tools that run as tasks create them."
    ),
    "invocations_mcprequestenvelope": _(
        "The hub records a request here before it runs a tool that may change something, so that even a "
        "crash leaves a trace."
    ),
    "tools_catalog_mcpupstreamtool": _(
        "Tools that a connected MCP server offers, and later changes of their definitions, wait here for "
        "your decision. Add a connection to get the first."
    ),
    "sessions_app_waitingchange": _(
        "Edits that one person alone must not make wait here until a second person confirms or rejects them."
    ),
    "tools_catalog_mcptooldefinition": _(
        "Clients call tools: Python functions, HTTP requests, or tools of other MCP servers. Import "
        "an API, add a connection, or add one by hand."
    ),
    "tools_catalog_mcptoolset": _(
        "A toolset is a choice of tools with its own URL, for clients that should see only these."
    ),
    "tools_catalog_mcpresource": _("A resource is a text or file that clients can read by its URI."),
    "tools_catalog_mcpprompt": _(
        "A prompt is a template that people choose in their client, with arguments to fill in."
    ),
    "tools_catalog_mcpconnection": _(
        "A connection is another MCP server whose tools clients reach through this hub. Pick a known server, "
        "or enter a URL."
    ),
    "tools_catalog_httpservice": _(
        "A service is the address of an HTTP API with its credentials, shared by all tools that call it. "
        "Importing an API creates one."
    ),
    "tools_catalog_secret": _(
        "A secret is a password or token that tools use by its name. After you save it, nobody can read it here."
    ),
    "tools_catalog_allowedhost": _(
        "Tools and connections reach public addresses only. Allow a private host or network here."
    ),
    "tools_catalog_launchprofile": _(
        "A launch profile is a command that may be started as a local MCP server. Connections over stdio choose one."
    ),
    "sessions_app_apikey": _(
        "An API key lets a program call tools without a login. It is shown once, when you create it."
    ),
    "auth_user": _("Everybody with a login is listed here. Invite people, or let them come by a login provider."),
    "auth_group": _("Groups decide which tools people see, and their permissions in the console."),
    "sessions_app_mcpworkspace": _(
        "A workspace gives a team its own tools, connections and calls, which other teams don't see."
    ),
    "sessions_app_ratelimitbucket": _(
        "A caller appears here with its first request that counts against the rate limit."
    ),
    "invocations_mcpredactionrule": _(
        "A redaction rule names a field or header that is masked before a call is recorded."
    ),
    "invocations_mcperrormapping": _("An error mapping sets the message that callers get for an error code."),
    "sessions_app_auditevent": _(
        "Every change of the configuration is recorded here with its author, time and differences."
    ),
    "invocations_auditblock": _(
        "The hub seals calls and changes in signed blocks. The first one appears soon after the first call."
    ),
    "invocations_auditverification": _(
        "Each verification of the audit log is recorded here with its findings. Start one under Blocks, Integrity."
    ),
    "invocations_audittombstone": _(
        "When retention deletes records, a tombstone shows the range, the time and the rule."
    ),
    "invocations_audithold": _(
        "A legal hold keeps the records that it describes from being deleted until it is released."
    ),
    "invocations_auditpolicy": _(
        "The retention policy sets after how many days records and their contents are deleted."
    ),
    "sessions_app_serverprocess": _("Each running process of the hub is listed here with its version and state."),
}

FIRST_STEPS: dict[str, str] = {
    "invocations_mcptoolinvocation": "connect",
    "sessions_app_mcpsession": "connect",
    "invocations_mcprequestenvelope": "connect",
    "tools_catalog_mcpupstreamtool": "tools_catalog_mcpconnection",
}
"""Lists of the core without a form for new rows -> the page that leads to the first row."""
