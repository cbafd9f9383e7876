"""The map of the console: few areas in the side bar, the pages of each as tabs, and where a page stands among them.

Pages that a person may not see are absent. `tests/mcphub/admin/test_admin_map.py` holds that every page of the admin
is here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLResolver, get_resolver, get_script_prefix, get_urlconf, reverse
from django.utils.functional import Promise, SimpleLazyObject
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from mcphub.console.chapters import CHAPTERS
from mcphub.console.documents.pages import address_of
from mcphub.console.documents.shelf import chapter
from mcphub.console.purposes import FIRST_STEPS, PURPOSES
from mcphub.parts import ConsoleArea, ConsolePage
from sessions_app.kit.features import declared
from sessions_app.workspaces.acting import PAGES, acting_of

Words = str | Promise


@lru_cache(maxsize=2048)
def _address(name: str, _resolver: URLResolver, _prefix: str, _language: str | None) -> str:
    """Return the address of a page, kept for each resolver, prefix and language: a page asks for sixty."""
    return reverse(name)


@dataclass(frozen=True)
class Tab:
    """A page of an area: `page` is `<app>_<model>` for the list of a table, else the name of an address."""

    title: Words
    icon: str
    page: str
    key: str = ""
    """The letter that leads there, after `g` (keys.js)."""
    words: Words = ""
    """Its other names, for the command menu."""
    about: Words = ""
    """Of a list: what its rows are for, or how they come about. Shown while it is empty."""
    docs: str = ""
    """Its chapter, where it is not in `CHAPTERS`."""
    permissions: tuple[str, ...] = ()
    """The permissions to open a page that is no list."""
    group: Words = ""
    """The menu among the tabs that has it; empty for a tab of its own."""
    first_step: str = ""
    """Of a list without a form for new rows: the `page` that leads to the first row."""

    @property
    def chapter(self) -> str:
        """Return the place in the documentation that explains it."""
        return self.docs or CHAPTERS.get(self.page, "")

    @property
    def is_list(self) -> bool:
        return "_" in self.page

    @property
    def link(self) -> str:
        name = f"admin:{self.page}_changelist" if self.is_list else self.page
        return _address(name, get_resolver(get_urlconf()), get_script_prefix(), get_language())

    def may_be_seen_by(self, request: HttpRequest) -> bool:
        address = f"{self.page}_changelist" if self.is_list else self.page
        if acting_of(request.user) is not None and address not in PAGES:
            return False
        app, _underscore, model = self.page.rpartition("_")
        return request.user.has_perms([f"{app}.view_{model}"] if self.is_list else self.permissions)


@dataclass(frozen=True)
class Area:
    """One entry of the side bar, with the name by which features place pages in it."""

    name: str
    title: Words
    icon: str
    tabs: tuple[Tab, ...] = ()


@dataclass(frozen=True)
class ShownHelp:
    """The chapter of a page: its title and address."""

    title: str
    link: str


@dataclass(frozen=True)
class ShownTab:
    title: Words
    icon: str
    link: str
    key: str
    is_here: bool = False
    words: Words = ""
    chapter: str = ""
    group: Words = ""

    @property
    def help(self) -> ShownHelp | None:
        found = chapter(self.chapter)
        if found is None:
            return None
        document, heading = found
        return ShownHelp(heading.title if heading else document.title, address_of(self.chapter))


@dataclass(frozen=True)
class ShownTabs:
    """One tab, or a menu of several."""

    tabs: list[ShownTab]

    @property
    def title(self) -> Words:
        return self.tabs[0].group

    @property
    def tab(self) -> ShownTab | None:
        return next((tab for tab in self.tabs if tab.is_here), None)


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
    def groups(self) -> list[ShownTabs]:
        """Return the tabs in order: those of one menu together, each other alone."""
        found = groupby(self.tabs, lambda tab: str(tab.group) or tab.link)
        return [ShownTabs(list(tabs)) for _name, tabs in found]

    @property
    def tab(self) -> ShownTab | None:
        return next((tab for tab in self.tabs if tab.is_here), None)


_CORE: tuple[Area, ...] = (
    Area(
        "overview",
        _("Overview"),
        "monitoring",
        (
            Tab(_("Overview"), "monitoring", "admin:index", "o", words=_("dashboard home health metrics statistics")),
            Tab(
                _("Connect a client"),
                "power",
                "connect",
                "x",
                words=_("client setup install vscode cursor claude url endpoint"),
            ),
        ),
    ),
    Area(
        "calls",
        _("Calls"),
        "receipt_long",
        (
            Tab(
                _("Calls"),
                "receipt_long",
                "invocations_mcptoolinvocation",
                "i",
                words=_("requests tool calls log logs trace csv export download"),
            ),
            Tab(_("Sessions"), "cable", "sessions_app_mcpsession", "s", words=_("connected clients")),
            Tab(_("Tasks"), "task_alt", "invocations_mcptask", "w"),
            Tab(_("Request envelopes"), "drafts", "invocations_mcprequestenvelope"),
        ),
    ),
    Area(
        "inbox",
        _("Inbox"),
        "inbox",
        (
            Tab(
                _("Upstream offers"),
                "move_to_inbox",
                "tools_catalog_mcpupstreamtool",
                "u",
                words=_("discovered tools pending changes new definitions"),
            ),
            Tab(
                _("Waiting changes"),
                "group_add",
                "sessions_app_waitingchange",
                words=_("second person four eyes review"),
            ),
        ),
    ),
    Area(
        "catalogue",
        _("Catalogue"),
        "build",
        (
            Tab(
                _("Tools"),
                "build",
                "tools_catalog_mcptooldefinition",
                "t",
                words=_("functions timeout annotations enable disable"),
            ),
            Tab(_("Toolsets"), "category", "tools_catalog_mcptoolset", words=_("bundle collection subset endpoint")),
            Tab(_("Resources"), "description", "tools_catalog_mcpresource"),
            Tab(_("Prompts"), "chat", "tools_catalog_mcpprompt"),
        ),
    ),
    Area(
        "connections",
        _("Connections"),
        "lan",
        (
            Tab(
                _("Connections"),
                "lan",
                "tools_catalog_mcpconnection",
                "c",
                words=_("upstream mcp server integration connector timeout"),
            ),
            Tab(_("Services"), "api", "tools_catalog_httpservice", words=_("api http openapi swagger egress outbound")),
            Tab(_("Secrets"), "lock", "tools_catalog_secret", words=_("credentials password token vault")),
            Tab(
                _("Allowed hosts"),
                "vpn_lock",
                "tools_catalog_allowedhost",
                words=_("egress allow list private address firewall"),
            ),
            Tab(
                _("Launch profiles"),
                "terminal",
                "tools_catalog_launchprofile",
                words=_("stdio command local server npx docker"),
            ),
        ),
    ),
    Area(
        "access",
        _("Access"),
        "key",
        (
            Tab(_("API keys"), "key", "sessions_app_apikey", "k", words=_("token bearer service account")),
            Tab(_("People"), "person", "auth_user", words=_("user account member employee")),
            Tab(_("Groups"), "group", "auth_group", words=_("role permission rbac team access")),
            Tab(
                _("Workspaces"), "workspaces", "sessions_app_mcpworkspace", words=_("team tenant project organization")
            ),
        ),
    ),
    Area(
        "rules",
        _("Rules"),
        "policy",
        (
            Tab(
                _("Rate limits"),
                "speed",
                "sessions_app_ratelimitbucket",
                "l",
                words=_("throttle throttling 429 limits"),
                group=_("Limits"),
            ),
            Tab(
                _("Redaction"),
                "visibility_off",
                "invocations_mcpredactionrule",
                words=_("pii mask privacy sensitive gdpr"),
                group=_("Results"),
            ),
            Tab(
                _("Error mappings"),
                "report",
                "invocations_mcperrormapping",
                "m",
                words=_("messages codes"),
                group=_("Results"),
            ),
        ),
    ),
    Area(
        "evidence",
        _("Audit log"),
        "history_edu",
        (
            Tab(
                _("Configuration history"),
                "history_edu",
                "sessions_app_auditevent",
                "h",
                words=_("audit log activity log changes who changed"),
            ),
            Tab(_("Blocks"), "link", "invocations_auditblock", "b", words=_("audit ledger seal integrity proof")),
            Tab(_("Verifications"), "fact_check", "invocations_auditverification"),
            Tab(_("Tombstones"), "delete_history", "invocations_audittombstone"),
            Tab(_("Legal holds"), "gavel", "invocations_audithold", words=_("litigation keep")),
            Tab(_("Retention"), "auto_delete", "invocations_auditpolicy", words=_("delete old data days storage disk")),
        ),
    ),
    Area(
        "settings",
        _("Settings"),
        "settings",
        (
            Tab(
                _("Settings"),
                "tune",
                "hub-settings",
                words=_("configuration environment variables env limits version upgrade smtp proxy disk features"),
                permissions=("sessions_app.view_settings",),
            ),
            Tab(
                _("Diagnostics"),
                "stethoscope",
                "hub-diagnostics",
                words=_("doctor check problems health troubleshooting"),
                permissions=("sessions_app.view_settings",),
            ),
            Tab(
                _("Server processes"),
                "memory",
                "sessions_app_serverprocess",
                words=_("workers version upgrade health status configuration"),
            ),
            Tab(
                _("REST"),
                "data_object",
                "api-root",
                "r",
                words=_("api docs documentation swagger openapi help reference"),
            ),
        ),
    ),
)


@lru_cache(maxsize=1)
def areas() -> tuple[Area, ...]:
    """Return the areas with their tabs in order. Those of the core have the places 10, 20 and so on."""
    placed = [(number * 10, area) for number, area in enumerate(_CORE, 1)]
    placed += [(each.place, Area(each.name, each.title, each.icon)) for each in declared(ConsoleArea)]
    return tuple(
        replace(area, tabs=_tabs(area)) for _place, area in sorted(placed, key=lambda each: each[0]) if _tabs(area)
    )


def _tabs(area: Area) -> tuple[Tab, ...]:
    placed = [(number * 10, tab) for number, tab in enumerate(area.tabs, 1)]
    pages = (each for each in declared(ConsolePage) if each.area == area.name)
    placed += [(each.place, _tab(each)) for each in pages]
    return tuple(tab for _place, tab in sorted(placed, key=lambda each: each[0]))


def _tab(part: ConsolePage) -> Tab:
    return Tab(
        part.title,
        part.icon,
        part.page,
        part.key,
        part.words,
        part.about,
        part.docs,
        part.permissions,
        part.group,
        part.first_step,
    )


def show(request: HttpRequest) -> list[dict[str, object]]:
    """Return the side bar, as the theme wants it."""
    items = [
        {"title": area.title, "icon": area.icon, "link": area.link, "active": area.is_here} for area in seen(request)
    ]
    return [{"items": items}]


def placed(request: HttpRequest) -> dict[str, object]:
    """Return templates the map, and the area in which their page stands: a context processor that asks nothing."""
    return {
        "hub_areas": SimpleLazyObject(lambda: seen(request)),
        "hub_area": SimpleLazyObject(lambda: next((area for area in seen(request) if area.is_here), None)),
    }


def seen(request: HttpRequest) -> list[ShownArea]:
    """Return the areas that the person may see; computed once per request."""
    found: list[ShownArea] | None = getattr(request, "_hub_areas", None)
    if found is None:
        found = _seen(request)
        request._hub_areas = found  # type: ignore[attr-defined]
    return found


@lru_cache(maxsize=1)
def _purposes() -> dict[str, Words]:
    return PURPOSES | {tab.page: tab.about for area in areas() for tab in area.tabs if tab.about}


def purpose(page: str) -> Words:
    """Return the purpose of the rows of a list, by `<app>_<model>`; empty where nobody wrote it."""
    return _purposes().get(page, "")


@lru_cache(maxsize=1)
def _first_steps() -> dict[str, Tab]:
    tabs = {tab.page: tab for area in areas() for tab in area.tabs}
    named = FIRST_STEPS | {page: tab.first_step for page, tab in tabs.items() if tab.first_step}
    return {page: tabs[step] for page, step in named.items() if step in tabs}


def first_step(request: HttpRequest, page: str) -> Tab | None:
    """Return the page that leads to a list's first row, if the person may open it."""
    step = _first_steps().get(page)
    return step if step is not None and step.may_be_seen_by(request) else None


def _seen(request: HttpRequest) -> list[ShownArea]:
    if not hasattr(request, "user") or not admin.site.has_permission(request):
        return []
    offered = [(area, [(tab, tab.link) for tab in area.tabs if tab.may_be_seen_by(request)]) for area in areas()]
    links = {link for _area, tabs in offered for _tab, link in tabs}
    index = reverse("admin:index")
    here = max((link for link in links if link != index and request.path.startswith(link)), key=len, default="")
    if not here and request.path == index:
        here = index
    return [
        ShownArea(
            area.title,
            area.icon,
            [
                ShownTab(tab.title, tab.icon, link, tab.key, link == here, tab.words, tab.chapter, tab.group)
                for tab, link in tabs
            ],
            any(link == here for _tab, link in tabs),
        )
        for area, tabs in offered
        if tabs
    ]
