"""The roles that ship (design: roles), as Django groups. Made after every migrate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcphub import feature_list
from sessions_app.kit.features import installed

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
    "invocations.view_errorgroup",
    "tools_catalog.view_mcpresource",
    "tools_catalog.view_mcpprompt",
    "tools_catalog.view_mcptoolset",
    "tools_catalog.view_mcppolicyrule",
    "tools_catalog.view_mcpguardrail",
    "tools_catalog.view_httpservice",
    "tools_catalog.view_allowedhost",
    "invocations.view_mcpapproval",
    "invocations.view_mcpquota",
    "invocations.view_mcptoolapproval",
    "fitting.view_resultsize",
    "skills.view_skill",
    "invocations.view_mcpredactionrule",
    "chat.view_chatprovider",
    "chat.view_chatmodel",
    "chat.view_chatmodelprice",
    "chat.view_chatkey",
    "chat.view_chatsession",
    "chat.view_query",
    "sessions_app.view_ratelimitbucket",
    "sessions_app.view_waitingchange",
    "writes.view_writestop",
    "alerts.view_alert",
    "telling.view_notice",
    "telling.view_delivery",
    "telling.replay_delivery",
    "telling.view_subscription",
    "telling.add_subscription",
    "telling.change_subscription",
    "telling.delete_subscription",
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
    "fitting.add_resultsize",
    "fitting.change_resultsize",
    "fitting.delete_resultsize",
    "skills.add_skill",
    "skills.change_skill",
    "skills.delete_skill",
    "tools_catalog.add_mcppolicyrule",
    "tools_catalog.change_mcppolicyrule",
    "tools_catalog.delete_mcppolicyrule",
    "tools_catalog.add_mcpguardrail",
    "tools_catalog.change_mcpguardrail",
    "tools_catalog.delete_mcpguardrail",
    "tools_catalog.add_httpservice",
    "tools_catalog.change_httpservice",
    "tools_catalog.add_allowedhost",
    "tools_catalog.change_allowedhost",
    "tools_catalog.delete_allowedhost",
    "alerts.add_alert",
    "alerts.change_alert",
    "alerts.delete_alert",
    "writes.add_writestop",
    "writes.change_writestop",
    "sessions_app.decide_waitingchange",
)
_EVIDENCE = (
    "invocations.view_auditblock",
    "sessions_app.view_auditevent",
    "invocations.view_audittombstone",
    "invocations.view_auditpolicy",
    "invocations.view_audithold",
    "invocations.view_shippingtarget",
    "invocations.view_auditverification",
    "invocations.add_audithold",
    "invocations.change_audithold",
    "invocations.add_mcpredactionrule",
    "invocations.change_mcpredactionrule",
    "invocations.delete_mcpredactionrule",
)

_REVIEWING = (
    "access_review.view_accessreview",
    "access_review.view_reviewedgrant",
    "access_review.decide_accessreview",
)

ROLES: Mapping[str, tuple[str, ...]] = {
    "Viewer": _SEEN,
    "Auditor": (
        *_SEEN,
        *_EVIDENCE,
        *_REVIEWING,
        "access_review.add_accessreview",
        "access_review.change_accessreview",
        "invocations.read_bodies",
        "chat.read_conversations",
        "sessions_app.view_apikey",
        "sessions_app.share_savedview",
        "signin.view_consent",
        "events.view_eventsubscription",
        "signin.view_issuer",
        "login.view_loginprovider",
        "login.view_linkedidentity",
        "login.view_invitation",
        "login.view_secondfactor",
    ),
    "Operator": (
        *_SEEN,
        *_CATALOGUE,
        *_REVIEWING,
        "sessions_app.view_settings",
        "invocations.cancel_mcptask",
        "invocations.change_errorgroup",
        "invocations.change_mcperrormapping",
        "invocations.add_mcperrormapping",
        "invocations.decide_mcpapproval",
        "invocations.add_mcpquota",
        "invocations.change_mcpquota",
        "invocations.delete_mcpquota",
        "invocations.add_mcptoolapproval",
        "invocations.change_mcptoolapproval",
        "chat.add_chatprovider",
        "chat.change_chatprovider",
        "chat.test_chatprovider",
        "chat.add_chatmodel",
        "chat.change_chatmodel",
        "chat.delete_chatmodel",
        "chat.add_chatmodelprice",
        "chat.change_chatmodelprice",
        "chat.delete_chatmodelprice",
        "chat.add_chatkey",
        "chat.change_chatkey",
        "chat.delete_chatkey",
        "sessions_app.change_mcpsession",
        "sessions_app.change_ratelimitbucket",
        "sessions_app.view_apikey",
        "sessions_app.add_apikey",
        "sessions_app.change_apikey",
        "signin.view_consent",
        "signin.delete_consent",
        "events.view_eventsubscription",
        "events.delete_eventsubscription",
        "signin.view_issuer",
        "signin.add_issuer",
        "signin.change_issuer",
        "signin.test_issuer",
        "login.view_linkedidentity",
        "login.delete_linkedidentity",
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
"""Name -> permissions. A Viewer reads calls without their bodies, which ask for `read_bodies`."""


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
    is_whole = len(installed()) == len(feature_list.known())
    for name, codenames in ROLES.items():
        group, _made = Group.objects.using(using).get_or_create(name=name)
        # Permissions of features that are left out are given once they are on.
        group.permissions.add(*(known[codename] for codename in codenames if is_whole or codename in known))
