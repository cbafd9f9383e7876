"""The pages of launch profiles: commands that the hub runs, and how each is confined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import mark, moment
from sessions_app.kit.shown import visible
from tools_catalog.models import LaunchProfile
from tools_catalog.upstream.confinement import machine

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_CHANGED = moment("updated_at", _("changed"))


def shown_held(profile: LaunchProfile) -> SafeString | str:
    """Return the parts of a profile's sandbox that hold on this machine, and the missing ones."""
    try:
        spec = profile.spec()
    except ValueError as error:
        return str(error)
    return format_html_join(
        "",
        "<p>{} {}</p>",
        (
            (
                mark("good", each.subject) if each.is_held else mark("bad", each.subject),
                format_html('<span class="hub-subtle">{}</span>', each.how),
            )
            for each in machine.held(spec, machine.this_machine())
        ),
    )


@admin.register(LaunchProfile)
class LaunchProfileAdmin(RecordedAdmin):
    list_display = ["name", "shown_command", "instances", "network", "shown_unconfined", _CHANGED]
    search_fields = ["name", "command"]
    readonly_fields = ["shown_command", "shown_confinement", _CHANGED]
    fieldsets = [
        (None, {"fields": ["name", "command", "arguments", "environment", "directory", "shown_command"]}),
        (_("Sandbox"), {"fields": ["readable", "writable", "network", "user", "is_unconfined", "shown_confinement"]}),
        (
            _("Limits"),
            {"fields": ["instances", "memory_mb", "cpu_seconds", "open_files", "file_mb", "max_processes", _CHANGED]},
        ),
    ]

    @admin.display(description=_("command"))
    def shown_command(self, row: LaunchProfile) -> SafeString | str:
        """The exact command, whole: an approver must see all of it."""
        if not row.command or not isinstance(row.arguments, list):
            return "-"
        words = [visible(word, one_line=True) for word in (row.command, *row.arguments)]
        return format_html_join(" ", '<code class="hub-mono">{}</code>', ((word,) for word in words))

    @admin.display(description=_("on this machine"))
    def shown_confinement(self, row: LaunchProfile) -> SafeString | str:
        return shown_held(row) if row.pk else "-"

    @admin.display(description=_("sandbox"), ordering="is_unconfined")
    def shown_unconfined(self, row: LaunchProfile) -> SafeString:
        return mark("bad", _t("Not sandboxed")) if row.is_unconfined else mark("good", _t("Sandboxed"))

    def get_readonly_fields(
        self, request: HttpRequest, obj: LaunchProfile | None = None
    ) -> list[str] | tuple[str, ...]:
        # Secrets name the profile as their host, so its name stays.
        closed = [*self.readonly_fields, *(["name"] if obj is not None else [])]
        return closed if request.user.is_superuser else [*closed, "is_unconfined"]

    def has_change_permission(self, request: HttpRequest, obj: LaunchProfile | None = None) -> bool:
        """A program that a superuser let do everything is not exchanged for another by anybody else."""
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or not obj.is_unconfined or request.user.is_superuser)
