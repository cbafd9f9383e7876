"""The pages of connections to other MCP servers, and of the commands that some of them run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from sessions_app import bus
from sessions_app.admin_base import RecordedAdmin, detail_action, mark, moment
from sessions_app.shown import clipped, mono, visible
from tools_catalog.catalog import secret_for
from tools_catalog.models import LaunchProfile, McpConnection
from tools_catalog.upstream import probe

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    _FormBase = forms.ModelForm[McpConnection]
else:
    _FormBase = forms.ModelForm

LAUNCH = "tools_catalog.launch_mcpconnection"
STATUS_MARKS = {"connecting": "wait", "connected": "good", "disconnected": "off", "error": "bad"}
_CHANGED = moment("updated_at", _("changed"))
_LISTED = moment("discovered_at", _("tools listed"))
_STDIO = McpConnection.Transport.STDIO


def may_write(user: Any, transport: str) -> bool:
    """Whether the person may save, and so test, a connection of this transport: stdio runs a program."""
    return transport != _STDIO or user.has_perm(LAUNCH)


class ConnectionForm(_FormBase):
    user: Any = None

    class Meta:
        model = McpConnection
        exclude: list[str] = []

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        transport = cleaned.get("transport") or self.instance.transport
        if not may_write(self.user, transport):
            self.add_error(None, _t("A connection that runs a program needs the permission of an upstream manager."))
        return cleaned


@admin.register(McpConnection)
class McpConnectionAdmin(RecordedAdmin):
    form = ConnectionForm
    list_display = ["shown_slug", "shown_title", "transport", "shown_status", "shown_tools", "policy", _LISTED]
    list_display_links = ["shown_slug"]
    list_filter = [("transport", ChoicesDropdownFilter), ("policy", ChoicesDropdownFilter), "enabled"]
    search_fields = ["slug", "title", "url"]
    autocomplete_fields = ["groups"]
    actions = ["refresh_selected"]
    actions_detail = ["test_it", "refresh_it", "show_tools"]
    readonly_fields = ["shown_status", "shown_links", "shown_tools", _LISTED, _CHANGED]
    fieldsets = [
        (None, {"fields": ["slug", "title", "enabled"]}),
        (_("State"), {"fields": ["shown_status", "shown_links", "shown_tools", _LISTED]}),
        (_("How it is reached"), {"fields": ["transport", "url", "headers", "profile", "sessions", "may_ask"]}),
        (_("What is served of it"), {"fields": ["policy", "keeps_serving", "prefix", "groups", "refresh_seconds"]}),
        (
            _("Limits"),
            {
                "classes": ["collapse"],
                "fields": [
                    "starts_eagerly", "idle_seconds", "connect_seconds", "max_concurrent", "max_response_bytes",
                    "max_notifications", _CHANGED,
                ],
            },
        ),
    ]  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[McpConnection]:
        held = Q(tools__state__in=["new", "changed", "refused"])
        rows = McpConnection.objects.with_status().select_related("profile")
        return rows.annotate(
            approved_count=Count("tools", filter=Q(tools__state="approved"), distinct=True),
            held_count=Count("tools", filter=held, distinct=True),
        )

    def get_form(self, request: HttpRequest, obj: Any | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"user": request.user})

    def formfield_for_choice_field(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "transport" and not request.user.has_perm(LAUNCH):
            kwargs["choices"] = [choice for choice in McpConnection.Transport.choices if choice[0] != _STDIO]
        return super().formfield_for_choice_field(db_field, request, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: McpConnection | None = None) -> Any:
        closed = [*self.readonly_fields]
        if obj is not None:
            closed += ["slug", "transport"]
        if not request.user.has_perm(LAUNCH):
            closed.append("profile")
        return closed

    def has_change_permission(self, request: HttpRequest, obj: McpConnection | None = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or may_write(request.user, obj.transport))

    def has_write_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        row = None if object_id is None else McpConnection.objects.filter(pk=object_id).first()
        return self.has_change_permission(request, row)

    def has_delete_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return False  # tools and the audit name it: it is disabled instead

    @admin.display(description=_("name"), ordering="slug")
    def shown_slug(self, row: McpConnection) -> SafeString:
        return mono(row.slug)

    @admin.display(description=_("title"), ordering="title")
    def shown_title(self, row: McpConnection) -> str:
        return clipped(row.title, 60) or "-"

    @admin.display(description=_("status"))
    def shown_status(self, row: McpConnection) -> SafeString:
        if not row.enabled:
            return mark("off", _("Disabled"))
        return mark(STATUS_MARKS[row.status], McpConnection.Status(row.status).label)

    @admin.display(description=_("tools"))
    def shown_tools(self, row: McpConnection) -> SafeString | str:
        approved, held = getattr(row, "approved_count", 0), getattr(row, "held_count", 0)
        words = _t("%(approved)d served") % {"approved": approved}
        if not held:
            return words
        link = f"{reverse('admin:tools_catalog_mcpupstreamtool_changelist')}?connection__id__exact={row.pk}"
        waiting = _t("%(held)d wait for a decision") % {"held": held}
        return format_html('{}, <a class="hub-link" href="{}">{}</a>', words, link, waiting)

    @admin.display(description=_("processes"))
    def shown_links(self, row: McpConnection) -> SafeString | str:
        links = list(row.links.all()) if row.pk else []
        if not links:
            return _t("No process holds it now.")
        return format_html_join(
            "",
            '<div><p>{} {}</p><p class="hub-subtle">{}</p>{}</div>',
            (
                (
                    mark(STATUS_MARKS[link.status], link.get_status_display()),
                    mono(link.process_id[:8]),
                    _link_words(link),
                    format_html('<pre class="hub-json">{}</pre>', visible(link.stderr)) if link.stderr else "",
                )
                for link in links
            ),
        )

    def get_urls(self) -> list[Any]:
        page = path("<int:pk>/test/", self.admin_site.admin_view(self.test_view), name="connection_test")
        return [page, *super().get_urls()]

    @detail_action(description=_("Test"), icon="network_check", url_path="test-it", permissions=["write"])
    def test_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:connection_test", pk=object_id)

    @detail_action(description=_("List the tools again"), icon="refresh", url_path="refresh", permissions=["write"])
    def refresh_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = get_object_or_404(McpConnection, pk=object_id)
        back = redirect("admin:tools_catalog_mcpconnection_change", object_id)
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        self._refresh(request, [row])
        return back

    @detail_action(description=_("Its tools"), icon="build", url_path="its-tools", permissions=["view"])
    def show_tools(self, request: HttpRequest, object_id: str) -> HttpResponse:
        address = reverse("admin:tools_catalog_mcpupstreamtool_changelist")
        return redirect(f"{address}?connection__id__exact={int(object_id)}")

    @admin.action(description=_("List the tools of the selected connections again"), permissions=["write"])
    def refresh_selected(self, request: HttpRequest, queryset: QuerySet[McpConnection]) -> None:
        self._refresh(request, [row for row in queryset if may_write(request.user, row.transport)])

    def _refresh(self, request: HttpRequest, rows: list[McpConnection]) -> None:
        for row in rows:
            bus.publish(bus.UPSTREAM_REFRESH, row.slug)
        names = ", ".join(clipped(row.slug, 32) for row in rows)
        self.message_user(request, _t("Asked for the tools of: %(names)s.") % {"names": names}, messages.SUCCESS)

    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = get_object_or_404(McpConnection, pk=pk)
        # Only what is saved is tested, and only by who may save it: a test runs what the row says.
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        steps: list[probe.Step] | None = None
        if request.method == "POST":
            steps = async_to_sync(probe.probe)(row.spec(), secret_for, settings.MCPHUB_VERSION)
        words = {
            probe.ADDRESS: _t("The address may be reached"),
            probe.CONNECT: _t("It answers and speaks MCP"),
            probe.LIST: _t("It lists its tools"),
        }
        return TemplateResponse(
            request,
            "admin/hub/connection_test.html",
            {
                **self.admin_site.each_context(request), "opts": self.opts, "object": row, "connection": row,
                "title": _t("Test"), "ran": steps is not None,
                "steps": [
                    {
                        "words": words[step.kind],
                        "mark": mark("good", _t("OK")) if step.is_good else mark("bad", _t("Failed")),
                        "said": visible(step.said), "milliseconds": step.milliseconds,
                    }
                    for step in steps or []
                ],
                "back": reverse("admin:tools_catalog_mcpconnection_change", args=[pk]),
            },
        )  # fmt: skip


def _link_words(link: Any) -> str:
    words = [visible(link.error_message)] if link.error_message else []
    if link.server:
        words.append(visible(link.server, one_line=True))
    if link.protocol_version:
        words.append(f"MCP {link.protocol_version}")
    if link.latency_ms is not None:
        words.append(_t("last answer after %(latency)d ms") % {"latency": round(link.latency_ms)})
    words.append(
        _t("%(calls)d calls, %(failures)d failed, connected again %(restarts)d times")
        % {"calls": link.calls, "failures": link.failures, "restarts": link.restarts}
    )
    return " · ".join(words)


@admin.register(LaunchProfile)
class LaunchProfileAdmin(RecordedAdmin):
    list_display = ["name", "shown_command", "instances", _CHANGED]
    search_fields = ["name", "command"]
    readonly_fields = ["shown_command", _CHANGED]
    fieldsets = [
        (None, {"fields": ["name", "command", "arguments", "environment", "directory", "shown_command"]}),
        (_("Limits"), {"fields": ["instances", "memory_mb", "cpu_seconds", "open_files", _CHANGED]}),
    ]

    @admin.display(description=_("what is run"))
    def shown_command(self, row: LaunchProfile) -> SafeString | str:
        """The exact words, whole: who approves a command must see all of it."""
        if not row.command or not isinstance(row.arguments, list):
            return "-"
        words = [visible(word, one_line=True) for word in (row.command, *row.arguments)]
        return format_html_join(" ", '<code class="hub-mono">{}</code>', ((word,) for word in words))

    def get_readonly_fields(self, request: HttpRequest, obj: LaunchProfile | None = None) -> Any:
        # Secrets name the profile as their host, so its name stays.
        return [*self.readonly_fields, *(["name"] if obj is not None else [])]
