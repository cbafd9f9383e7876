"""The results of the command menu (Ctrl+K): pages and actions of the console, and rows of the hub by name and ID.

Every kind is sought only where the person may see its list. The number of statements is fixed, and so is their time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db.models import Case, IntegerField, Q, QuerySet, When
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path, reverse
from django.utils import translation
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from invocations.models import McpToolInvocation
from mcphub.console import navigation
from mcphub.console.documents.finding import found_in_documents
from mcphub.console.synonyms import readings
from mcphub.parts import PaletteAction
from sessions_app.kit.database import TookTooLong, at_most
from sessions_app.kit.features import declared
from sessions_app.kit.shown import clipped
from sessions_app.models import ApiKey, McpSession
from tools_catalog.models import HttpService, McpConnection, McpPrompt, McpResource, McpToolDefinition, McpToolset

MOST_OF_A_KIND = 6
MOST_CHARACTERS = 100
"""Of the query; the rest is ignored."""
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
class PaletteKind:
    """Rows of one table in the command menu: their searched columns and their caption."""

    title: _Words
    icon: str
    model: type[Any]
    columns: tuple[str, ...]
    shown: Callable[[Any], tuple[object, object]]
    principal: str = ""
    """The form of its rows as principals: `key:1`."""

    def find(self, words: list[str]) -> Iterable[PaletteFinding]:
        """Return the rows that contain every word, those first whose names begin with the first word."""
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
_CORE: tuple[PaletteAction, ...] = (
    PaletteAction(
        _("Show failed calls"),
        "error",
        _CALLS,
        ("invocations.view_mcptoolinvocation",),
        _("errors"),
        "?status__exact=error",
    ),
    PaletteAction(
        _("Add a connection"),
        "add_link",
        "admin:tools_catalog_mcpconnection_add",
        ("tools_catalog.add_mcpconnection",),
        _("new upstream server"),
    ),
    PaletteAction(
        _("Add a tool"),
        "add_box",
        "admin:tools_catalog_mcptooldefinition_add",
        ("tools_catalog.add_mcptooldefinition",),
        _("new"),
    ),
    PaletteAction(
        _("Catalogue as a file"),
        "file_save",
        "admin:catalogue_bundle",
        ("tools_catalog.view_mcptooldefinition",),
        _("bundle export import backup restore"),
    ),
    PaletteAction(
        _("Create an API key"),
        "key",
        "admin:sessions_app_apikey_add",
        ("sessions_app.add_apikey",),
        _("new token access"),
    ),
    PaletteAction(_("Add a person"), "person_add", "admin:auth_user_add", ("auth.add_user",), _("new user account")),
    PaletteAction(
        _("Verify the audit log"),
        "fact_check",
        "admin:audit_integrity",
        ("invocations.view_auditblock",),
        _("integrity proof"),
    ),
    PaletteAction(
        _("My access"),
        "badge",
        "my-access",
        (),
        _("own keys clients account profile logout log out sign out theme language tools"),
    ),
    PaletteAction(_("Change my password"), "password", "admin:password_change", (), _("own login reset")),
    PaletteAction(_("Documentation"), "menu_book", "docs-shelf", (), _("docs help manual guide handbook")),
    PaletteAction(_("Keyboard"), "keyboard", "#hub-keys", (), _("keys shortcuts help hotkeys")),
)


@require_safe
def find_view(request: HttpRequest) -> HttpResponse:
    """Return the matches of the words of `q`, in groups; without words the pages and actions."""
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
        groups.append(groups.pop(_DOCUMENTS))  # who writes a tool's name wants the tool
        if len(words) == 1 and request.user.has_perm("invocations.view_mcptoolinvocation"):
            link = f"{reverse(_CALLS)}?{urlencode({'q': sought})}"
            about = _t("by call, request, session or trace ID")
            groups.append(
                (
                    _t("Search"),
                    [
                        PaletteFinding(
                            _t("Calls with the ID %(id)s") % {"id": clipped(sought, 40)}, about, link, "search"
                        )
                    ],
                )
            )
    answer = {
        "groups": [{"title": str(title), "items": [vars(each) for each in found]} for title, found in groups if found],
        "note": "" if is_whole else _t("The search took too long. Enter more of the name."),
    }
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})


_DOCUMENTS = 2
"""The place of documents among the groups of the console."""
_Groups = list[tuple[_Words, list[PaletteFinding]]]


def _of_the_console(request: HttpRequest, words: list[str]) -> _Groups:
    meant = readings(" ".join(words)) if words else [[]]
    pages = [
        PaletteFinding(str(tab.title), str(area.title), tab.link, tab.icon)
        for area in navigation.seen(request)
        for tab in area.tabs
        if _is_meant(meant, tab.title, area.title, tab.words)
    ]
    deeds = [
        PaletteFinding(str(deed.title), "", _link_of(deed), deed.icon)
        for deed in (*_CORE, *declared(PaletteAction))
        if request.user.has_perms(deed.permissions) and _is_meant(meant, deed.title, deed.words)
    ]
    documents = [
        PaletteFinding(clipped(found.title, 80), clipped(found.about, 80), found.link, "menu_book")
        for found in found_in_documents(meant, MOST_OF_A_KIND)
    ]
    return [(_t("Go to"), pages), (_t("Actions"), deeds), (_t("Documentation"), documents)]


def _link_of(action: PaletteAction) -> str:
    return action.page if action.page.startswith("#") else reverse(action.page) + action.query


def _is_meant(meant: list[list[str]], *texts: _Words) -> bool:
    """Return whether all words of one of the readings are in the texts, in whichever of the hub's languages."""
    found = list(texts)
    for language, _name in settings.LANGUAGES if meant[0] else ():
        with translation.override(language):
            found += [str(text) for text in texts]
    return any(_holds_all(words, *found) for words in meant)


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
    """Return the call of an id, or of a number in the sequence."""
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
