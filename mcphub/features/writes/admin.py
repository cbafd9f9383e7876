"""The pages of write stops: one is added to stop writes, and ended by *Allow writes*."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from mcphub.features.writes.models import WriteStop
from mcphub.features.writes.rest import WRITE_STOP_FILTERS
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, mark, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, clipped

_STOPPED, _ALLOWED = moment("stopped_at", _("stopped")), moment("allowed_at", _("allowed again"))


if TYPE_CHECKING:
    _Form = forms.ModelForm[WriteStop]
else:
    _Form = forms.ModelForm


class WriteStopForm(_Form):
    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "workspace" in cleaned and WriteStop.objects.in_force().filter(workspace=cleaned["workspace"]).exists():
            self.add_error("workspace", _t("Writes are stopped there already. Nothing was changed."))
        return cleaned


@admin.register(WriteStop)
class WriteStopAdmin(RecordedAdmin):
    form = WriteStopForm
    list_display = ["shown_state", "shown_scope", "reason", "stopped_by", _STOPPED, "shown_allowed_by", _ALLOWED]
    list_select_related = ["workspace"]
    filters = WRITE_STOP_FILTERS
    search_fields = ["reason"]
    search_help_text = _("Reason")
    actions = None
    actions_detail = ["allow_writes"]
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["shown_state", "shown_scope", "reason"]}),
        (_("Who"), {"fields": ["stopped_by", _STOPPED, "shown_allowed_by", _ALLOWED]}),
    ]
    readonly_fields = ["shown_state", "shown_scope", "stopped_by", _STOPPED, "shown_allowed_by", _ALLOWED]

    shown_scope = column(_("workspace"), lambda row: cell(row.workspace.slug if row.workspace else _t("everybody")))
    shown_allowed_by = column(_("allowed by"), lambda row: cell(row.allowed_by or "-"))

    @admin.display(description=_("state"), ordering="in_force")
    def shown_state(self, row: WriteStop) -> SafeString:
        return mark("bad", _("In force")) if row.in_force else mark("off", _("Over"))

    def get_fieldsets(self, request: HttpRequest, obj: WriteStop | None = None) -> Any:
        return super().get_fieldsets(request, obj) if obj is not None else [(None, {"fields": ["workspace", "reason"]})]

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_allow_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        may = request.user.has_perm("writes.change_writestop") and str(object_id).isdecimal()
        return may and not WriteStop.objects.filter(pk=object_id or 0, in_force=False).exists()

    def save_model(self, request: HttpRequest, obj: WriteStop, form: Any, change: bool) -> None:
        obj.change_reason = obj.reason
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: WriteStop, post_url_continue: str | None = None) -> HttpResponse:
        messages.warning(request, obj.where)
        return redirect(_page_of(obj))

    @detail_action(description=_("Allow writes"), icon="lock_open", permissions=["allow"], url_path="allow")
    def allow_writes(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = row_of(self, request, object_id)
        asked = self.confirmation(
            request,
            title=_t("Allow writes again?"),
            items=[(row.where, clipped(row.reason, 300))],
            explanation=_t(
                "Unless you are a superuser, a second person must confirm it under Waiting changes. Until then writes "
                "stay stopped."
            ),
            button=_t("Allow writes"),
            back=_page_of(row),
            reason=True,
        )
        if asked is not None:
            return asked
        try:
            if row.allow(request.POST.get("reason", "")):
                messages.success(request, _t("This stop is over."))
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
        return redirect(_page_of(row))


def _page_of(row: WriteStop) -> str:
    return reverse("admin:writes_writestop_change", args=[row.pk])
