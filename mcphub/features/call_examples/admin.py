"""The page of examples of use, with an action that takes them from recorded calls."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from invocations.rest import reads
from mcphub.features.call_examples.lines import MOST, lines_of
from mcphub.features.call_examples.models import ToolExamples
from mcphub.features.call_examples.taking import proposed
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, row_of
from sessions_app.protocol.errors import AuditUnavailable

_READ_BODIES = "invocations.read_bodies"


@admin.register(ToolExamples)
class ToolExamplesAdmin(RecordedAdmin):
    list_display = ["__str__", "examples"]
    list_select_related = ["tool"]
    search_fields = ["tool__name", "examples"]
    autocomplete_fields = ["tool"]
    actions_detail = ["take_from_calls"]
    fields = ["tool", "examples"]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [] if obj is None else ["tool"]

    def has_take_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(["call_examples.change_toolexamples", _READ_BODIES])

    @detail_action(
        description=_("Take from recorded calls"), icon="history", permissions=["take"], url_path="take-from-calls"
    )
    def take_from_calls(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = row_of(self, request, object_id)
        back = reverse("admin:call_examples_toolexamples_change", args=[row.pk])
        known = lines_of(row.examples)
        found = proposed(row.tool, known, MOST - len(known))
        try:
            reads.note(request.user, request.path, ["arguments"], list(found.values()))
        except AuditUnavailable as error:
            messages.error(request, str(error))
            return redirect(back)
        if not found:
            messages.info(request, _t("No recorded call has a further example, or there are 10 already."))
            return redirect(back)
        asked = self.confirmation(
            request,
            title=_t("Add these examples?"),
            items=[(line, "") for line in found],
            explanation=_t("Search uses them from then on. You can edit or delete single lines later."),
            button=_t("Add"),
            back=back,
            hidden=[("line", line) for line in found],  # those that were shown: others may have come since
        )
        if asked is not None:
            return asked
        row.examples = "\n".join([*known, *(line for line in request.POST.getlist("line") if line in found)])
        row.change_reason = _t("from recorded calls")
        row.full_clean()
        row.save()
        messages.success(request, _t("The examples are added. Delete the lines that you do not want."))
        return redirect(back)
