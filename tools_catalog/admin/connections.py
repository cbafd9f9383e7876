"""The pages of connections to other MCP servers, and of the commands that some of them run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Field, Model, Q, QuerySet, prefetch_related_objects
from django.forms import ModelForm, TypedChoiceField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app import bus
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, mark, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.ranked import Figure
from sessions_app.kit.shown import clipped, mono, span, visible
from sessions_app.workspaces.pages import WorkspacePages
from tools_catalog import usage
from tools_catalog.admin import connection_test
from tools_catalog.admin.accounts import shown_accounts
from tools_catalog.admin.figures import FIGURES, FigureColumns, figure_of, of_connections
from tools_catalog.admin.launch import shown_held
from tools_catalog.filters import CONNECTION_FILTERS
from tools_catalog.models import McpConnection, McpConnectionLink, McpUpstreamTool
from tools_catalog.models.upstream import may_launch

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    _FormBase = forms.ModelForm[McpConnection]
else:
    _FormBase = forms.ModelForm

_TOLD_OF = {
    "approved": _("%(count)d enabled"),
    "new": _("%(count)d new"),
    "changed": _("%(count)d changed"),
    "refused": _("%(count)d rejected by the hub"),
    "gone": _("%(count)d no longer offered"),
    "rejected": _("%(count)d rejected"),
}
"""State of its offers -> their number."""
_WAITING = ("state__in=new,changed,refused",)
STATUS_MARKS = {"connecting": "wait", "connected": "good", "disconnected": "off", "error": "bad"}
_CHANGED = moment("updated_at", _("changed"))
_CONNECTED = moment("connected_at", _("connected"))
_RECONNECTED = moment("reconnected_at", _("last reconnected"))
_USED = moment("last_used", _("last used"))
_LISTED = moment("discovered_at", _("tools listed"))
_STDIO = McpConnection.Transport.STDIO


def may_write(user: User | AnonymousUser, transport: str) -> bool:
    """Return whether the person may save, and so test, a connection of this transport: stdio runs a program."""
    return transport != _STDIO or may_launch(user)


class ConnectionForm(_FormBase):
    user: Any = None

    class Meta:
        model = McpConnection
        exclude: list[str] = []

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        transport = cleaned.get("transport") or self.instance.transport
        if not may_write(self.user, transport):
            self.add_error(None, _t("A connection that runs a program needs the permission of an upstream manager."))
        return cleaned


def _named(row: McpConnection) -> SafeString:
    if not row.title:
        return mono(row.slug)
    return format_html('{}<br><span class="hub-cell hub-subtle">{}</span>', mono(row.slug), clipped(row.title, 60))


@admin.register(McpConnection)
class McpConnectionAdmin(WorkspacePages, FigureColumns, RecordedAdmin):
    form = ConnectionForm
    list_display = ["shown_slug", "transport", "shown_status", "shown_tools", "policy", _LISTED, *FIGURES]
    list_display_links = ["shown_slug"]
    filters = CONNECTION_FILTERS
    search_fields = ["slug", "title", "url"]
    autocomplete_fields = ["groups"]
    page_facts = ("title", "shown_status", "transport", "url", "policy", "shown_tools", "shown_accounts", _LISTED)
    actions = ["refresh_selected"]
    actions_detail = ["connect_account", "test_it", "refresh_it", "show_tools", "reconnect_it", "drain_it", "enable_it"]
    readonly_fields = [
        "shown_status",
        _CONNECTED,
        _RECONNECTED,
        _USED,
        "shown_links",
        "shown_confinement",
        "shown_accounts",
        "shown_tools",
        _LISTED,
        _CHANGED,
    ]
    fieldsets = [
        (None, {"fields": ["slug", "title", "enabled"]}),
        (
            _("State"),
            {
                "fields": [
                    "shown_status",
                    _CONNECTED,
                    _RECONNECTED,
                    _USED,
                    "shown_links",
                    "shown_confinement",
                    "shown_tools",
                    _LISTED,
                ]
            },
        ),
        (_("Address"), {"fields": ["transport", "url", "headers", "profile", "sessions", "era"]}),
        (
            _("Authentication"),
            {
                "fields": [
                    "account",
                    "issuer",
                    "client_id",
                    "client_secret",
                    "account_scopes",
                    "sends_resource",
                    "identity",
                    "lists_per_person",
                    "shown_accounts",
                ]
            },
        ),
        (
            _("Requests to the client"),
            {"fields": ["may_ask", "may_ask_secrets", "may_sample", "may_list_roots", "extensions"]},
        ),
        (
            _("What clients see"),
            {
                "fields": [
                    "policy",
                    "keeps_serving",
                    "generated_skills",
                    "prefix",
                    "workspace",
                    "groups",
                    "refresh_seconds",
                ]
            },
        ),
        (
            _("Limits"),
            {
                "classes": ["collapse"],
                "fields": [
                    "starts_eagerly",
                    "idle_seconds",
                    "connect_seconds",
                    "max_concurrent",
                    "max_response_bytes",
                    "max_notifications",
                    _CHANGED,
                ],
            },
        ),
    ]

    def save_model(self, request: HttpRequest, obj: McpConnection, form: Any, change: bool) -> None:
        obj.change_author = request.user
        super().save_model(request, obj, form, change)

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpConnection]:
        rows = McpConnection.objects.with_status().select_related("profile", "identity")
        counts = {
            f"{state}_count": Count("tools", filter=Q(tools__state=state), distinct=True)
            for state in McpUpstreamTool.State.values
        }
        return rows.annotate(**counts)

    def ranking(self, figure: str) -> Mapping[int, Figure]:
        recent = of_connections([*McpConnection.objects.order_by().values_list("pk", flat=True)])
        return {pk: each for pk, found in recent.items() if (each := figure_of(figure, found)) is not None}

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Return the list with how much the tools of each row are called, read for all rows at once."""
        listed = super().get_changelist_instance(request)
        listed.result_list = rows = list(listed.result_list)
        recent = of_connections([row.pk for row in rows]) if usage.may_see(request.user) else {}
        for row in rows:
            row.recent = recent.get(row.pk, usage.Recent())
        return listed

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: object, **kwargs: object
    ) -> HttpResponse:
        if (row := context.get("original")) is not None:
            prefetch_related_objects([row], "links")  # several fields of the page are made of them
        return super().render_change_form(request, context, *args, **kwargs)

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[Model]]:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"user": request.user})

    def formfield_for_choice_field(
        self, db_field: Field[object, object], request: HttpRequest, **kwargs: object
    ) -> TypedChoiceField | None:
        if db_field.name == "transport" and not may_launch(request.user):
            kwargs["choices"] = [choice for choice in McpConnection.Transport.choices if choice[0] != _STDIO]
        return super().formfield_for_choice_field(db_field, request, **kwargs)

    def get_readonly_fields(
        self, request: HttpRequest, obj: McpConnection | None = None
    ) -> list[str] | tuple[str, ...]:
        closed = [*self.readonly_fields]
        if obj is not None:
            closed += ["slug", "transport"]
        if not may_launch(request.user):
            closed.append("profile")
        return closed

    def has_change_permission(self, request: HttpRequest, obj: McpConnection | None = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or may_write(request.user, obj.transport))

    def has_write_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        row = None if object_id is None else McpConnection.objects.filter(pk=object_id).first()
        return self.has_change_permission(request, row)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # tools and the audit name it: it is disabled instead

    shown_slug = column(_("name"), lambda row: _named(row), ordering="slug")

    @admin.display(description=_("status"))
    def shown_status(self, row: McpConnection) -> SafeString:
        if not row.enabled:
            return mark("off", _("Disabled"))
        if row.has_never_connected and row.status != "connected":
            return mark("bad" if row.status == "error" else "wait", _("Never connected"))
        words = str(McpConnection.Status(row.status).label)
        if row.status == "connected" and row.reconnects:
            words = _t("Connected, reconnected %(count)d×") % {"count": row.reconnects}
            if row.reconnected_at is not None:
                past = (timezone.now() - row.reconnected_at).total_seconds()
                words = _t("%(state)s, last %(time)s ago") % {"state": words, "time": span(past)}
        return mark(STATUS_MARKS[row.status], words)

    @admin.display(description=_("tools"))
    def shown_tools(self, row: McpConnection) -> SafeString | str:
        counts = {state: getattr(row, f"{state}_count", 0) for state in _TOLD_OF}
        address = f"{reverse('admin:tools_catalog_mcpupstreamtool_changelist')}?connection__id__exact={row.pk}"
        return format_html_join(
            ", ",
            '<a class="hub-link" href="{}&state__exact={}">{}</a>',
            ((address, state, words % {"count": counts[state]}) for state, words in _TOLD_OF.items() if counts[state]),
        ) or _t("none yet")

    @admin.display(description=_("processes"))
    def shown_links(self, row: McpConnection) -> SafeString | str:
        links = list(row.links.all()) if row.pk else []
        if not links:
            return _t("No process is connected to it now.")
        return format_html_join(
            "",
            '<div><p>{} {} {}</p><p class="hub-subtle">{}</p>{}</div>',
            (
                (
                    mark(STATUS_MARKS[link.status], link.get_status_display()),
                    _pause(link),
                    mono(link.process_id[:8]),
                    _link_words(link),
                    format_html('<pre class="hub-json">{}</pre>', visible(link.stderr)) if link.stderr else "",
                )
                for link in links
            ),
        )

    @admin.display(description=_("sandbox of the child process"))
    def shown_confinement(self, row: McpConnection) -> SafeString | str:
        return shown_held(row.profile) if row.profile is not None else _t("It runs no program on this machine.")

    @admin.display(description=_("accounts"))
    def shown_accounts(self, row: McpConnection) -> SafeString | str:
        return shown_accounts(row) if row.pk else "-"

    @detail_action(description=_("Connect an account"), icon="key", url_path="account", permissions=["account"])
    def connect_account(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row, _back = self._row_to_write(request, object_id)
        return redirect(f"{reverse('account-connect', args=[row.slug])}?as=all")

    def has_account_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        kinds = (McpConnection.Account.SHARED, McpConnection.Account.PERSONAL)
        row = McpConnection.objects.filter(pk=object_id, account__in=kinds).first() if object_id else None
        return row is not None and self.has_change_permission(request, row)

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(partial(connection_test.page, self))
        return [path("<int:pk>/test/", view, name="connection_test"), *super().get_urls()]

    @detail_action(description=_("Test"), icon="network_check", url_path="test-it", permissions=["write"])
    def test_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:connection_test", pk=object_id)

    @detail_action(description=_("Refresh tools"), icon="refresh", url_path="refresh", permissions=["write"])
    def refresh_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row, back = self._row_to_write(request, object_id)
        asked = self.confirmation(
            request,
            title=_t("Refresh the tools of %(name)s?") % {"name": row.slug},
            items=[(row.slug, row.title)],
            explanation=_t("The hub requests the server's lists. New and changed definitions wait for a decision."),
            button=_t("Refresh"),
            back=back,
        )
        if asked is not None:
            return asked
        self._refresh(request, [row])
        return redirect(back)

    @detail_action(description=_("Its tools"), icon="build", url_path="its-tools", permissions=["view"])
    def show_tools(self, request: HttpRequest, object_id: str) -> HttpResponse:
        address = reverse("admin:tools_catalog_mcpupstreamtool_changelist")
        return redirect(f"{address}?connection__id__exact={int(object_id)}")

    @detail_action(description=_("Reconnect"), icon="cached", url_path="reconnect", permissions=["write"])
    def reconnect_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row, back = self._row_to_write(request, object_id)
        asked = self.confirmation(
            request,
            title=_t("Reconnect %(name)s?") % {"name": row.slug},
            items=[(row.slug, row.title)],
            explanation=_t(
                "Running calls finish on the old connection; new calls use the new one. A child process is restarted."
            ),
            button=_t("Reconnect"),
            back=back,
        )
        if asked is not None:
            return asked
        bus.publish(bus.UPSTREAM_RECONNECT, row.slug)
        messages.success(request, _t("Every process that uses %(name)s reconnects.") % {"name": row.slug})
        return redirect(back)

    @detail_action(description=_("Drain and disable"), icon="pause_circle", url_path="drain", permissions=["drain"])
    def drain_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row, back = self._row_to_write(request, object_id)
        count = row.tools.filter(state="approved").count()
        asked = self.confirmation(
            request,
            title=_t("Drain and disable %(name)s?") % {"name": row.slug},
            items=[(row.slug, row.title)],
            explanation=_t(
                "Its tools, resources and prompts (%(count)d enabled) disappear. Running calls finish, then "
                "the connection is closed. You can enable it again."
            )
            % {"count": count},
            button=_t("Drain and disable"),
            back=back,
            reason=True,
            danger=True,
        )
        return asked or self._switch(request, row, False, back)

    @detail_action(description=_("Enable"), icon="play_circle", url_path="enable", permissions=["enable"])
    def enable_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row, back = self._row_to_write(request, object_id)
        asked = self.confirmation(
            request,
            title=_t("Enable %(name)s?") % {"name": row.slug},
            items=[(row.slug, row.title)],
            explanation=_t("Its approved tools, resources and prompts become available again."),
            button=_t("Enable"),
            back=back,
            reason=True,
        )
        return asked or self._switch(request, row, True, back)

    def has_drain_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return self._may_switch(request, object_id, True)

    def has_enable_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return self._may_switch(request, object_id, False)

    def _may_switch(self, request: HttpRequest, object_id: str | None, enabled: bool) -> bool:
        row = McpConnection.objects.filter(pk=object_id, enabled=enabled).first() if object_id else None
        return row is not None and self.has_change_permission(request, row)

    def _row_to_write(self, request: HttpRequest, object_id: str) -> tuple[McpConnection, str]:
        row = get_object_or_404(McpConnection, pk=object_id)
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        return row, reverse("admin:tools_catalog_mcpconnection_change", args=[row.pk])

    def _switch(self, request: HttpRequest, row: McpConnection, enabled: bool, back: str) -> HttpResponse:
        row.enabled = enabled
        row.change_reason = request.POST.get("reason", "")
        row.save(update_fields=["enabled", "updated_at"])
        done = _t("%(name)s is enabled.") if enabled else _t("%(name)s is disabled; running calls finish.")
        messages.success(request, done % {"name": row.slug})
        return redirect(back)

    @admin.action(description=_("Refresh the tools of the selected connections"), permissions=["write"])
    def refresh_selected(self, request: HttpRequest, queryset: QuerySet[McpConnection]) -> None:
        self._refresh(request, [row for row in queryset if may_write(request.user, row.transport)])

    def _refresh(self, request: HttpRequest, rows: list[McpConnection]) -> None:
        for row in rows:
            bus.publish(bus.UPSTREAM_REFRESH, row.slug)
        names = ", ".join(clipped(row.slug, 32) for row in rows)
        address = reverse("admin:tools_catalog_mcpupstreamtool_changelist")
        query = "&".join([f"connection__id__in={','.join(str(row.pk) for row in rows)}", *_WAITING])
        link = format_html('<a class="hub-link" href="{}?{}">{}</a>', address, query, _t("Pending decisions"))
        message = _t("Requested the tools of: %(names)s.") % {"names": names}
        self.message_user(request, format_html("{} {}", message, link), messages.SUCCESS)


def _pause(link: McpConnectionLink) -> SafeString | str:
    """Return whether this process makes calls to it: after failures in a row it pauses, and then tries with one."""
    if link.paused_until is None:
        return ""
    failures = {"failures": link.failed_in_a_row}
    if link.paused_until > timezone.now():
        left = max(1, round((link.paused_until - timezone.now()).total_seconds()))
        words = _t("Circuit open: retrying in %(seconds)d s (%(failures)d consecutive failures)")
        return mark("bad", words % {**failures, "seconds": left})
    return mark("wait", _t("The next call is a trial (%(failures)d consecutive failures)") % failures)


def _link_words(link: McpConnectionLink) -> str:
    words = [_t("runs the hub's only child process")] if link.holds_lease else []
    words += [visible(link.error_message)] if link.error_message else []
    if link.server:
        words.append(visible(link.server, one_line=True))
    if link.protocol_version:
        words.append(f"MCP {link.protocol_version}")
    if link.latency_ms is not None:
        words.append(_t("last response after %(latency)d ms") % {"latency": round(link.latency_ms)})
    words.append(
        _t("%(calls)d calls, %(failures)d failed, %(restarts)d reconnects")
        % {"calls": link.calls, "failures": link.failures, "restarts": link.restarts}
    )
    return " · ".join(words)
