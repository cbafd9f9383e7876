"""The side bar of the admin."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _


def show(request: HttpRequest) -> list[dict[str, object]]:
    """Give the side bar; what a person may not see is absent from it."""

    def item(title: str, icon: str, page: str, key: str = "") -> dict[str, object]:
        """`key` is the letter that leads there, after `g` (mcphub/keys.js)."""
        app, _underscore, model = page.rpartition("_")
        return {
            "title": title,
            "icon": icon,
            "key": key,
            "link": reverse(f"admin:{page}_changelist"),
            "may": request.user.has_perm(f"{app}.view_{model}"),
        }

    blocks: list[dict[str, Any]] = [
        {
            "items": [
                {"title": _("Overview"), "icon": "monitoring", "link": reverse("admin:index"), "may": True, "key": "o"},
                {"title": _("Connect a client"), "icon": "power", "link": reverse("connect"), "may": True},
                {"title": _("My access"), "icon": "badge", "link": reverse("my-access"), "may": True},
            ]
        },
        {
            "title": _("Audit"),
            "items": [
                item(_("Invocations"), "receipt_long", "invocations_mcptoolinvocation", "i"),
                item(_("Sessions"), "cable", "sessions_app_mcpsession", "s"),
                item(_("Tasks"), "task_alt", "invocations_mcptask", "w"),
                item(_("Request envelopes"), "drafts", "invocations_mcprequestenvelope"),
                item(_("Server processes"), "memory", "sessions_app_serverprocess"),
            ],
        },
        {
            "title": _("Evidence"),
            "items": [
                item(_("Configuration history"), "history_edu", "sessions_app_auditevent", "h"),
                item(_("Blocks"), "link", "invocations_auditblock", "b"),
                item(_("Tombstones"), "delete_history", "invocations_audittombstone"),
                item(_("Redaction"), "visibility_off", "invocations_mcpredactionrule"),
                item(_("Legal holds"), "gavel", "invocations_audithold"),
                item(_("Retention"), "auto_delete", "invocations_auditpolicy"),
                item(_("Verifications"), "fact_check", "invocations_auditverification"),
                item(_("Shipping"), "outbox", "invocations_shippingtarget"),
            ],
        },
        {
            "title": _("Catalogue"),
            "items": [
                item(_("Tools"), "build", "tools_catalog_mcptooldefinition", "t"),
                item(_("Toolsets"), "category", "tools_catalog_mcptoolset"),
                item(_("Rules about calls"), "policy", "tools_catalog_mcppolicyrule"),
                item(_("Services"), "api", "tools_catalog_httpservice"),
                item(_("Connections"), "lan", "tools_catalog_mcpconnection", "c"),
                item(_("Upstream offers"), "inbox", "tools_catalog_mcpupstreamtool", "u"),
                item(_("Launch profiles"), "terminal", "tools_catalog_launchprofile"),
                item(_("Resources"), "description", "tools_catalog_mcpresource"),
                item(_("Prompts"), "chat", "tools_catalog_mcpprompt"),
                item(_("Error mappings"), "report", "invocations_mcperrormapping", "m"),
                item(_("Secrets"), "lock", "tools_catalog_secret"),
                item(_("Waiting changes"), "group_add", "sessions_app_waitingchange"),
            ],
        },
        {
            "title": _("Chat"),
            "items": [
                item(_("Conversations"), "forum", "chat_chatsession", "v"),
                item(_("Questions"), "contact_support", "chat_query"),
                item(_("Approvals"), "how_to_reg", "chat_chatapproval", "a"),
                item(_("Approval policies"), "rule", "chat_toolapproval"),
                item(_("Providers"), "hub", "chat_chatprovider", "p"),
                item(_("Models"), "smart_toy", "chat_chatmodel"),
                item(_("Chat settings of keys"), "tune", "chat_chatkey"),
            ],
        },
        {
            "title": _("Access"),
            "items": [
                item(_("API keys"), "key", "sessions_app_apikey", "k"),
                item(_("Allowed clients"), "devices", "signin_consent"),
                item(_("Trusted issuers"), "verified_user", "signin_issuer"),
                item(_("Rate limits"), "speed", "sessions_app_ratelimitbucket", "l"),
                item(_("Login providers"), "login", "login_loginprovider"),
                item(_("Invitations"), "mail", "login_invitation"),
                item(_("Linked identities"), "link", "login_linkedidentity"),
                item(_("Second factors"), "password", "login_secondfactor"),
                item(_("Users"), "person", "auth_user"),
                item(_("Groups"), "group", "auth_group"),
            ],
        },
    ]
    blocks.append({"items": [{"title": _("Keyboard"), "icon": "keyboard", "link": "#hub-keys", "may": True}]})
    for block in blocks:
        block["items"] = [entry for entry in block["items"] if entry["may"]]
    return [block for block in blocks if block["items"]]
