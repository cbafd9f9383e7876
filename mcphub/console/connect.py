"""The page that leads a client to its first call: the snippet, a key, and the call as it arrives.

It stands in the admin, so that its scripts are under the admin's policy; `/connect` leads to it. It asks for a login:
the snippets are in docs/start/clients.md for everybody, and calls are private.
"""

from __future__ import annotations

from collections.abc import Iterator

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseBase, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _

from invocations.admin.live import still_sees
from invocations.models import McpToolInvocation
from invocations.rest import live
from mcphub import clients
from mcphub.console import arrivals
from sessions_app.keys.making import default_end
from sessions_app.kit.shown import clipped, duration
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import ServerBusy
from tools_catalog.models import McpToolDefinition

SEES_CALLS = "invocations.view_mcptoolinvocation"
MAKES_KEYS = "sessions_app.add_apikey"
SEES_KEYS = "sessions_app.view_apikey"
_STDIO = "stdio"
_FIRST = "vscode"
_MOST_KEYS = 100
_LONGEST_KEY = 200
"""Characters of a key's name, and of a pasted key."""


class NewKey(forms.Form):
    name = forms.CharField(max_length=100, strip=True)
    chat = forms.BooleanField(required=False)


def connect_view(request: HttpRequest) -> HttpResponse:
    """Show the snippets; a POST creates a key first and shows it in every snippet, once."""
    made, text, error = None, "", ""
    if request.method == "POST":
        if not request.user.has_perm(MAKES_KEYS):
            raise PermissionDenied
        form = NewKey(request.POST)
        if form.is_valid():
            made, text = _make(request, form)
        else:
            error = _("Enter a name of at most 100 characters for the key: who or what will use it.")
    url = settings.MCPHUB_PUBLIC_URL.rstrip("/") + "/mcp"
    links = clients.install_links(url)
    shown = _snippets(url, text or clients.PLACEHOLDER)
    signing_in = clients.address_only(url) if settings.MCPHUB_SIGN_IN else []
    chosen = request.POST.get("client") or request.GET.get("client", "")
    if chosen not in {each.key for each in shown}:
        chosen = _FIRST
    may_see = request.user.has_perm(SEES_CALLS)
    context = {
        **admin.site.each_context(request),
        "title": _("Connect a client"),
        "snippets": shown,
        "signing_in": [(each, _known_by(each.key)) for each in signing_in],
        "keyed_alone": sorted({each.key for each in shown} - {each.key for each in signing_in}),
        "chosen": chosen,
        "url": url,
        "installs": [(title, links[key]) for key, title in clients.INSTALLS.items()],
        "on_the_web": clients.ON_THE_WEB,
        "is_public": url.startswith("https://"),
        "key": made,
        "text": text,
        "key_error": error,
        "placeholder": clients.PLACEHOLDER,
        "may_make": request.user.has_perm(MAKES_KEYS),
        "may_see": may_see,
        "days": settings.MCPHUB_KEY_DAYS,
        "name": request.POST.get("name", ""),
        "has_tools": McpToolDefinition.objects.filter(enabled=True).exists(),
        "elsewhere": _elsewhere(request),
        "keys": _keys(request, made) if may_see else [],
        "watched": made.pk if made else _number(request.GET.get("key", "")),
        "after": live.settling.look() if may_see else 0,
        "since": timezone.now().isoformat(),
        "calls": reverse("admin:invocations_mcptoolinvocation_changelist"),
    }
    response = TemplateResponse(request, "admin/hub/connect.html", context)
    add_never_cache_headers(response)
    response["Referrer-Policy"] = "no-referrer" if text else "same-origin"
    return response


def _known_by(key: str) -> str:
    """Return how a client identifies itself to the hub, and problems with that here."""
    manner = clients.SIGN_IN[key][0]
    if manner == "registration" and not settings.MCPHUB_CLIENT_REGISTRATION:
        return _(
            "This client needs dynamic registration, which this hub doesn't allow "
            "(MCPHUB_CLIENT_REGISTRATION). Create a key for it, or allow registration."
        )
    if manner == "registration":
        return _("It registers dynamically. Nothing to configure.")
    return _(
        "It identifies itself with a client ID metadata document, which the hub must be able to fetch; otherwise it "
        "registers dynamically. Nothing to configure."
    )


