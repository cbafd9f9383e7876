"""The pages of callbacks that clients subscribed, which an operator may end, and of events of upstreams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcphub.features.events import arguments, offers, subscribing
from mcphub.features.events.arguments import ArgumentsMisfit
from mcphub.features.events.models import EventSubscription, UpstreamEvent
from mcphub.features.notifications.catalogue import title_of
from sessions_app.history import events
from sessions_app.kit.admin.base import ReadOnlyAdmin, detail_action, is_confirmed, mark, moment, row_of
from sessions_app.kit.admin.json_field import JSONFormField
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, clipped, mono
from sessions_app.protocol import json

_MOST_SHOWN = 2000
"""Characters of a schema beside its field; the page of the type has all of them."""
_MADE, _EXPIRES = moment("created_at", _("created")), moment("expires_at", _("expires"))
_RECEIVED = moment("last_received_at", _("last received"))
_SENT, _FAILING = moment("last_sent_at", _("last sent")), moment("failing_since", _("failing since"))


@admin.register(EventSubscription)
class EventSubscriptionAdmin(ReadOnlyAdmin):
    list_display = ["shown_event", "shown_caller", "shown_callback", "shown_state", "sent", "abandoned", _EXPIRES]
    list_display_links = ["shown_event"]
    search_fields = ["caller_label", "name", "mark"]
    search_help_text = _("Caller, event or ID")
    actions = ["end_selected"]
    actions_detail = ["end_it"]
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["shown_event", "shown_arguments", "shown_caller", "shown_callback", "shown_id"]}),
        (_("Deliveries"), {"fields": ["shown_state", "sent", "abandoned", _SENT, _FAILING]}),
        (_("When"), {"fields": [_MADE, _EXPIRES]}),
    ]

    shown_event = column(
        _("event"), lambda row: format_html("{} {}", cell(title_of(row.name)), mono(row.name)), ordering="name"
    )
    shown_caller = column(_("caller"), lambda row: cell(row.caller_label), ordering="caller_label")
    shown_callback = column(_("callback"), lambda row: mono(row.shown_url))
    shown_id = column(_("ID"), lambda row: mono(row.mark))
    shown_arguments = column(_("arguments"), lambda row: mono(json.dumps(row.arguments).decode()))

    @admin.display(description=_("state"))
    def shown_state(self, row: EventSubscription) -> SafeString:
        if row.is_ending:
            return mark("off", _t("Ending"))
        if row.failing_since is not None:
            return format_html("{} {}", mark("bad", _t("Failing")), mono(row.last_error))
        return mark("good", _t("On"))

    def has_end_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("events.delete_eventsubscription")

    @detail_action(description=_("End"), icon="cancel", url_path="end-it", permissions=["end"])
    def end_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = self.get_queryset(request).filter(pk=row_of(self, request, object_id).pk)
        back = reverse("admin:events_eventsubscription_change", args=[object_id])
        # It is gone soon after: the list has the others.
        return self._ended(request, row, back) or redirect("admin:events_eventsubscription_changelist")

    @admin.action(description=_("End the selected"), permissions=["end"])
    def end_selected(self, request: HttpRequest, queryset: QuerySet[EventSubscription]) -> Any:
        return self._ended(request, queryset)

    def _ended(self, request: HttpRequest, queryset: QuerySet[EventSubscription], back: str = "") -> Any:
        page = self.confirmation_of(
            request,
            queryset,
            "end_selected",
            lambda count: ngettext("End %(count)d event subscription?", "End %(count)d event subscriptions?", count),
            _t(
                "The callbacks are notified of the end and get no further events. A client may subscribe again while "
                "its access lasts."
            ),
            _t("End"),
            reason=True,
            danger=True,
            back=back,
        )
        if page is not None:
            return page
        why = request.POST.get("reason", "").strip()
        done = subscribing.end_by_operator(queryset, events.actor_of(request.user), why)
        words = ngettext("%(count)d event subscription ended.", "%(count)d event subscriptions ended.", done)
        self.message_user(request, words % {"count": done}, messages.SUCCESS)
        return None


class EventArgumentsForm(forms.Form):
    """The arguments that a type of events is received with, beside the schema that they have to fit."""

    given = JSONFormField(label=_("arguments"))

    def __init__(self, data: Any, *, row: UpstreamEvent) -> None:
        super().__init__(data, initial={"given": row.arguments})
        self._row = row
        field = self.fields["given"]
        field.help_text = _t("One set for all clients, by this schema: %(schema)s") % {
            "schema": clipped(json.dumps(row.offered["inputSchema"]).decode(), _MOST_SHOWN)
        }
        field.widget.attrs["rows"] = 5

    @property
    def arguments(self) -> Any:
        return self.cleaned_data.get("given") if self.is_bound and self.is_valid() else None

    def clean_given(self) -> Any:
        given = self.cleaned_data["given"]
        if words := arguments.problem(self._row.offered, given):
            raise ValidationError(words)
        return given


@admin.register(UpstreamEvent)
class UpstreamEventAdmin(ReadOnlyAdmin):
    list_display = ["name", "shown_state", "received", "repeated", "refused", "gaps", _RECEIVED]
    search_fields = ["name"]
    search_help_text = _("Event")
    actions = ["approve_selected", "stop_selected"]
    actions_detail = ["approve_it", "stop_it"]
    list_select_related = ["connection__event_source"]
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["name", "connection", "shown_state", "shown_offered", "shown_approved", "shown_arguments"]}),
        (_("Received"), {"fields": ["received", "repeated", "refused", "last_refusal", "gaps", _RECEIVED]}),
    ]

    shown_offered = column(_("definition"), lambda row: mono(json.dumps(row.offered).decode()))
    shown_approved = column(_("approved definition"), lambda row: mono(json.dumps(row.approved).decode()))
    shown_arguments = column(_("arguments"), lambda row: mono(json.dumps(row.arguments).decode()))

    @admin.display(description=_("state"))
    def shown_state(self, row: UpstreamEvent) -> SafeString:
        if row.state == "failing":
            return format_html("{} {}", mark("bad", _t("Failing")), cell(row.problem))
        shown = {
            "waits": ("wait", _t("Waits for approval")),
            "gone": ("bad", _t("No longer offered")),
            "changed": ("wait", _t("Changed at the upstream: approve it again")),
            "on": ("good", _t("On")),
        }
        found = mark(*shown[row.state])
        return format_html("{} {}", found, cell(row.misfit)) if row.misfit else found

    def has_decide_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("tools_catalog.approve_mcpupstreamtool")

    @detail_action(description=_("Approve"), icon="check_circle", url_path="approve-it", permissions=["decide"])
    def approve_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        back = reverse("admin:events_upstreamevent_change", args=[object_id])
        return self._approved(request, self._row(request, object_id), back) or redirect(back)

    @detail_action(description=_("Stop"), icon="cancel", url_path="stop-it", permissions=["decide"])
    def stop_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        back = reverse("admin:events_upstreamevent_change", args=[object_id])
        return self._stopped(request, self._row(request, object_id), back) or redirect(back)

    def _row(self, request: HttpRequest, object_id: str) -> QuerySet[UpstreamEvent]:
        return self.get_queryset(request).filter(pk=row_of(self, request, object_id).pk)

    @admin.action(description=_("Approve the selected"), permissions=["decide"])
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[UpstreamEvent]) -> Any:
        return self._approved(request, queryset)

    def _approved(self, request: HttpRequest, queryset: QuerySet[UpstreamEvent], back: str = "") -> Any:
        form = self._arguments_form(request, queryset)
        return self._decided(
            request,
            queryset,
            "approve_selected",
            lambda row, who, why: offers.approve(row, who, why, None if form is None else form.arguments),
            lambda count: ngettext("Approve %(count)d upstream event?", "Approve %(count)d upstream events?", count),
            _t("The hub receives them, and serves them to every client that sees a tool of the upstream."),
            _t("Approve"),
            form=form,
            back=back,
        )

    def _arguments_form(self, request: HttpRequest, queryset: QuerySet[UpstreamEvent]) -> EventArgumentsForm | None:
        """Return the form for the arguments of the one type that is selected; None where none are asked for."""
        rows = list(queryset[:2])
        if len(rows) != 1 or "inputSchema" not in rows[0].offered:
            return None
        return EventArgumentsForm(request.POST if is_confirmed(request) else None, row=rows[0])

    @admin.action(description=_("Stop the selected"), permissions=["decide"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[UpstreamEvent]) -> Any:
        return self._stopped(request, queryset)

    def _stopped(self, request: HttpRequest, queryset: QuerySet[UpstreamEvent], back: str = "") -> Any:
        return self._decided(
            request,
            queryset,
            "stop_selected",
            offers.stop,
            lambda count: ngettext("Stop %(count)d upstream event?", "Stop %(count)d upstream events?", count),
            _t("The hub stops receiving them, and subscriptions to them end."),
            _t("Stop"),
            danger=True,
            back=back,
        )

    def _decided(
        self,
        request: HttpRequest,
        queryset: QuerySet[UpstreamEvent],
        name: str,
        decide: Callable[[UpstreamEvent, events.Actor, str], bool],
        question: Callable[[int], str],
        words: str,
        verb: str,
        **more: Any,
    ) -> Any:
        page = self.confirmation_of(request, queryset, name, question, words, verb, reason=True, **more)
        if page is not None:
            return page
        who, why, done = events.actor_of(request.user), request.POST.get("reason", "").strip(), 0
        for row in queryset:
            try:
                done += decide(row, who, why)
            except ArgumentsMisfit as error:
                self.message_user(request, error.message, messages.ERROR)
        told = ngettext("%(count)d upstream event changed.", "%(count)d upstream events changed.", done)
        self.message_user(request, told % {"count": done}, messages.SUCCESS)
        return None
