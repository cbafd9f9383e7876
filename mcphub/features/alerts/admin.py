"""The pages of alerts, with how often each would have fired last week."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcphub.features.alerts.counting import last_week
from mcphub.features.alerts.models import Alert
from mcphub.features.alerts.rest import ALERT_FILTERS
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import mark, moment
from sessions_app.kit.admin.check import CheckedForm, previewed
from sessions_app.kit.admin.parts import column
from sessions_app.kit.database import TookTooLong
from sessions_app.kit.shown import cell, rounded

_CHECKED, _SINCE = moment("checked_at", _("last checked")), moment("fires_since", _("firing since"))


@admin.register(Alert)
class AlertAdmin(CheckedForm, RecordedAdmin):
    checked_fields = ("name", "measure", "limit", *Alert.WATCHED, "provider")
    list_display = ["shown_state", "name", "shown_condition", "shown_scope", _SINCE, _CHECKED]
    list_display_links = ["name"]
    list_select_related = [*Alert.WATCHED]
    filters = ALERT_FILTERS
    search_fields = ["name", "tool__name", "connection__slug", "workspace__slug"]
    search_help_text = _("Name, tool, connection or workspace")
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["name", "enabled"]}),
        (_("When it fires"), {"fields": ["measure", "limit", "window_minutes", "least_calls", "shown_week"]}),
        (_("What it watches"), {"fields": ["tool", "connection", "workspace", "person", "key", "provider"]}),
        (_("State"), {"fields": ["shown_state", _SINCE, _CHECKED]}),
    ]
    readonly_fields = ["shown_week", "shown_state", _SINCE, _CHECKED]

    shown_condition = column(_("fires at"), lambda row: row.condition)
    shown_scope = column(_("watches"), lambda row: cell(row.scope or _t("everything")))

    def get_fieldsets(self, request: HttpRequest, obj: Alert | None = None) -> Any:
        return super().get_fieldsets(request, obj) if obj is not None else self.fieldsets[:3]

    def get_readonly_fields(self, request: HttpRequest, obj: Alert | None = None) -> Any:
        return [*self.readonly_fields, *([] if request.user.has_perm("auth.view_user") else ["person"])]

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        found = ["tool", "connection", "key"]
        return [*found, "person"] if request.user.has_perm("auth.view_user") else found

    @admin.display(description=_("state"))
    def shown_state(self, row: Alert) -> SafeString:
        if not row.enabled:
            return mark("off", _("Disabled"))
        return mark("bad", _("Firing")) if row.fires_since is not None else mark("good", _("Quiet"))

    @admin.display(description=_("in the last week"))
    def shown_week(self, row: Alert) -> SafeString:
        return self.preview_of(row if row.pk is not None else None)

    def preview_of(self, row: Alert | None) -> SafeString:
        if row is None:
            return previewed(_t("Fill in the form to see how often the alert would have fired."))
        return previewed(week_words(row))


def week_words(row: Alert) -> SafeString:
    """Return how often an alert would have fired, in a sentence or two."""
    try:
        found = last_week(row, datetime.now(UTC))
    except TookTooLong:
        return format_html("{}", _t("Counting a week took too long. Choose a tool, or a longer time."))
    share = 100 * found.slots_fired / max(1, found.slots)
    words = ngettext(
        "It would have fired %(count)d time in the last 7 days, for %(share)s %% of the time.",
        "It would have fired %(count)d times in the last 7 days, for %(share)s %% of the time.",
        found.fired,
    ) % {"count": found.fired, "share": rounded(share)}
    note = _t("The last two days are counted by the minute, the days before by the hour.")
    return format_html('{} <span class="hub-subtle">{}</span>', words, note)
