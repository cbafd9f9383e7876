"""The page of changes that wait for a second person, where each is confirmed or rejected."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.filters import WAITING_FILTERS
from sessions_app.history import deciding
from sessions_app.history.deciding import ConfirmationRefused
from sessions_app.kit.admin.base import ReadOnlyAdmin, detail_action, mark, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, clipped, visible
from sessions_app.models import WaitingChange

_MARKS = {"waiting": "wait", "confirmed": "good", "rejected": "bad", "replaced": "off", "expired": "off"}
_MOST_CHARACTERS = 200
_PROPOSED = moment("created_at", _("proposed"))
_EXPIRES = moment("expires_at", _("expires"))
_DECIDED = moment("decided_at", _("decided"))


@admin.register(WaitingChange)
class WaitingChangeAdmin(ReadOnlyAdmin):
    list_display = [_PROPOSED, "shown_stage", "shown_subject", "shown_fields", "shown_proposer", _EXPIRES, "decided_by"]
    list_display_links = [_PROPOSED]
    filters = WAITING_FILTERS
    search_fields = ["subject_label"]
    search_help_text = _("Name of the row")
    actions = ["confirm_selected", "reject_selected"]
    actions_detail = ["confirm_it", "reject_it"]
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["shown_stage", "linked_subject", "shown_fields", "reason"]}),
        (_("Who"), {"fields": ["shown_proposer", "via", "decided_by", "answer"]}),
        (_("When"), {"fields": [_PROPOSED, _EXPIRES, _DECIDED]}),
    ]

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(deciding.PERMISSION)

    def has_confirm_it_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return self._may(request, object_id, confirm=True)

    def has_reject_it_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return self._may(request, object_id, confirm=False)

    @admin.action(description=_("Confirm the selected changes"), permissions=["decide"])
    def confirm_selected(self, request: HttpRequest, queryset: QuerySet[WaitingChange]) -> HttpResponse | None:
        return self._decide(request, queryset, confirm=True, action="confirm_selected")

    @admin.action(description=_("Reject the selected changes"), permissions=["decide"])
    def reject_selected(self, request: HttpRequest, queryset: QuerySet[WaitingChange]) -> HttpResponse | None:
        return self._decide(request, queryset, confirm=False, action="reject_selected")

    @detail_action(description=_("Confirm"), permissions=["confirm_it"], icon="check", url_path="confirm")
    def confirm_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._decide_one(request, object_id, confirm=True)

    @detail_action(description=_("Reject"), permissions=["reject_it"], icon="close", url_path="reject")
    def reject_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._decide_one(request, object_id, confirm=False)

    def _may(self, request: HttpRequest, object_id: str | None, *, confirm: bool) -> bool:
        change = WaitingChange.objects.filter(pk=object_id or 0).first() if str(object_id).isdecimal() else None
        return change is not None and not deciding.refusal_of(change, request.user, confirm=confirm)

    def _decide_one(self, request: HttpRequest, object_id: str, *, confirm: bool) -> HttpResponse:
        change = row_of(self, request, object_id)
        back = reverse("admin:sessions_app_waitingchange_change", args=[quote(change.pk)])
        asked = self._asked(request, WaitingChange.objects.filter(pk=change.pk), confirm=confirm, back=back)
        if asked is not None:
            return asked
        if why := self._done(request, change, confirm=confirm):
            messages.error(request, why)
        else:
            messages.success(request, _t("The change is in force.") if confirm else _t("The change is rejected."))
        return redirect(back)

    def _decide(
        self, request: HttpRequest, queryset: QuerySet[WaitingChange], *, confirm: bool, action: str
    ) -> HttpResponse:
        back = request.get_full_path()
        asked = self._asked(request, queryset, confirm=confirm, back=back, action=action)
        if asked is not None:
            return asked
        rows = []
        for change in queryset:
            why = self._done(request, change, confirm=confirm)
            done = mark("good", _t("Confirmed") if confirm else _t("Rejected"))
            rows.append((clipped(change, 80), mark("bad", _t("Refused")) if why else done, visible(why, one_line=True)))
        return self.outcomes_page(request, title=_t("What was done"), rows=rows, back=back)

    def _asked(
        self, request: HttpRequest, queryset: QuerySet[WaitingChange], *, confirm: bool, back: str, action: str = ""
    ) -> HttpResponse | None:
        def title(count: int) -> str:
            if confirm:
                return ngettext("Confirm %(count)d change?", "Confirm %(count)d changes?", count)
            return ngettext("Reject %(count)d change?", "Reject %(count)d changes?", count)

        rows = list(queryset[:50])
        count = queryset.count()
        return self.confirmation(
            request,
            title=title(count) % {"count": count},
            items=[(clipped(row, 80), _in_words(row)) for row in rows],
            explanation=_t(
                "It comes into force at once, with your name beside that of who proposed it. It is refused where the "
                "row was changed since."
            )
            if confirm
            else _t("The row stays as it is."),
            button=_t("Confirm") if confirm else _t("Reject"),
            back=back,
            action=action,
            danger=not confirm,
            reason=True,
            selected=[row.pk for row in queryset] if action else [],
        )

    def _done(self, request: HttpRequest, change: WaitingChange, *, confirm: bool) -> str:
        """Decide the change; give why that was refused."""
        decide = deciding.confirm if confirm else deciding.reject
        try:
            decide(change.pk, request.user, request.POST.get("reason", "").strip())
        except ConfirmationRefused as error:
            return str(error)
        return ""

    @admin.display(description=_("state"))
    def shown_stage(self, change: WaitingChange) -> SafeString:
        word = _("Expired") if change.stage == "expired" else change.get_state_display()
        return mark(_MARKS[change.stage], word)

    shown_subject = column(_("subject"), lambda change: cell(change.subject_label))
    shown_proposer = column(
        _("proposed by"), lambda change: cell(f"{change.proposer_label} ({change.proposed_by})".strip())
    )

    @admin.display(description=_("subject"))
    def linked_subject(self, change: WaitingChange) -> SafeString | str:
        app, _dot, model = change.subject_model.partition(".")
        try:
            address = reverse(f"admin:{app}_{model}_change", args=[quote(change.subject_id)])
        except NoReverseMatch:
            return cell(change.subject_label)
        return format_html('<a class="hub-link" href="{}">{}</a>', address, visible(change.subject_label))

    @admin.display(description=_("change"))
    def shown_fields(self, change: WaitingChange) -> SafeString:
        return format_html_join("", "<div>{}</div>", ((line,) for line in _lines(change)))


def _in_words(change: WaitingChange) -> str:
    return "; ".join(_lines(change))


def _lines(change: WaitingChange) -> list[str]:
    """Give each field with what it is and would be."""
    return [
        visible(f"{name}: {_value(change.before.get(name))} → {_value(after)}", one_line=True)
        for name, after in change.after.items()
    ]


def _value(value: object) -> str:
    if isinstance(value, list):
        return clipped(", ".join(map(str, value)), _MOST_CHARACTERS) or _t("everybody")
    if isinstance(value, bool):
        return _t("yes") if value else _t("no")
    return clipped(value, _MOST_CHARACTERS)
