"""What the palette (Ctrl+K) finds: pages and deeds of the console, and rows of the hub by their names and ids.

Every kind is sought only where the person may see its list. The number of statements is fixed, and so is their time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db.models import Case, IntegerField, Q, QuerySet, When
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path, reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from invocations.models import McpToolInvocation
from mcphub.console import navigation
from sessions_app.kit.database import TookTooLong, at_most
from sessions_app.kit.shown import clipped
from sessions_app.models import ApiKey, McpSession
from tools_catalog.admin import imports
from tools_catalog.admin.configured import rights
from tools_catalog.models import HttpService, McpConnection, McpPrompt, McpResource, McpToolDefinition, McpToolset

MOST_OF_A_KIND = 6
MOST_CHARACTERS = 100
"""Of what is sought; the rest is not looked at."""
_MOST_WORDS = 6
_SECONDS = 0.5
_NEWEST_SESSIONS = 500
"""Sessions that are looked through by name: their table grows without end, and has no index by words."""
_PRINCIPAL = re.compile(r"(key|user):([0-9]{1,18})")
_Words = str | Promise


@dataclass(frozen=True)
class PaletteFinding:
    title: str
    about: str
    link: str
    icon: str


@dataclass(frozen=True)
class Deed:
    """Something to do that has a page of its own; `words` are other names of it."""

    title: _Words
    icon: str
    page: str
    permissions: tuple[str, ...] = ()
    words: _Words = ""
    query: str = ""

    @property
    def link(self) -> str:
        return self.page if self.page.startswith("#") else reverse(self.page) + self.query


@dataclass(frozen=True)
class PaletteKind:
    """Rows of one table that the palette knows: where their words stand, and what it says of one."""

    title: _Words
    icon: str
    model: type[Any]
    columns: tuple[str, ...]
    shown: Callable[[Any], tuple[object, object]]
    principal: str = ""
    """What its rows are called as principals: `key:1`."""

    def find(self, words: list[str]) -> Iterable[PaletteFinding]:
        """Give the rows in which every word stands, those first whose name begins with the first word."""
        rows = self.model._default_manager.filter(reduce(and_, (self._holds(word) for word in words)))
        first = self.columns[0]
        begins = Case(When(**{f"{first}__istartswith": words[0]}, then=0), default=1, output_field=IntegerField())
        ranked: QuerySet[Any] = rows.order_by(begins, first)
        return (self._told(row) for row in ranked[:MOST_OF_A_KIND])

    def _holds(self, word: str) -> Q:
        named = _PRINCIPAL.fullmatch(word)
        if named and named[1] == self.principal:
            return Q(pk=int(named[2]))
        return reduce(or_, (Q(**{f"{column}__icontains": word}) for column in self.columns))

    def _told(self, row: Any) -> PaletteFinding:
        title, about = self.shown(row)
        link = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[quote(row.pk)])
        return PaletteFinding(clipped(title, 80), clipped(about or "", 80), link, self.icon)


KINDS: tuple[PaletteKind, ...] = (
    PaletteKind(
        _("Tools"),
        "build",
        McpToolDefinition,
        ("name", "title"),
        lambda row: (row.name, row.title if row.enabled else _t("disabled")),
    ),
    PaletteKind(
        _("Connections"), "lan", McpConnection, ("slug", "title", "url"), lambda row: (row.slug, row.title or row.url)
    ),
    PaletteKind(
        _("Services"), "api", HttpService, ("slug", "title", "url"), lambda row: (row.slug, row.title or row.url)
    ),
    PaletteKind(_("Toolsets"), "category", McpToolset, ("slug", "title"), lambda row: (row.slug, row.title)),
    PaletteKind(_("Resources"), "description", McpResource, ("name", "uri", "title"), lambda row: (row.name, row.uri)),
    PaletteKind(_("Prompts"), "chat", McpPrompt, ("name", "title"), lambda row: (row.name, row.title)),
    PaletteKind(
        _("API keys"),
        "key",
        ApiKey,
        ("name", "prefix", "service", "owner__username"),
        lambda row: (row.name, f"{row.prefix}… key:{row.pk}"),
        "key",
    ),
    PaletteKind(
        _("People"),
        "person",
        User,
        ("username", "first_name", "last_name", "email"),
        lambda row: (row.username, f"{row.get_full_name() or row.email} user:{row.pk}".strip()),
        "user",
    ),
)
_CALLS = "admin:invocations_mcptoolinvocation_changelist"
DEEDS: tuple[Deed, ...] = (
    Deed(
        _("Show failed calls"),
        "error",
        _CALLS,
        ("invocations.view_mcptoolinvocation",),
        _("errors"),
        "?status__exact=error",
    ),
    Deed(
        _("Add a connection"),
        "add_link",
        "admin:tools_catalog_mcpconnection_add",
        ("tools_catalog.add_mcpconnection",),
        _("new upstream server"),
    ),
    Deed(
        _("Paste and connect"),
        "content_paste",
        "admin:connection_import",
        rights.NEEDED,
        _("address command configuration"),
    ),
    Deed(_("Choose a known server"), "menu_book", "admin:connection_known", rights.NEEDED, _("new connection")),
    Deed(
        _("Import the description of an API"), "upload_file", "admin:service_import", imports.NEEDED, "OpenAPI Postman"
    ),
    Deed(
        _("Add a tool"),
        "add_box",
        "admin:tools_catalog_mcptooldefinition_add",
        ("tools_catalog.add_mcptooldefinition",),
        _("new"),
    ),
    Deed(
        _("Catalogue as a file"),
        "file_save",
        "admin:catalogue_bundle",
        ("tools_catalog.view_mcptooldefinition",),
        _("bundle export import"),
    ),
    Deed(
        _("Make an API key"),
        "key",
        "admin:sessions_app_apikey_add",
        ("sessions_app.add_apikey",),
        _("new token access"),
    ),
    Deed(_("Invite somebody"), "mail", "admin:login_invitation_add", ("login.add_invitation",), _("new person user")),
    Deed(_("Add a person"), "person_add", "admin:auth_user_add", ("auth.add_user",), _("new user account")),
    Deed(
        _("Add a rule about calls"),
        "policy",
        "admin:tools_catalog_mcppolicyrule_add",
        ("tools_catalog.add_mcppolicyrule",),
        _("new policy deny ask allow"),
    ),
    Deed(
        _("Try rules about calls"),
        "science",
        "admin:policy_bench",
        ("tools_catalog.view_mcppolicyrule",),
        _("test bench policy"),
    ),
    Deed(
        _("Verify the audit"),
        "fact_check",
        "admin:audit_integrity",
        ("invocations.view_auditblock",),
        _("integrity proof"),
    ),
    Deed(_("Usage of the chat"), "bar_chart", "admin:chat_usage", ("chat.view_query",), _("tokens")),
    Deed(_("My access"), "badge", "my-access", (), _("own keys clients account")),
    Deed(_("Change my password"), "password", "admin:password_change", (), _("own login")),
    Deed(_("Keyboard"), "keyboard", "#hub-keys", (), _("keys shortcuts help")),
)


@require_safe
def find_view(request: HttpRequest) -> HttpResponse:
    """Give what the words of `q` find, in groups; without words the pages and deeds."""
    sought = request.GET.get("q", "").replace("\0", "").strip()[:MOST_CHARACTERS]
    words = sought.split()[:_MOST_WORDS]
    groups, is_whole = _of_the_console(request, words), True
    if words:
        try:
            with at_most(_SECONDS):
                for title, found in _of_the_hub(request, sought, words):
                    groups.append((title, found))
        except TookTooLong:
            is_whole = False
        if len(words) == 1 and request.user.has_perm("invocations.view_mcptoolinvocation"):
            link = f"{reverse(_CALLS)}?{urlencode({'q': sought})}"
            about = _t("by the id of a call, a request, a session or a trace")
            groups.append(
                (
                    _t("Search"),
                    [
                        PaletteFinding(
                            _t("Calls with the id %(id)s") % {"id": clipped(sought, 40)}, about, link, "search"
                        )
                    ],
                )
            )
    answer = {
        "groups": [{"title": str(title), "items": [vars(each) for each in found]} for title, found in groups if found],
        "note": "" if is_whole else _t("The search took too long. Write more of the name."),
    }
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})


_Groups = list[tuple[_Words, list[PaletteFinding]]]


def _of_the_console(request: HttpRequest, words: list[str]) -> _Groups:
    pages = [
        PaletteFinding(str(tab.title), str(area.title), tab.link, tab.icon)
        for area in navigation.seen(request)
        for tab in area.tabs
        if _holds_all(words, tab.title, area.title)
    ]
    deeds = [
        PaletteFinding(str(deed.title), "", deed.link, deed.icon)
        for deed in DEEDS
        if request.user.has_perms(deed.permissions) and _holds_all(words, deed.title, deed.words)
    ]
    return [(_t("Go to"), pages), (_t("Do"), deeds)]


def _holds_all(words: list[str], *texts: _Words) -> bool:
    whole = " ".join(str(text) for text in texts).lower()
    return all(word.lower() in whole for word in words)


def _of_the_hub(request: HttpRequest, sought: str, words: list[str]) -> Iterable[tuple[_Words, list[PaletteFinding]]]:
    for kind in KINDS:
        if request.user.has_perm(f"{kind.model._meta.app_label}.view_{kind.model._meta.model_name}"):
            yield kind.title, list(kind.find(words))
    if request.user.has_perm("sessions_app.view_mcpsession"):
        yield _("Sessions"), _sessions(sought, words)
    if request.user.has_perm("invocations.view_mcptoolinvocation"):
        yield _("Calls"), _calls(sought)


def _sessions(sought: str, words: list[str]) -> list[PaletteFinding]:
    """Look at the newest sessions, and at the one that has the id."""
    columns = ("session_id", "client_name", "caller_label", "principal")
    rows = list(McpSession.objects.order_by("-created_at").values_list(*columns)[:_NEWEST_SESSIONS])
    if len(words) == 1 and sought not in {row[0] for row in rows}:
        rows += McpSession.objects.filter(pk=sought).values_list(*columns)
    found = [row for row in rows if _holds_all(words, *row)][:MOST_OF_A_KIND]
    return [
        PaletteFinding(
            clipped(session_id, 40),
            clipped(f"{client} {label or principal}".strip(), 80),
            reverse("admin:sessions_app_mcpsession_change", args=[quote(session_id)]),
            "cable",
        )
        for session_id, client, label, principal in found
    ]


def _calls(sought: str) -> list[PaletteFinding]:
    """Give the call of an id, or of a number in the sequence."""
    by_id = Q(invocation_id=sought)
    number = sought.removeprefix("#")
    if number.isascii() and number.isdecimal() and len(number) <= 18:
        by_id |= Q(pk=int(number))
    rows = McpToolInvocation.objects.filter(by_id).defer("arguments", "result", "error").order_by("-id")
    return [
        PaletteFinding(
            clipped(row.what, 64),
            clipped(f"#{row.pk} {row.get_status_display()} {row.caller_label or row.principal}", 80),
            reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]),
            "receipt_long",
        )
        for row in rows[:MOST_OF_A_KIND]
    ]


urlpatterns = [path("find/", admin.site.admin_view(find_view), name="palette")]
