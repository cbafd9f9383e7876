"""The roles that ship (design: roles), as Django groups. Made after every migrate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcphub.parts import RolePermissions
from sessions_app.kit.features import declared, installed

_SEEN = (
    "sessions_app.view_mcpsession",
    "sessions_app.view_mcpworkspace",
    "sessions_app.view_serverprocess",
    "tools_catalog.view_mcptooldefinition",
    "tools_catalog.view_mcptoolversion",
    "invocations.view_mcptoolinvocation",
    "invocations.view_mcprequestenvelope",
    "invocations.view_mcperrormapping",
    "tools_catalog.view_mcpconnection",
    "tools_catalog.view_mcpupstreamtool",
    "invocations.view_mcptask",
    "tools_catalog.view_mcpresource",
    "tools_catalog.view_mcpprompt",
    "tools_catalog.view_mcptoolset",
    "tools_catalog.view_httpservice",
    "tools_catalog.view_allowedhost",
    "invocations.view_mcpredactionrule",
    "sessions_app.view_ratelimitbucket",
    "sessions_app.view_waitingchange",
)
_CATALOGUE = (
    "tools_catalog.add_mcptooldefinition",
    "tools_catalog.change_mcptooldefinition",
    "tools_catalog.try_mcptooldefinition",
    "tools_catalog.view_secret",
    "auth.view_group",
    "tools_catalog.add_mcpconnection",
    "tools_catalog.change_mcpconnection",
    "tools_catalog.change_mcpupstreamtool",
    "tools_catalog.approve_mcpupstreamtool",
    "tools_catalog.add_mcpresource",
    "tools_catalog.change_mcpresource",
    "tools_catalog.delete_mcpresource",
    "tools_catalog.add_mcpprompt",
    "tools_catalog.change_mcpprompt",
    "tools_catalog.delete_mcpprompt",
    "tools_catalog.add_mcptoolset",
    "tools_catalog.change_mcptoolset",
    "tools_catalog.delete_mcptoolset",
    "tools_catalog.add_httpservice",
    "tools_catalog.change_httpservice",
    "tools_catalog.add_allowedhost",
    "tools_catalog.change_allowedhost",
    "tools_catalog.delete_allowedhost",
    "sessions_app.decide_waitingchange",
)
_EVIDENCE = (
    "invocations.view_auditblock",
    "sessions_app.view_auditevent",
    "invocations.view_audittombstone",
    "invocations.view_auditpolicy",
    "invocations.view_audithold",
    "invocations.view_auditverification",
    "invocations.add_audithold",
    "invocations.change_audithold",
    "invocations.add_mcpredactionrule",
    "invocations.change_mcpredactionrule",
    "invocations.delete_mcpredactionrule",
)

ROLES: Mapping[str, tuple[str, ...]] = {
    "Viewer": _SEEN,
    "Auditor": (
        *_SEEN,
        *_EVIDENCE,
        "invocations.read_bodies",
        "sessions_app.view_apikey",
        "sessions_app.share_savedview",
    ),
    "Operator": (
        *_SEEN,
        *_CATALOGUE,
        "sessions_app.view_settings",
        "invocations.cancel_mcptask",
        "invocations.change_mcperrormapping",
        "invocations.add_mcperrormapping",
        "sessions_app.change_mcpsession",
        "sessions_app.change_ratelimitbucket",
        "sessions_app.view_apikey",
        "sessions_app.add_apikey",
        "sessions_app.change_apikey",
        "sessions_app.share_savedview",
    ),
    "Upstream manager": (
        *_SEEN,
        *_CATALOGUE,
        "tools_catalog.launch_mcpconnection",
        "tools_catalog.view_launchprofile",
        "tools_catalog.add_launchprofile",
        "tools_catalog.change_launchprofile",
        "tools_catalog.add_secret",
        "tools_catalog.change_secret",
        "tools_catalog.delete_secret",
        "sessions_app.share_savedview",
    ),
}
"""Name -> permissions, without those that features declare. A Viewer reads calls without their bodies, which ask for
`read_bodies`.
"""


def permissions(role: str) -> list[str]:
    """Return the permissions of a role that ships."""
    added = (part for part in declared(RolePermissions) if not part.roles or role in part.roles)
    return [*ROLES[role], *(permission for part in added for permission in part.permissions)]


def install(sender: object = None, **kwargs: Any) -> None:
    """Create the groups and add missing permissions; an operator's additions stay."""
    from django.apps import apps
    from django.contrib.auth.management import create_permissions
    from django.contrib.auth.models import Group, Permission

    using = kwargs.get("using", "default")
    core = [apps.get_app_config(label) for label in ("auth", "sessions_app", "tools_catalog", "invocations")]
    for config in (*core, *installed()):
        # Each app's permissions are made by a signal of its own, whose turn may come later.
        create_permissions(config, verbosity=0, using=using)
    known = {
        f"{permission.content_type.app_label}.{permission.codename}": permission
        for permission in Permission.objects.using(using).select_related("content_type")
    }
    for name in ROLES:
        group, _made = Group.objects.using(using).get_or_create(name=name)
        group.permissions.add(*(known[codename] for codename in permissions(name)))
