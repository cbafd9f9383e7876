"""The page of changes that wait for a second person, where each is confirmed or rejected."""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any, ClassVar

from django.apps import apps
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
from django.utils.translation import gettext_noop, ngettext

from sessions_app.filters import WAITING_FILTERS
from sessions_app.history import deciding, guarding, reading
from sessions_app.history.deciding import ConfirmationRefused
from sessions_app.kit.admin.base import ReadOnlyAdmin, detail_action, mark, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import INLINE_CHARACTERS, cell, clipped, visible
from sessions_app.models import McpWorkspace, WaitingChange

_MARKS = {"waiting": "wait", "confirmed": "good", "rejected": "bad", "replaced": "off", "expired": "off"}
_MOST_CHARACTERS = 200
"""In a list. Whoever decides reads all of it."""
_ONE_MORE = gettext_noop(
    "Your confirmation is recorded. Nobody is known to answer for the key that proposed it, so one more person "
    "must confirm it."
)
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
        (None, {"fields": ["shown_stage", "linked_subject", "shown_whole", "reason"]}),
        (_("Who"), {"fields": ["shown_proposer", "via", "needed", "shown_confirmations", "decided_by", "answer"]}),
        (_("When"), {"fields": [_PROPOSED, _EXPIRES, _DECIDED]}),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[WaitingChange]:
        return super().get_queryset(request) & guarding.seen_by(request.user)

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
        is_over, why = self._done(request, change, confirm=confirm)
        if why:
            messages.error(request, why)
        elif not is_over:
            messages.warning(request, _t(_ONE_MORE))
        else:
            messages.success(request, _t("The change is in effect.") if confirm else _t("The change is rejected."))
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
            is_over, why = self._done(request, change, confirm=confirm)
            done = mark("good", _t("Confirmed") if confirm else _t("Rejected"))
            if why:
                done = mark("bad", _t("Refused"))
            elif not is_over:
                done, why = mark("wait", _t("Waiting")), _t(_ONE_MORE)
            rows.append((clipped(change, 80), done, visible(why, one_line=True)))
        return self.outcomes_page(request, title=_t("Result"), rows=rows, back=back)

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
                "It takes effect at once, with your name next to the proposer's. It is refused if the row "
                "has changed since."
            )
            if confirm
            else _t("The row stays unchanged."),
            button=_t("Confirm") if confirm else _t("Reject"),
            back=back,
            action=action,
            danger=not confirm,
            reason=True,
            selected=[row.pk for row in queryset] if action else [],
        )

    def _done(self, request: HttpRequest, change: WaitingChange, *, confirm: bool) -> tuple[bool, str]:
        """Decide the change; return whether it is over, and the reason of a refusal."""
        reason = request.POST.get("reason", "").strip()
        try:
            if confirm:
                return deciding.confirm(change.pk, request.user, reason), ""
            deciding.reject(change.pk, request.user, reason)
        except ConfirmationRefused as error:
            return False, str(error)
        return True, ""

    @admin.display(description=_("state"))
    def shown_stage(self, change: WaitingChange) -> SafeString:
        word = _("Expired") if change.stage == "expired" else change.get_state_display()
        return mark(_MARKS[change.stage], word)

    shown_subject = column(_("subject"), lambda change: cell(change.subject_label))
    shown_proposer = column(
        _("proposed by"), lambda change: cell(f"{change.proposer_label} ({change.proposed_by})".strip())
    )

    shown_confirmations = column(
        _("confirmed by"), lambda change: cell(", ".join(name for _who, name in change.confirmations) or "-")
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
        return _divided(_lines(change, _MOST_CHARACTERS))

    @admin.display(description=_("change"))
    def shown_whole(self, change: WaitingChange) -> SafeString:
        return _divided(_lines(change))


def _divided(lines: list[str]) -> SafeString:
    return format_html_join("", "<div>{}</div>", ((line,) for line in lines))


def _in_words(change: WaitingChange) -> str:
    return "; ".join(_lines(change))


def _lines(change: WaitingChange, most: int = INLINE_CHARACTERS) -> list[str]:
    """Return each field with its current and proposed value, each of at most so many characters."""
    model = apps.get_model(change.subject_model)
    links = model.GUARDED_LINKS if issubclass(model, guarding.GuardedModel) else ()
    return [
        visible(
            f"{reading.label_of(model, name)}: "
            + " → ".join(
                _value(reading.chosen(model, name, value), name, links, most)
                for value in (change.before.get(name), after)
            ),
            one_line=True,
        )
        for name, after in change.after.items()
    ]


def _value(value: object, name: str, links: Container[str], most: int) -> str:
    if name == "workspace_id":
        found = McpWorkspace._default_manager.filter(pk=value).first() if isinstance(value, int) else None
        return str(found or value or _t("everybody"))
    if isinstance(value, list) and name in links:
        return clipped(", ".join(map(str, value)), most) or (_t("everybody") if name == "groups" else "-")
    if isinstance(value, bool):
        return _t("yes") if value else _t("no")
    if isinstance(value, list | dict):
        return clipped(json.dumps(value, ensure_ascii=False), most)
    return clipped("-" if value in (None, "") else value, most)
