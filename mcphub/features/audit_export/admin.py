"""The pages of export destinations: content, progress, and a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminPasswordWidget

from mcphub.features.audit_export import service
from mcphub.features.audit_export.delivering import try_target
from mcphub.features.audit_export.destinations.kinds import missing
from mcphub.features.audit_export.models import ShippingState, ShippingTarget
from sessions_app.kit.admin.base import detail_action, mark, moment
from sessions_app.kit.entered import parts_of
from sessions_app.kit.shown import visible
from tools_catalog.admin.one_secret import OneSecretAdmin

if TYPE_CHECKING:
    _FormBase = forms.ModelForm[ShippingTarget]
else:
    _FormBase = forms.ModelForm

TEST = "invocations.test_shippingtarget"
_CHANGED = moment("updated_at", _("changed"))
_OWN = ("new_secret", "forget_secret")


class TargetForm(_FormBase):
    new_secret = forms.CharField(
        label=_("New secret"),
        strip=True,
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=_(
            "Webhook: the signing secret. OTLP: the header's value, such as Bearer …. S3: the secret access "
            "key. Write-only: encrypted at once and never shown again. Leave blank to keep the stored secret."
        ),
    )
    forget_secret = forms.BooleanField(label=_("Delete the secret"), required=False)

    class Meta:
        model = ShippingTarget
        exclude: list[str] = []

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        # Else whoever may edit the address, but does not know the secret, could have it sent to a host of his own.
        before, after = parts_of(self.initial.get("address") or ""), parts_of(cleaned.get("address") or "")
        moved = (before.scheme, before.netloc) != (after.scheme, after.netloc)
        if self.instance.ciphertext and moved and not cleaned.get("new_secret") and not cleaned.get("forget_secret"):
            self.add_error("address", _t("The address has another host. Enter the secret again, or delete it."))
        if cleaned.get("kind") == ShippingTarget.Kind.S3 and not (
            self.instance.ciphertext or cleaned.get("new_secret")
        ):
            self.add_error("new_secret", _t("S3 needs the secret access key."))
        return cleaned


@admin.register(ShippingTarget)
class ShippingTargetAdmin(OneSecretAdmin):
    form = TargetForm
    secret_fields = _OWN
    settled_fields = ("name", "begins")  # what has been delivered was begun somewhere
    status_fields = ("shown_state", "shown_lag", "shown_position", "shown_delivered", "shown_problem")
    list_display = ["name", "shown_state", "kind", "address", "content", "with_bodies", "shown_lag", _CHANGED]
    list_filter = ["kind", "enabled"]
    search_fields = ["name", "address"]
    readonly_fields = ["mask", _CHANGED, *status_fields]
    actions_detail = ["test_it"]
    fieldsets = [
        (None, {"fields": ["name", "kind", "address", "enabled"]}),
        (_("Progress"), {"fields": status_fields}),
        (_("Content"), {"fields": ["content", "with_bodies", "begins", "holds_retention"]}),
        (_("Secret"), {"fields": ["mask", *_OWN, "access_id", "header"]}),
        (
            _("Format"),
            {
                "classes": ["collapse"],
                "fields": ["format", "every_seconds", "file_mib", "region", "authority", _CHANGED],
            },
        ),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ShippingTarget]:
        return ShippingTarget.objects.with_lag()

    # How far it is -------------------------------------------------------------------------------

    @admin.display(description=_("state"))
    def shown_state(self, row: ShippingTarget) -> SafeString:
        state = _state(row)
        if not row.enabled:
            return mark("off", _t("Disabled"))
        if why := missing(row):
            return mark("bad", why)
        if state is None or (state.delivered_at is None and not state.failures):
            return mark("off", _t("Nothing delivered yet"))
        if state.failures:
            return mark("bad", _t("Failing"))
        return mark("good", _t("Delivering"))

    @admin.display(description=_("lag"))
    def shown_lag(self, row: ShippingTarget) -> str:
        lag = service.lag_of(row)
        rows = number_format(lag.rows, force_grouping=True)
        return _t("%(rows)s rows, %(seconds)d s") % {"rows": rows, "seconds": lag.seconds}

    @admin.display(description=_("position"))
    def shown_position(self, row: ShippingTarget) -> str:
        state = _state(row)
        if state is None:
            return "-"
        words = {"position": state.position, "rows": state.rows, "block": "-" if state.block is None else state.block}
        return _t("%(position)d (block %(block)s), %(rows)d rows delivered") % words

    @admin.display(description=_("last delivery"))
    def shown_delivered(self, row: ShippingTarget) -> str:
        state = _state(row)
        moment = state.delivered_at if state else None
        return timezone.localtime(moment).strftime("%Y-%m-%d %H:%M:%S") if moment else "-"

    @admin.display(description=_("problem"))
    def shown_problem(self, row: ShippingTarget) -> SafeString | str:
        state = _state(row)
        if state is None or not state.failures:
            return "-"
        words = _t("%(count)d consecutive failures:") % {"count": state.failures}
        return format_html("{} {}", words, visible(state.problem))

    # The trial -----------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        page = path("<int:pk>/test/", self.admin_site.admin_view(self.test_view), name="shipping_test")
        return [page, *super().get_urls()]

    def has_test_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return bool(request.user.has_perm(TEST))

    @detail_action(description=_("Test"), icon="network_check", url_path="test-it", permissions=["test"])
    def test_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:shipping_test", pk=object_id)

    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = get_object_or_404(ShippingTarget, pk=pk)
        if not self.has_test_permission(request):
            raise PermissionDenied
        asked = request.method == "POST"
        problem = try_target(row) if asked else ""
        outcome = mark("bad", _t("Not delivered")) if problem else mark("good", _t("Delivered"))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "object": row,
            "title": _t("Test"),
            "asked": asked,
            "outcome": outcome,
            "problem": visible(problem),
            "back": reverse("admin:invocations_shippingtarget_change", args=[pk]),
        }
        return TemplateResponse(request, "admin/hub/shipping_test.html", context)


def _state(row: ShippingTarget) -> ShippingState | None:
    found: ShippingState | None = getattr(row, "state", None)
    return found
