"""The page of result sizes, with what each would do to the tool's newest recorded result."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from mcphub.features.fitting.models import ResultSize
from mcphub.features.fitting.trial import trial_of
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.shown import mono

_SUBJECTS = {"tool": _("tool"), "toolset": _("toolset"), "key": _("API key")}
"""Columns, with how the list names them."""


def _subject(row: ResultSize) -> str:
    """Return the column that has the row's tool, toolset or key."""
    return next(name for name in _SUBJECTS if getattr(row, f"{name}_id") is not None)


@admin.register(ResultSize)
class ResultSizeAdmin(RecordedAdmin):
    list_display = ["__str__", "shown_subject", "shown_fields", "fields_argument", "most_characters"]
    list_select_related = ["tool", "toolset", "key"]
    search_fields = ["tool__name", "toolset__slug", "key__name"]
    autocomplete_fields = ["tool", "toolset", "key"]
    readonly_fields = ["preview"]

    def get_fields(self, request: HttpRequest, obj: ResultSize | None = None) -> Any:
        if obj is None:
            return [*_SUBJECTS, "fields", "fields_argument", "most_characters", "tables_as_csv", "preview"]
        if obj.tool_id is None:
            return [_subject(obj), "most_characters"]
        return ["tool", "fields", "fields_argument", "most_characters", "tables_as_csv", "preview"]

    def get_readonly_fields(self, request: HttpRequest, obj: ResultSize | None = None) -> list[str]:
        return [*self.readonly_fields, *([] if obj is None else [_subject(obj)])]

    @admin.display(description=_("applies to"))
    def shown_subject(self, row: ResultSize) -> str:
        return str(_SUBJECTS[_subject(row)])

    @admin.display(description=_("fields"))
    def shown_fields(self, row: ResultSize) -> SafeString:
        return mono(row.fields[:100] or "-")

    @admin.display(description=_("effect"))
    def preview(self, row: ResultSize) -> SafeString:
        """Return sizes before and after, for the newest recorded result. Of the result itself nothing is shown."""
        if row.pk is None:
            return format_html("{}", _t("Save to see the effect on the newest recorded result."))
        trial = trial_of(row)
        if trial is None:
            return format_html("{}", _t("No recorded call of this tool has its whole result. Call it once."))
        words = _t(
            "Newest recorded result: %(before)d characters (about %(before_tokens)d tokens). "
            "With these settings: %(after)d characters (about %(after_tokens)d tokens), %(percent)d %%."
        ) % {
            "before": trial.before,
            "before_tokens": trial.before_tokens,
            "after": trial.after,
            "after_tokens": trial.after_tokens,
            "percent": trial.percent,
        }
        return format_html("{}{}", words, f" {trial.problem}" if trial.problem else "")
