"""The pages of callbacks that clients subscribed, which an operator may end, and of events of upstreams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from mcphub.features.events import offers, subscribing
from mcphub.features.events.models import EventSubscription, UpstreamEvent
from mcphub.features.notifications.catalogue import title_of
from sessions_app.history import events
from sessions_app.kit.admin.base import ReadOnlyAdmin, mark, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, mono
from sessions_app.protocol import json

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

    def has_end_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("events.delete_eventsubscription")

    @admin.action(description=_("End the selected"), permissions=["end"])
    def end_selected(self, request: HttpRequest, queryset: QuerySet[EventSubscription]) -> Any:
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
        )
        if page is not None:
            return page
        why = request.POST.get("reason", "").strip()
        done = subscribing.end_by_operator(queryset, events.actor_of(request.user), why)
        words = ngettext("%(count)d event subscription ended.", "%(count)d event subscriptions ended.", done)
        self.message_user(request, words % {"count": done}, messages.SUCCESS)
        return None


@admin.register(UpstreamEvent)
class UpstreamEventAdmin(ReadOnlyAdmin):
    list_display = ["name", "shown_state", "received", "repeated", "refused", "gaps", _RECEIVED]
    search_fields = ["name"]
    search_help_text = _("Event")
    actions = ["approve_selected", "stop_selected"]
    list_select_related = ["connection__event_source"]
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["name", "connection", "shown_state", "shown_offered", "shown_approved"]}),
        (_("Received"), {"fields": ["received", "repeated", "refused", "last_refusal", "gaps", _RECEIVED]}),
    ]

    shown_offered = column(_("definition"), lambda row: mono(json.dumps(row.offered).decode()))
    shown_approved = column(_("approved definition"), lambda row: mono(json.dumps(row.approved).decode()))

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
        return mark(*shown[row.state])

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_catalog.approve_mcpupstreamtool")

    @admin.action(description=_("Approve the selected"), permissions=["decide"])
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[UpstreamEvent]) -> Any:
        return self._decided(
            request,
            queryset,
            "approve_selected",
            offers.approve,
            lambda count: ngettext("Approve %(count)d upstream event?", "Approve %(count)d upstream events?", count),
            _t("The hub receives them, and serves them to every client that sees a tool of the upstream."),
            _t("Approve"),
        )

    @admin.action(description=_("Stop the selected"), permissions=["decide"])
    def stop_selected(self, request: HttpRequest, queryset: QuerySet[UpstreamEvent]) -> Any:
        return self._decided(
            request,
            queryset,
            "stop_selected",
            offers.stop,
            lambda count: ngettext("Stop %(count)d upstream event?", "Stop %(count)d upstream events?", count),
            _t("The hub receives them no more, and subscriptions to them end."),
            _t("Stop"),
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
    ) -> Any:
        page = self.confirmation_of(
            request, queryset, name, question, words, verb, reason=True, danger=decide is offers.stop
        )
        if page is not None:
            return page
        who, why = events.actor_of(request.user), request.POST.get("reason", "").strip()
        done = sum(decide(row, who, why) for row in queryset)
        told = ngettext("%(count)d upstream event changed.", "%(count)d upstream events changed.", done)
        self.message_user(request, told % {"count": done}, messages.SUCCESS)
        return None
