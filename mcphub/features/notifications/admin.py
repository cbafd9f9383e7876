"""The pages of notices, of one's own subscriptions, and of deliveries with those that were given up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminPasswordWidget

from mcphub.features.notifications import noticing
from mcphub.features.notifications.catalogue import CHOSEN, KINDS
from mcphub.features.notifications.filters import DELIVERY_FILTERS, NOTICE_FILTERS
from mcphub.features.notifications.models import Delivery, Notice, Subscription, check_address, new_secret
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import ReadOnlyAdmin, detail_action, mark, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, mono

if TYPE_CHECKING:
    _FormBase = forms.ModelForm[Subscription]
else:
    _FormBase = forms.ModelForm

_FIRST, _LAST = moment("first_at", _("first")), moment("last_at", _("last"))
_ENDED = moment("ended_at", _("ended"))
_DUE, _MADE = moment("due_at", _("due")), moment("created_at", _("created"))
_STATES = {"waiting": "wait", "sent": "good", "dead": "bad"}


@admin.register(Notice)
class NoticeAdmin(ReadOnlyAdmin):
    list_display = ["shown_title", "shown_words", "shown_state", "count", _FIRST, _LAST]
    list_display_links = ["shown_title"]
    filters = NOTICE_FILTERS
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["shown_title", "shown_words", "shown_state", "shown_page"]}),
        (_("When"), {"fields": [_FIRST, _LAST, _ENDED, "count"]}),
    ]

    shown_title = column(_("kind"), lambda row: row.title, ordering="kind")
    shown_words = column(_("notification"), lambda row: row.words)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Notice]:
        return noticing.visible_to(request.user, super().get_queryset(request))  # type: ignore[arg-type]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> Any:
        """Show the list; its first page counts as seen."""
        answer = super().changelist_view(request, extra_context)
        if request.method == "GET" and getattr(answer, "status_code", 0) == 200 and not request.GET:
            newest = self.get_queryset(request).order_by("-pk").values_list("pk", flat=True).first()
            noticing.see(request.user, newest or 0)  # type: ignore[arg-type]
        return answer

    @admin.display(description=_("state"))
    def shown_state(self, row: Notice) -> SafeString:
        if row.ended_at is None:
            is_alarm = bool(row.described and row.described.is_alarm)
            return mark("bad" if is_alarm else "warn", _t("Ongoing"))
        ends = bool(row.described and row.described.ends)
        return mark("good", _t("Over")) if ends else mark("off", _t("Happened once"))

    @admin.display(description=_("where to act"))
    def shown_page(self, row: Notice) -> SafeString | str:
        if row.described is None:
            return "-"
        address = reverse(f"admin:{row.described.page}_changelist")
        return format_html('<a class="hub-link" href="{}">{}</a>', address, _t("Open the list"))


class SubscriptionForm(_FormBase):
    kinds = forms.MultipleChoiceField(
        label=_("Kinds"),
        required=False,
        choices=lambda: [(name, KINDS[name].title) for name in CHOSEN],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Notifications cover only records you can view. Choose none for all kinds."),
    )
    address = forms.CharField(
        label=_("New address"),
        required=False,
        max_length=2000,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
        help_text=_(
            "An e-mail address, or the https URL of a webhook. Write-only: encrypted at once. Leave blank to "
            "keep the stored address. Not needed for the console."
        ),
    )
    renew_secret = forms.BooleanField(
        label=_("Create a new secret"),
        required=False,
        help_text=_("For signed webhooks. The new secret is shown once, and the old one stops signing."),
    )

    class Meta:
        model = Subscription
        exclude: list[str] = []

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        way, address = str(cleaned.get("way", "")), str(cleaned.get("address") or "").strip()
        is_moved = self.instance.pk is not None and self.initial.get("way") != way
        keeps = bool(self.instance.address_ciphertext) and not is_moved and not address
        if way and not keeps:
            try:
                check_address(way, address)
            except ValidationError as error:
                self.add_error("address", error)
        return cleaned


@admin.register(Subscription)
class SubscriptionAdmin(RecordedAdmin):
    form = SubscriptionForm
    list_display = ["name", "shown_owner", "shown_way", "shown_where", "shown_kinds", "shown_state"]
    search_fields = ["name"]
    actions_detail = ["test_it"]
    fieldsets = [
        (None, {"fields": ["name", "group", "enabled", "kinds"]}),
        (_("Channel"), {"fields": ["way", "shown_where", "address", "renew_secret", "language"]}),
        (_("When"), {"fields": ["group_seconds", "quiet_from", "quiet_to", "zone", "alarms_at_once"]}),
    ]
    readonly_fields = ["shown_where", "shown_state"]

    shown_owner = column(_("group"), lambda row: row.group or "-", ordering="group")
    shown_way = column(_("channel"), lambda row: row.get_way_display(), ordering="way")
    shown_where = column(_("address"), lambda row: mono(row.shown_address or "-"))
    shown_kinds = column(
        _("kinds"), lambda row: ", ".join(str(KINDS[each].title) for each in row.kinds if each in KINDS) or _t("all")
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Subscription]:
        """A person sees their own and their groups': an address may be a password, and notifications are personal."""
        rows = super().get_queryset(request).select_related("group")
        return rows.filter(noticing.managed_by(request.user))  # type: ignore[arg-type]  # the console has people alone

    def shows_deleted(self, request: HttpRequest) -> bool:
        """Return whether the person may read all history: nobody knows any more whose the row was."""
        return request.user.has_perm("sessions_app.view_auditevent")

    def get_form(
        self, request: HttpRequest, obj: Subscription | None = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[Model]]:
        own = {"shown_where", "address", "renew_secret"}
        fields = [name for _title, options in self.fieldsets for name in options["fields"] if str(name) not in own]
        kwargs.setdefault("fields", fields)
        form = super().get_form(request, obj, change, **kwargs)
        editor: Any = request.user

        class OfPerson(form):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                if self.instance.pk is None:
                    self.fields["language"].initial = get_language() or "en"
                if "group" in self.fields:
                    groups = Group.objects.all() if editor.is_superuser else editor.groups.all()
                    self.fields["group"].queryset = groups.order_by("name")
                    self.fields["group"].empty_label = _t("only me")

            def clean(self) -> Any:
                cleaned = super().clean()
                if self.instance.pk is None:
                    self.instance.person = None if cleaned.get("group") else editor
                return cleaned

        return OfPerson

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        hidden = () if obj is not None else ("shown_where", "renew_secret")
        return [
            (title, {**options, "fields": [each for each in options["fields"] if each not in hidden]})
            for title, options in self.fieldsets
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return [*self.readonly_fields, *(["group"] if obj is not None else [])]

    def save_model(self, request: HttpRequest, obj: Subscription, form: ModelForm[Model], change: bool) -> None:
        address = form.cleaned_data.get("address", "")
        if address or obj.way == Subscription.Way.CONSOLE:
            obj.set_address(address)
        secret = ""
        if obj.way == Subscription.Way.WEBHOOK and (not obj.secret_ciphertext or form.cleaned_data.get("renew_secret")):
            secret = new_secret()
            obj.set_secret(secret)
        super().save_model(request, obj, form, change)
        if secret:  # of a row that is saved: the form may be read twice
            self.message_user(
                request,
                format_html(
                    '{} <code class="hub-mono">{}</code>', _t("The webhook's signing secret is shown only now:"), secret
                ),
                messages.WARNING,
            )

    @admin.display(description=_("state"))
    def shown_state(self, row: Subscription) -> SafeString:
        if not row.enabled:
            return mark("off", _t("Disabled"))
        if row.failing_since is not None:
            return format_html("{} {}", mark("bad", _t("Failing")), row.last_error)
        return mark("good", _t("On"))

    def has_test_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("telling.change_subscription")

    @detail_action(description=_("Send a test"), icon="send", url_path="test-it", permissions=["test"])
    def test_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = row_of(self, request, object_id)
        back = reverse("admin:telling_subscription_change", args=[quote(row.pk)])
        asked = self.confirmation(
            request,
            title=_t("Send a test?"),
            items=[(row.name, row.shown_address)],
            explanation=_t("A test notification is sent immediately, even during quiet hours."),
            button=_t("Send a test"),
            back=back,
        )
        if asked is not None:
            return asked
        noticing.test(row, request.user.get_username())
        messages.success(request, _t("The test was sent. See the list of deliveries for the result."))
        return redirect(back)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ["shown_notice", "shown_state", "shown_place", "tries", _DUE, _ENDED, "error"]
    list_display_links = ["shown_notice"]
    list_select_related = ["notice", "subscription"]
    filters = DELIVERY_FILTERS
    actions = ["replay_selected"]
    fieldsets: ClassVar[Any] = [
        (None, {"fields": ["shown_notice", "shown_state", "shown_place", "mark", "tries", "error"]}),
        (_("When"), {"fields": [_MADE, _DUE, _ENDED]}),
    ]

    shown_notice = column(_("notification"), lambda row: cell(row.notice.title))
    shown_state = column(_("state"), lambda row: mark(_STATES[row.state], row.get_state_display()), ordering="state")
    shown_place = column(
        _("channel"), lambda row: format_html("{} {}", row.subscription.name, mono(row.subscription.shown_address))
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        managed = noticing.managed_by(request.user)  # type: ignore[arg-type]  # the console has people alone
        return super().get_queryset(request).filter(subscription__in=Subscription.objects.filter(managed))

    def has_replay_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("telling.replay_delivery")

    @admin.action(description=_("Resend the selected"), permissions=["replay"])
    def replay_selected(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> Any:
        page = self.confirmation_of(
            request,
            queryset,
            "replay_selected",
            lambda count: ngettext("Resend %(count)d delivery?", "Resend %(count)d deliveries?", count),
            _t("The receiver gets the same message IDs and can detect duplicates."),
            _t("Resend"),
            touched=queryset.exclude(state=Delivery.State.WAITING),
        )
        if page is not None:
            return page
        done = noticing.replay(queryset)
        words = ngettext("%(count)d delivery is being resent.", "%(count)d deliveries are being resent.", done)
        self.message_user(request, words % {"count": done}, messages.SUCCESS)
        return None
