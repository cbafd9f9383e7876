"""The pages of providers and models: a key that goes in and never comes out, and a test that asks for real."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminPasswordWidget

from mcphub.features.chat.models import ChatKey, ChatModel, ChatProvider, ChatProviderState
from mcphub.features.chat.providers import health, probe
from mcphub.features.chat.providers.snapshot import model_of, provider_of
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, mark, moment
from sessions_app.kit.entered import parts_of
from sessions_app.kit.shown import mono, visible
from tools_catalog.admin.one_secret import OneSecretAdmin

if TYPE_CHECKING:
    _FormBase = forms.ModelForm[ChatProvider]
else:
    _FormBase = forms.ModelForm

TEST = "chat.test_chatprovider"
_CHANGED = moment("updated_at", _("changed"))


class ProviderForm(_FormBase):
    key = forms.CharField(
        label=_("New key"),
        strip=True,
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=_("Write-only: encrypted at once and never shown again. Leave blank to keep the stored key."),
    )
    forget_key = forms.BooleanField(
        label=_("Delete the key"), required=False, help_text=_("For a provider without authentication.")
    )

    class Meta:
        model = ChatProvider
        exclude: list[str] = []

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        # Else whoever may edit the address, but does not know the key, could have it sent to a host of his own.
        before, after = parts_of(self.initial.get("base_url", "")), parts_of(cleaned.get("base_url", ""))
        moved = (before.scheme, before.netloc) != (after.scheme, after.netloc)
        if self.instance.ciphertext and moved and not cleaned.get("key") and not cleaned.get("forget_key"):
            self.add_error("key", _t("The address has another host. Enter the key again, or delete it."))
        return cleaned


@admin.register(ChatProvider)
class ChatProviderAdmin(OneSecretAdmin):
    form = ProviderForm
    secret_fields = ("key", "forget_key")
    settled_fields = ("slug",)
    status_fields = ("shown_state", "shown_failure", "shown_times")
    list_display = ["slug", "shown_state", "kind", "base_url", "mask", "enabled", _CHANGED]
    list_filter = ["kind", "enabled"]
    list_select_related = ["state"]
    search_fields = ["slug", "base_url"]
    readonly_fields = ["mask", _CHANGED, *status_fields]
    actions_detail = ["test_it", "show_models"]
    fieldsets = [
        (None, {"fields": ["slug", "kind", "base_url", "enabled", "tools_offered"]}),
        (_("Status"), {"fields": status_fields}),
        (_("Key"), {"fields": ["mask", *secret_fields, "headers"]}),
        (
            _("Timeouts and retries"),
            {
                "classes": ["collapse"],
                "fields": [
                    "retries",
                    "connect_seconds",
                    "first_byte_seconds",
                    "idle_seconds",
                    "total_seconds",
                    "breaker_failures",
                    _CHANGED,
                ],
            },
        ),
    ]

    # How it does ---------------------------------------------------------------------------------

    @admin.display(description=_("state"))
    def shown_state(self, row: ChatProvider) -> SafeString:
        state = _state(row)
        if not row.enabled:
            return mark("off", _t("Disabled"))
        if state is None:
            return mark("good", _t("No failures recorded"))
        if state.rests_until is not None and state.rests_until > timezone.now():
            until = timezone.localtime(state.rests_until).strftime("%H:%M:%S")
            return mark("bad", _t("Circuit open until %(time)s") % {"time": until})
        if not state.is_failing:
            return mark("good", _t("Recovered"))
        words = {"QUOTA_EXCEEDED": _t("Quota used up"), "AUTHENTICATION_FAILED": _t("Key rejected")}
        return mark("bad", words.get(state.failure_code) or _t("Failed; the next request retries it"))

    @admin.display(description=_("last failure"))
    def shown_failure(self, row: ChatProvider) -> SafeString | str:
        state = _state(row)
        return format_html("{} {}", mono(state.failure_code), visible(state.failure)) if state else "-"

    @admin.display(description=_("failed, then recovered"))
    def shown_times(self, row: ChatProvider) -> str:
        state = _state(row)
        times = (state.failed_at, state.recovered_at) if state else (None, None)
        return " . ".join(timezone.localtime(each).strftime("%Y-%m-%d %H:%M:%S") if each else "-" for each in times)

    # The test ------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        page = path("<int:pk>/test/", self.admin_site.admin_view(self.test_view), name="provider_test")
        return [page, *super().get_urls()]

    def has_test_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return bool(request.user.has_perm(TEST))

    @detail_action(description=_("Test"), icon="network_check", url_path="test-it", permissions=["test"])
    def test_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:provider_test", pk=object_id)

    @detail_action(description=_("Its models"), icon="smart_toy", url_path="its-models", permissions=["view"])
    def show_models(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect(f"{reverse('admin:chat_chatmodel_changelist')}?provider__id__exact={int(object_id)}")

    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = get_object_or_404(ChatProvider, pk=pk)
        if not self.has_test_permission(request):
            raise PermissionDenied
        models = list(row.models.order_by("-is_default", "name"))
        chosen = next((each for each in models if str(each.pk) == request.POST.get("model")), None)
        steps: list[probe.ProbeStep] = []
        if request.method == "POST" and chosen is not None:
            steps = async_to_sync(probe.probe)(model_of(chosen, provider_of(row)))
            if any(step.kind == probe.ANSWER and step.is_good for step in steps):
                health.answered(row.slug)
        words = {
            probe.ADDRESS: _t("Address allowed"),
            probe.KEY: _t("The key can be decrypted"),
            probe.ANSWER: _t("Responds"),
            probe.STREAM: _t("Streams"),
            probe.TOOLS: _t("Calls functions"),
            probe.SCHEMA: _t("Follows a JSON schema"),
        }
        return TemplateResponse(
            request,
            "admin/hub/provider_test.html",
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "object": row,
                "provider": row,
                "title": _t("Test"),
                "models": models,
                "chosen": chosen,
                "ran": bool(steps),
                "steps": [
                    {
                        "words": words[step.kind],
                        "mark": mark("good", _t("OK")) if step.is_good else mark("bad", _t("Failed")),
                        "outcome": visible(step.outcome),
                        "milliseconds": step.milliseconds,
                    }
                    for step in steps
                ],
                "back": reverse("admin:chat_chatprovider_change", args=[pk]),
            },
        )


def _state(row: ChatProvider) -> ChatProviderState | None:
    found: ChatProviderState | None = getattr(row, "state", None)
    return found


@admin.register(ChatModel)
class ChatModelAdmin(RecordedAdmin):
    list_display = ["shown_id", "enabled", "is_default", "tools", "json_schema", "streams", "shown_aliases"]
    list_display_links = ["shown_id"]
    list_filter = ["provider", "enabled"]
    list_select_related = ["provider"]
    search_fields = ["name"]
    readonly_fields = [_CHANGED]
    fieldsets = [
        (None, {"fields": ["provider", "name", "aliases", "enabled", "is_default"]}),
        (_("Capabilities"), {"fields": ["tools", "parallel_tools", "json_schema", "streams", "usage_in_stream"]}),
        (_("If it can't be reached"), {"fields": ["fallbacks", _CHANGED]}),
    ]

    @admin.display(description=_("model"), ordering="name")
    def shown_id(self, row: ChatModel) -> SafeString:
        return mono(row.public_id)

    @admin.display(description=_("aliases"))
    def shown_aliases(self, row: ChatModel) -> str:
        return visible(", ".join(row.aliases)) or "-"


@admin.register(ChatKey)
class ChatKeyAdmin(RecordedAdmin):
    list_display = ["key", "model", "tools"]
    list_select_related = ["key", "model__provider"]
    fields = ["key", "model", "tools", "tool_names"]
