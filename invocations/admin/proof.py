"""The pages of the audit's proof: events, blocks, tombstones, read-only; retention policy and legal holds, edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import Field, Model, QuerySet
from django.forms import Field as FormField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import escape
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from invocations.admin.integrity import IntegrityPage
from invocations.chain.models import AuditBlock, AuditHold, AuditPolicy, AuditTombstone, AuditVerification
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import UncountedAdmin, detail_action, mark, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import mono, visible

_SEALED = moment("sealed_at", _("sealed"))
_REMOVED = moment("removed_at", _("removed"))
_VERIFIED = moment("verified_at", _("verified"))
_CREATED = moment("created_at", _("created"))
_RELEASED = moment("released_at", _("released"))


@admin.register(AuditBlock)
class AuditBlockAdmin(IntegrityPage, UncountedAdmin):
    actions_list = ["show_integrity"]
    list_display = ["number", _SEALED, "row_count", "key_id", "shown_root"]
    fields = ["number", _SEALED, "first_position", "row_count", "key_id", "shown_root", "signature", "shown_header"]
    search_fields = ["=number"]
    search_help_text = _("Block number")
    ordering = ["-number"]
    actions = None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Model], search_term: str
    ) -> tuple[QuerySet[Model], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        return (queryset.filter(number=int(term)) if term.isdecimal() and len(term) < 19 else queryset.none()), False

    shown_root = column(_("root"), lambda block: mono(block.tree_root))
    shown_header = column(_("header"), lambda block: mono(block.header))


@admin.register(AuditTombstone)
class AuditTombstoneAdmin(UncountedAdmin):
    list_display = [_REMOVED, "kind", "first_block", "last_block", "row_count"]
    list_display_links = [_REMOVED]
    fields = [_REMOVED, "kind", "first_block", "last_block", "row_count", "text", "signature"]
    ordering = ["-id"]
    actions = None


class FoundFilter(admin.SimpleListFilter):
    title = _("found")
    parameter_name = "found"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, Any]]:
        return [("wrong", _("Changed since it was sealed")), ("good", _("As sealed"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Model]) -> QuerySet[Model]:
        if self.value() == "wrong":
            return queryset.exclude(problem="")
        return queryset.filter(problem="") if self.value() == "good" else queryset


@admin.register(AuditVerification)
class AuditVerificationAdmin(UncountedAdmin):
    list_display = [_VERIFIED, "way", "shown_found", "size", "blocks", "milliseconds"]
    list_display_links = [_VERIFIED]
    list_filter = ["way", FoundFilter]
    fields = [_VERIFIED, "way", "shown_found", "size", "blocks", "milliseconds", "shown_problem"]
    ordering = ["-id"]
    actions = None

    shown_found = column(
        _("found"),
        lambda each: mark("bad", _("Changed since it was sealed")) if each.problem else mark("good", _("As sealed")),
    )
    shown_problem = column(_("problem"), lambda each: visible(each.problem) or "-")


@admin.register(AuditPolicy)
class AuditPolicyAdmin(RecordedAdmin):
    list_display = ["__str__", "shown_rows", "shown_bodies"]
    fields = ["rows_days", "bodies_days"]
    readonly_fields = ["shown_rows", "shown_bodies"]

    shown_rows = column(_("days to keep rows"), lambda policy: policy.rows_days or _("no limit"))
    shown_bodies = column(
        _("days to keep bodies"), lambda policy: policy.bodies_days or policy.rows_days or _("no limit")
    )

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.fields if self.has_change_permission(request, obj) else self.readonly_fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # its one row is made with the table

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


@admin.register(AuditHold)
class AuditHoldAdmin(RecordedAdmin):
    list_display = ["name", "shown_state", _CREATED, _RELEASED, "reason"]
    fields = [
        "name",
        "reason",
        "tool_name",
        "principal",
        "session_id",
        "received_from",
        "received_until",
        "first_block",
        "last_block",
        _CREATED,
        _RELEASED,
    ]
    readonly_fields = [_CREATED, _RELEASED]
    ordering = ["-created_at"]
    actions_detail = ["release_hold"]

    shown_state = column(
        _("state"), lambda hold: mark("off", _("released")) if hold.released_at else mark("warn", _("holds"))
    )

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: AuditHold | None = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or obj.released_at is None)

    def formfield_for_dbfield(
        self, db_field: Field[object, object], request: HttpRequest, **kwargs: object
    ) -> FormField | None:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None:
            field.help_text = escape(field.help_text)  # `key:<id>` is no element of the page
        return field

    def has_release_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        hold = AuditHold.objects.filter(pk=object_id or 0, released_at__isnull=True).first()
        return hold is not None and self.has_change_permission(request, hold)

    @detail_action(description=_("Release"), icon="lock_open", permissions=["release"])
    def release_hold(self, request: HttpRequest, object_id: str) -> HttpResponse:
        hold = row_of(self, request, object_id)
        page = reverse("admin:invocations_audithold_change", args=[hold.pk])
        asked = self.confirmation(
            request,
            title=_t("Release the hold %(name)s?") % {"name": hold},
            items=[(hold.name, hold.reason)],
            explanation=_t(
                "Retention can then remove the rows that the hold kept. A released hold cannot be restored."
            ),
            button=_t("Release"),
            back=page,
            reason=True,
        )
        if asked is not None:
            return asked
        hold.release(request.POST.get("reason", ""))
        messages.success(request, _t("Hold released."))
        return redirect(page)