def _make(request: HttpRequest, form: NewKey) -> tuple[ApiKey, str]:
    scopes = [*ApiKey.DEFAULT_SCOPES, *([ApiKey.Scope.CHAT.value] if form.cleaned_data["chat"] else [])]
    key, text = ApiKey.issue(
        form.cleaned_data["name"],
        scopes=scopes,
        reason=str(_("Created on the Connect page.")),
        created_by=request.user,
        expires_at=default_end(),
    )
    return key, text


def _snippets(url: str, key: str) -> list[clients.ClientSnippet]:
    """Return every client's snippet, that of the client that starts the hub itself last."""
    made = [*clients.snippets(url, key), *clients.programs(url, key, _first_call())]
    command = clients.stdio_command(settings.MCPHUB_DATA_DIR)
    started = clients.stdio_snippets(command, {"MCPHUB_API_KEY": key})
    text = next(each.text for each in started if each.key == "claude")
    where = _("any client on the hub's own machine: it starts the hub itself, without a server")
    return [*made, clients.ClientSnippet(key=_STDIO, title="stdio", where=where, text=text)]


def _first_call() -> clients.FirstCall:
    """Choose the tool of a program's first call: the shipped one, or one without arguments and effects."""
    enabled = McpToolDefinition.objects.filter(enabled=True)
    if enabled.filter(name="add").exists():
        return clients.FirstCall()
    for name, schema in enabled.filter(read_only=True).order_by("name").values_list("name", "input_schema")[:200]:
        if not schema.get("required"):
            return clients.FirstCall(tool=name, arguments={})
    return clients.FirstCall()


def _elsewhere(request: HttpRequest) -> str:
    """Return the address of this page if clients use another one."""
    here = f"{request.scheme}://{request.get_host()}"
    return "" if here == settings.MCPHUB_PUBLIC_URL.rstrip("/") else here


def _keys(request: HttpRequest, made: ApiKey | None) -> list[tuple[int, str]]:
    """Return the keys to wait for; without the permission to see keys, the person's new one."""
    if not request.user.has_perm(SEES_KEYS):
        return [(made.pk, clipped(made, _LONGEST_KEY))] if made else []
    usable = ApiKey.objects.filter(revoked_at__isnull=True).order_by("-pk")[:_MOST_KEYS]
    return [(key.pk, clipped(key, _LONGEST_KEY)) for key in usable]


def _principal(key: int | None) -> str:
    """Return the principal of a key; empty for no key, and an impossible one for a deleted key."""
    if key is None:
        return ""
    found = ApiKey.objects.filter(pk=key).only("owner_id").first()
    return found.principal if found is not None else f"key:{key}"


def _number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdecimal() and len(word) < 19 else None


def arrivals_view(request: HttpRequest, after: int) -> HttpResponseBase:
    """Stream arrivals: calls after a sequence, and new sessions and rejected requests.

    `?key=` selects calls and sessions; rejected requests belong to no known caller, so all are sent.
    """
    if not request.user.has_perm(SEES_CALLS):
        raise PermissionDenied
    key = _number(request.GET.get("key", ""))
    if key is None and request.GET.get("key"):
        return HttpResponseBadRequest(_("Enter the key's number, or leave it out."))
    try:
        live.check_room()
    except ServerBusy as error:
        return HttpResponse(str(error), status=503, headers={"Retry-After": "10"})
    principal = _principal(key)
    rows = McpToolInvocation.objects.defer("arguments", "result", "error")
    last = _number(request.headers.get("Last-Event-ID", ""))
    beside = arrivals.Arrivals(
        principal, sessions=request.user.has_perm("sessions_app.view_mcpsession"), since=request.GET.get("since", "")
    )
    streamed = live.events(
        rows.filter(principal=principal) if principal else rows,
        min(after, 2**63 - 1) if last is None else last,
        _told,
        lambda: still_sees(request),
        beside.look,
    )
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingHttpResponse(streamed, content_type="text/event-stream", headers=headers)


def _told(found: list[McpToolInvocation]) -> Iterator[dict[str, object]]:
    for row in found:
        yield {
            "tool": clipped(row.what, 64),
            "ok": row.status == "ok",
            "code": row.error_code,
            "client": clipped(f"{row.client_name} {row.client_version}".strip(), 80),
            "caller": clipped(row.caller_label or row.principal, 80),
            "took": duration(row.duration_ms),
            "transport": row.transport,
            "at": timezone.localtime(row.started_at).strftime("%H:%M:%S"),
            "link": reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]),
        }


urlpatterns = [
    path("connect/", admin.site.admin_view(connect_view), name="connect"),
    path("connect/live/<int:after>/", admin.site.admin_view(arrivals_view), name="connect_live"),
]
