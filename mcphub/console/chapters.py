"""The chapter of the documentation that each page of the core links, by the page's name on the map.

A feature's page names its own: `ConsolePage(docs=…)`. The help link of a page is drawn by `admin/hub/tabs.html`.
"""

from __future__ import annotations

CHAPTERS: dict[str, str] = {
    "admin:index": "operate/console#overview",
    "connect": "start/clients",
    "invocations_mcptoolinvocation": "operate/console#reading-the-calls",
    "sessions_app_mcpsession": "operate/console#sessions",
    "invocations_mcptask": "integrate/tasks",
    "invocations_mcprequestenvelope": "audit/audit#what-is-recorded",
    "tools_catalog_mcpupstreamtool": "integrate/upstreams#what-is-served",
    "sessions_app_waitingchange": "operate/console#a-second-person",
    "tools_catalog_mcptooldefinition": "integrate/tools",
    "tools_catalog_mcptoolset": "integrate/toolsets",
    "tools_catalog_mcpresource": "integrate/resources",
    "tools_catalog_mcpprompt": "integrate/resources",
    "tools_catalog_mcpconnection": "integrate/upstreams",
    "tools_catalog_httpservice": "integrate/tools#services",
    "tools_catalog_secret": "integrate/tools#an-http-api",
    "tools_catalog_allowedhost": "secure/security#requests-of-tools",
    "tools_catalog_launchprofile": "integrate/upstreams#what-a-child-may-do",
    "sessions_app_apikey": "operate/console#keys",
    "auth_user": "operate/console#the-page-of-a-person",
    "auth_group": "operate/console#roles",
    "sessions_app_mcpworkspace": "secure/workspaces",
    "sessions_app_ratelimitbucket": "operate/limits#calls",
    "invocations_mcpredactionrule": "audit/audit#redaction-and-long-bodies",
    "invocations_mcperrormapping": "operate/console#error-mappings",
    "sessions_app_auditevent": "operate/console#who-changed-what-and-is-the-audit-whole",
    "invocations_auditblock": "audit/audit#how-it-proves-itself",
    "invocations_auditverification": "audit/audit#verify",
    "invocations_audittombstone": "audit/audit#how-long-it-is-kept",
    "invocations_audithold": "audit/audit#how-long-it-is-kept",
    "invocations_auditpolicy": "audit/audit#how-long-it-is-kept",
    "hub-settings": "operate/console#settings-and-diagnostics",
    "hub-diagnostics": "operate/console#settings-and-diagnostics",
    "sessions_app_serverprocess": "operate/deployment#starting-and-stopping",
    "api-root": "integrate/rest",
}
