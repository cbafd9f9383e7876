"""Switching rows on and off: a button in the list, and bulk actions with a confirmation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.kit.admin.base import back_of, mark, names_and_count, row_of
from sessions_app.kit.shown import clipped

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    from sessions_app.kit.admin.base import HubAdmin as _Pages
else:
    _Pages = object


class SwitchActions(_Pages):
    """For the admin of rows with `enabled` and a `Switchable` manager."""

    list_after_template = "admin/hub/switches.html"

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        """Return the question, the effect, and the result message; with %(count)d and %(names)s."""
        raise NotImplementedError

    def switch_remarks(self, request: HttpRequest, rows: list[Any], enabled: bool) -> Mapping[object, str]:
        """Return warnings about switching these rows, by primary key."""
        return {}

    # In the list -------------------------------------------------------------------------------------

    @admin.display(description=_("state"), ordering="enabled")
    def state(self, row: Any) -> SafeString:
        return mark("good", _("Enabled")) if row.enabled else mark("off", _("Disabled"))

    @admin.display(description=_("state"), ordering="enabled")
    def switch(self, row: Any) -> SafeString:
        """The state as a button of the form below the list: it works with the keyboard, and without scripts."""
        word = _t("Enabled") if row.enabled else _t("Disabled")
        return format_html(
            '<button type="submit" form="hub-switches" formaction="{}" name="enabled" value="{}" id="switch-{}"'
            ' class="hub-switch" role="switch" aria-checked="{}" aria-label="{}">{}</button>',
            reverse(f"admin:{self._page_name('switch')}", args=[row.pk]),
            "" if row.enabled else "1",
            row.pk,
            "true" if row.enabled else "false",
            f"{word}: {clipped(row, 80)}",
            self.state(row),
        )

    def get_list_display(self, request: HttpRequest) -> list[str | Callable[[Any], str | bool]]:
        columns = super().get_list_display(request)
        may = self.has_change_permission(request)
        return ["switch" if column == "state" and may else column for column in columns]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.switch_view)
        return [path("<path:object_id>/switch/", view, name=self._page_name("switch")), *super().get_urls()]

    def _page_name(self, page: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{page}"

    def switch_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Switch one row: on at once, off after a question."""
        row = row_of(self, request, object_id)
        if not self.has_change_permission(request, row):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        back = back_of(request, reverse(f"admin:{self._page_name('changelist')}"))
        enabled = bool(request.POST.get("enabled"))
        rows = self.model._default_manager.filter(pk=row.pk)
        if not enabled and row.enabled:
            question, explanation, _done = self.switch_words(False, 1)
            page = self.confirmation(
                request,
                title=question % {"count": 1},
                explanation=explanation,
                button=_t("Disable"),
                back=back,
                items=[(clipped(row, 80), self.switch_remarks(request, [row], False).get(row.pk, ""))],
                reason=True,
                danger=True,
                hidden=[("enabled", ""), ("back", back)],
            )
            if page is not None:
                return page
        changed = rows.set_enabled(enabled, request.POST.get("reason", ""))
        done = (
            self.switch_words(enabled, changed)[2] if changed else _t("Already in this state: %(names)s (unchanged).")
        )
        self.message_user(request, done % {"count": changed, "names": clipped(row, 80)}, messages.SUCCESS)
        return redirect(f"{back}#switch-{row.pk}")

    # On the selected ---------------------------------------------------------------------------------

    @admin.action(description=_("Enable the selected"), permissions=["change"])
    def enable_selected(self, request: HttpRequest, queryset: QuerySet[Model]) -> HttpResponse | None:
        return self._switch(request, queryset, True)

    @admin.action(description=_("Disable the selected"), permissions=["change"])
    def disable_selected(self, request: HttpRequest, queryset: QuerySet[Model]) -> HttpResponse | None:
        return self._switch(request, queryset, False)

    def _switch(self, request: HttpRequest, queryset: QuerySet[Model], enabled: bool) -> HttpResponse | None:
        to_switch = queryset.exclude(enabled=enabled)
        names, count = names_and_count(to_switch, remarks=lambda rows: self.switch_remarks(request, rows, enabled))
        total = queryset.count()
        question, explanation, _done = self.switch_words(enabled, count)
        if total > count:
            unchanged = ngettext(
                "%(count)d already in this state (unchanged).",
                "%(count)d already in this state (unchanged).",
                total - count,
            )
            explanation = f"{explanation} {unchanged % {'count': total - count}}"
        back = request.get_full_path()
        page = self.confirmation(
            request,
            title=question % {"count": count},
            items=names,
            explanation=explanation,
            reason=True,
            button=_t("Enable") if enabled else _t("Disable"),
            back=back,
            danger=not enabled,
            action="enable_selected" if enabled else "disable_selected",
            selected=list(queryset.values_list("pk", flat=True)),
        )
        if page is not None:
            return page
        reason = request.POST.get("reason", "")
        rows, changed = [], 0
        done = mark("good", _t("Enabled")) if enabled else mark("off", _t("Disabled"))
        for row in queryset:
            was_changed = self.model._default_manager.filter(pk=row.pk).set_enabled(enabled, reason)
            changed += was_changed
            rows.append((clipped(row, 80), done, "" if was_changed else _t("unchanged")))
        words = self.switch_words(enabled, changed)[2]
        shown = ", ".join(name for name, _remark in names[:20]) or "-"
        self.message_user(request, words % {"count": changed, "names": shown}, messages.SUCCESS)
        return self.outcomes_page(request, title=_t("Result"), rows=rows, back=back)
