"""The page of identity providers: a secret that goes in and never comes out, and a test that asks the provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminPasswordWidget

from mcphub.features.login.models import LoginProvider
from mcphub.features.login.providers import probe
from mcphub.features.login.providers.asking import redirect_uri
from sessions_app.admin.people import refuse_groups_beyond
from sessions_app.kit.admin.base import detail_action, mark, moment
from sessions_app.kit.shown import copyable, visible
from tools_catalog.admin.one_secret import OneSecretAdmin

if TYPE_CHECKING:
    _FormBase = forms.ModelForm[LoginProvider]
else:
    _FormBase = forms.ModelForm

_CHANGED = moment("updated_at", _("changed"))
_OWN = ("secret", "forget_secret")
_OF_OTHERS = {"oidc": ("login_address", "certificates"), "saml": ("mask", *_OWN, "scopes")}
"""Fields that a kind of provider does not use; the kind is chosen once."""


class LoginProviderForm(_FormBase):
    editor: Any = None

    secret = forms.CharField(
        label=_("New client secret"),
        strip=True,
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=_("Write-only: encrypted at once and never shown again. Leave blank to keep the stored secret."),
    )
    forget_secret = forms.BooleanField(
        label=_("Delete the secret"), required=False, help_text=_("For a public client, which has no secret.")
    )

    class Meta:
        model = LoginProvider
        exclude: list[str] = []

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        # Else whoever may edit the issuer, but does not know the secret, could have it sent to a host of his own.
        moved = self.initial.get("issuer", "") != cleaned.get("issuer", "")
        if self.instance.ciphertext and moved and not cleaned.get("secret") and not cleaned.get("forget_secret"):
            self.add_error("secret", _t("The issuer has changed. Enter the secret again, or delete it."))
        return cleaned

    def clean_groups(self) -> object:
        """Whoever maps a group hands it out, so it is one of their own, or was mapped before."""
        mapping = self.cleaned_data["groups"]
        if isinstance(mapping, dict):
            names = {str(name) for each in mapping.values() if isinstance(each, list) for name in each}
            before = LoginProvider.objects.filter(pk=self.instance.pk).first()
            names -= before.governed if before is not None else set()
            refuse_groups_beyond(self.editor, Group.objects.filter(name__in=names))
        return mapping


@admin.register(LoginProvider)
class LoginProviderAdmin(OneSecretAdmin):
    form = LoginProviderForm
    secret_fields = _OWN
    settled_fields = ("slug", "kind")  # the provider knows the short name as part of an address
    status_fields = ("shown_redirect",)
    list_display = ["name", "shown_state", "issuer", "admits", "mask", _CHANGED]
    list_filter = ["enabled", "admits"]
    search_fields = ["name", "slug", "issuer"]
    readonly_fields = ["mask", _CHANGED, "shown_redirect"]
    actions_detail = ["test_it"]
    fieldsets = [
        (None, {"fields": ["name", "slug", "kind", "enabled", "shown_redirect"]}),
        (_("At the provider"), {"fields": ["issuer", "client_id", "mask", "secret", "forget_secret", "scopes"]}),
        (_("SAML"), {"fields": ["login_address", "certificates"]}),
        (
            _("Who can log in"),
            {"fields": ["admits", "groups_claim", "groups", "directory_claim", "asks_second_factor"]},
        ),
        (_("New accounts"), {"fields": ["username_claim", "email_claim", _CHANGED]}),
    ]

    def hidden_fields(self, request: HttpRequest, obj: LoginProvider | None) -> tuple[str, ...]:
        return (*super().hidden_fields(request, obj), *(_OF_OTHERS[obj.kind] if obj is not None else ("mask",)))

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[Model]]:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"editor": request.user})

    @admin.display(description=_("state"))
    def shown_state(self, row: LoginProvider) -> SafeString:
        return mark("good", _t("On the login page")) if row.enabled else mark("off", _t("Disabled"))

    @admin.display(description=_("redirect URI to register"))
    def shown_redirect(self, row: LoginProvider) -> SafeString | str:
        return copyable(redirect_uri(row), "redirect") if row.pk else "-"

    # The test ------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        page = path("<int:pk>/test/", self.admin_site.admin_view(self.test_view), name="login_provider_test")
        return [page, *super().get_urls()]

    def has_test_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("login.change_loginprovider")

    @detail_action(description=_("Test"), icon="network_check", url_path="test-it", permissions=["test"])
    def test_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:login_provider_test", pk=object_id)

    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = get_object_or_404(LoginProvider, pk=pk)
        if not self.has_test_permission(request):
            raise PermissionDenied
        steps = probe.probe(row) if request.method == "POST" else []
        words = {
            probe.ISSUER: _t("Publishes its metadata"),
            probe.KEYS: _t("Publishes its keys"),
            probe.PKCE: _t("Supports PKCE"),
            probe.SCOPES: _t("Supports the scopes"),
            probe.LOGOUT: _t("Supports logout"),
        }
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "object": row,
            "title": _t("Test"),
            "redirect_uri": redirect_uri(row),
            "steps": [
                {
                    "words": words[step.kind],
                    "mark": mark("good", _t("OK"))
                    if step.is_good
                    else mark("warn", _t("No"))
                    if step.is_optional
                    else mark("bad", _t("Failed")),
                    "outcome": visible(step.detail),
                }
                for step in steps
            ],
            "back": reverse("admin:login_loginprovider_change", args=[pk]),
        }
        return TemplateResponse(request, "admin/hub/login_provider_test.html", context)
