"""The map of the console: few areas in the side bar, the pages of each as tabs, and where a page stands among them.

What a person may not see is absent. `tests/mcphub/admin/test_admin_map.py` holds that every page of the admin is here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise, SimpleLazyObject
from django.utils.translation import gettext_lazy as _

from sessions_app.workspaces.acting import PAGES, acting_of

Words = str | Promise


@dataclass(frozen=True)
class Tab:
    """A page of an area: `page` is `<app>_<model>` for the list of a table, else the name of an address."""

    title: Words
    icon: str
    page: str
    key: str = ""
    """The letter that leads there, after `g` (keys.js)."""

    @property
    def is_list(self) -> bool:
        return "_" in self.page

    @property
    def link(self) -> str:
        return reverse(f"admin:{self.page}_changelist" if self.is_list else self.page)

    def may_be_seen_by(self, request: HttpRequest) -> bool:
        if acting_of(request.user) is not None and (not self.is_list or f"{self.page}_changelist" not in PAGES):
            return False
        app, _underscore, model = self.page.rpartition("_")
        return not self.is_list or request.user.has_perm(f"{app}.view_{model}")


@dataclass(frozen=True)
class Area:
    """One entry of the side bar."""

    title: Words
    icon: str
    tabs: tuple[Tab, ...]


@dataclass(frozen=True)
class ShownTab:
    title: Words
    icon: str
    link: str
    key: str
    is_here: bool = False


@dataclass(frozen=True)
class ShownArea:
    title: Words
    icon: str
    tabs: list[ShownTab] = field(default_factory=list)
    is_here: bool = False

    @property
    def link(self) -> str:
        return self.tabs[0].link

    @property
    def tab(self) -> ShownTab | None:
        return next((tab for tab in self.tabs if tab.is_here), None)


AREAS: tuple[Area, ...] = (
    Area(
        _("Overview"),
        "monitoring",
        (Tab(_("Overview"), "monitoring", "admin:index", "o"), Tab(_("Connect a client"), "power", "connect", "x")),
    ),
    Area(
        _("Calls"),
        "receipt_long",
        (
            Tab(_("Calls"), "receipt_long", "invocations_mcptoolinvocation", "i"),
            Tab(_("Errors"), "report", "invocations_errorgroup", "e"),
            Tab(_("Sessions"), "cable", "sessions_app_mcpsession", "s"),
            Tab(_("Tasks"), "task_alt", "invocations_mcptask", "w"),
            Tab(_("Request envelopes"), "drafts", "invocations_mcprequestenvelope"),
        ),
    ),
    Area(
        _("Inbox"),
        "inbox",
        (
            Tab(_("Calls to approve"), "how_to_reg", "invocations_mcpapproval", "a"),
            Tab(_("Upstream offers"), "move_to_inbox", "tools_catalog_mcpupstreamtool", "u"),
            Tab(_("Waiting changes"), "group_add", "sessions_app_waitingchange"),
            Tab(_("Notices"), "notifications", "telling_notice", "n"),
        ),
    ),
    Area(
        _("Catalogue"),
        "build",
        (
            Tab(_("Tools"), "build", "tools_catalog_mcptooldefinition", "t"),
            Tab(_("Toolsets"), "category", "tools_catalog_mcptoolset"),
            Tab(_("Resources"), "description", "tools_catalog_mcpresource"),
            Tab(_("Prompts"), "chat", "tools_catalog_mcpprompt"),
        ),
    ),
    Area(
        _("Connections"),
        "lan",
        (
            Tab(_("Connections"), "lan", "tools_catalog_mcpconnection", "c"),
            Tab(_("Services"), "api", "tools_catalog_httpservice"),
            Tab(_("Secrets"), "lock", "tools_catalog_secret"),
            Tab(_("Launch profiles"), "terminal", "tools_catalog_launchprofile"),
        ),
    ),
    Area(
        _("Chat"),
        "forum",
        (
            Tab(_("Conversations"), "forum", "chat_chatsession", "v"),
            Tab(_("Questions"), "contact_support", "chat_query"),
            Tab(_("Providers"), "hub", "chat_chatprovider", "p"),
            Tab(_("Models"), "smart_toy", "chat_chatmodel"),
            Tab(_("Prices"), "payments", "chat_chatmodelprice"),
            Tab(_("Chat settings of keys"), "tune", "chat_chatkey"),
        ),
    ),
    Area(
        _("Access"),
        "key",
        (
            Tab(_("API keys"), "key", "sessions_app_apikey", "k"),
            Tab(_("People"), "person", "auth_user"),
            Tab(_("Groups"), "group", "auth_group"),
            Tab(_("Workspaces"), "workspaces", "sessions_app_mcpworkspace"),
            Tab(_("Invitations"), "mail", "login_invitation"),
            Tab(_("Allowed clients"), "devices", "signin_consent"),
            Tab(_("Trusted issuers"), "verified_user", "signin_issuer"),
            Tab(_("Login providers"), "login", "login_loginprovider"),
            Tab(_("Linked identities"), "link", "login_linkedidentity"),
            Tab(_("Second factors"), "password", "login_secondfactor"),
        ),
    ),
    Area(
        _("Rules"),
        "policy",
        (
            Tab(_("Rules about calls"), "policy", "tools_catalog_mcppolicyrule"),
            Tab(_("Guardrails"), "shield", "tools_catalog_mcpguardrail"),
            Tab(_("Quotas"), "data_usage", "invocations_mcpquota", "q"),
            Tab(_("Approval policies"), "rule", "invocations_mcptoolapproval"),
            Tab(_("Rate limits"), "speed", "sessions_app_ratelimitbucket", "l"),
            Tab(_("Redaction"), "visibility_off", "invocations_mcpredactionrule"),
            Tab(_("Error mappings"), "report", "invocations_mcperrormapping", "m"),
        ),
    ),
    Area(
        _("Evidence"),
        "history_edu",
        (
            Tab(_("Configuration history"), "history_edu", "sessions_app_auditevent", "h"),
            Tab(_("Blocks"), "link", "invocations_auditblock", "b"),
            Tab(_("Verifications"), "fact_check", "invocations_auditverification"),
            Tab(_("Tombstones"), "delete_history", "invocations_audittombstone"),
            Tab(_("Legal holds"), "gavel", "invocations_audithold"),
            Tab(_("Retention"), "auto_delete", "invocations_auditpolicy"),
            Tab(_("Shipping"), "outbox", "invocations_shippingtarget"),
        ),
    ),
    Area(
        _("Settings"),
        "settings",
        (
            Tab(_("My subscriptions"), "mark_email_unread", "telling_subscription"),
            Tab(_("Deliveries"), "outgoing_mail", "telling_delivery"),
            Tab(_("Server processes"), "memory", "sessions_app_serverprocess"),
            Tab(_("REST"), "data_object", "api-root", "r"),
        ),
    ),
)


def show(request: HttpRequest) -> list[dict[str, object]]:
    """Give the side bar, as the theme wants it."""
    items = [
        {"title": area.title, "icon": area.icon, "link": area.link, "active": area.is_here} for area in seen(request)
    ]
    return [{"items": items}]


def placed(request: HttpRequest) -> dict[str, object]:
    """Give templates the map, and the area in which their page stands: a context processor that asks nothing."""
    return {
        "hub_areas": SimpleLazyObject(lambda: seen(request)),
        "hub_area": SimpleLazyObject(lambda: next((area for area in seen(request) if area.is_here), None)),
    }


def seen(request: HttpRequest) -> list[ShownArea]:
    """Give the areas with what the person may see; computed once a request."""
    found: list[ShownArea] | None = getattr(request, "_hub_areas", None)
    if found is None:
        found = _seen(request)
        request._hub_areas = found  # type: ignore[attr-defined]
    return found


def _seen(request: HttpRequest) -> list[ShownArea]:
    if not hasattr(request, "user") or not admin.site.has_permission(request):
        return []
    offered = [(area, [tab for tab in area.tabs if tab.may_be_seen_by(request)]) for area in AREAS]
    links = {tab.link for _area, tabs in offered for tab in tabs}
    index = reverse("admin:index")
    here = max((link for link in links if link != index and request.path.startswith(link)), key=len, default="")
    if not here and request.path == index:
        here = index
    return [
        ShownArea(
            area.title,
            area.icon,
            [ShownTab(tab.title, tab.icon, tab.link, tab.key, tab.link == here) for tab in tabs],
            any(tab.link == here for tab in tabs),
        )
        for area, tabs in offered
        if tabs
    ]
