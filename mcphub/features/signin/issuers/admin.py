"""The pages of trusted issuers; a test that shows a token check by check."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.cache import add_never_cache_headers
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminPasswordWidget

from mcphub.features.signin.issuers import trial
from mcphub.features.signin.issuers.models import Issuer
from mcphub.features.signin.issuers.trust import MOST_CHARACTERS
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, mark, moment
from sessions_app.kit.shown import visible
from tools_catalog.secrets import SecretError

if TYPE_CHECKING:
    _FormBase = forms.ModelForm[Issuer]
else:
    _FormBase = forms.ModelForm

TEST = "signin.test_issuer"
_CHANGED = moment("updated_at", _("changed"))
_LINKED = moment("linked_at", _("linked"))


class IssuerForm(_FormBase):
    secret = forms.CharField(
        label=_("New client secret"),
        strip=True,
        required=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=_("Write-only: encrypted at once and never shown again. Leave blank to keep the stored secret."),
    )

    class Meta:
        model = Issuer
        exclude: list[str] = []

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        secret = str(cleaned.get("secret") or "")
        # Else whoever may edit the row, but does not know the secret, could have it sent to a host of his own.
        moved = any(name in self.changed_data for name in ("issuer", "question_address"))
        if self.instance.pk and self.instance.ciphertext and moved and not secret:
            self.instance.set_secret("")
            if cleaned.get("method") == Issuer.Method.ASKED:
                self.add_error("secret", _t("The address has changed. Enter the secret again."))
        if secret:
            self.instance.name = str(cleaned.get("name") or self.instance.name)
            self.instance.set_secret(secret)
        return cleaned


@admin.register(Issuer)
class IssuerAdmin(RecordedAdmin):
    form = IssuerForm
    list_display = ["name", "issuer", "shown_state", "method", "announced", _CHANGED]
    list_filter = ["enabled", "method"]
    search_fields = ["name", "issuer"]
    readonly_fields = ["mask", _CHANGED]
    actions_detail = ["test_it", "show_people"]
    fieldsets = [
        (None, {"fields": ["name", "issuer", "enabled", "announced", "method"]}),
        (_("Its keys"), {"fields": ["algorithms", "keys_address"]}),
        (_("Introspection"), {"fields": ["question_address", "client_id", "mask", "secret"]}),
        (_("Audience and scopes"), {"fields": ["audiences", "scope_claim", "scopes", "scopes_always"]}),
        (_("People"), {"fields": ["person_claim", "makes_people", "groups_claim", "groups"]}),
        (_("Enterprise-managed authorization"), {"fields": ["takes_assertions", _CHANGED]}),
    ]

    def get_readonly_fields(self, request: HttpRequest, obj: Issuer | None = None) -> list[str]:
        # The secret is sealed under the row's name, so the name stays.
        return [*self.readonly_fields, "name"] if obj is not None else list(self.readonly_fields)

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [
                (title, {**options, "fields": [each for each in options["fields"] if each != "secret"]})
                for title, options in self.fieldsets
            ]
        return self.fieldsets

    def get_form(
        self, request: HttpRequest, obj: Issuer | None = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[Model]]:
        fields = [
            name
            for _title, options in self.fieldsets
            for name in options["fields"]
            if isinstance(name, str) and name not in (*self.get_readonly_fields(request, obj), "secret")
        ]
        kwargs.setdefault("fields", fields)
        return super().get_form(request, obj, change, **kwargs)

    @admin.display(description=_("state"), ordering="enabled")
    def shown_state(self, row: Issuer) -> SafeString:
        return mark("good", _t("Trusted")) if row.enabled else mark("off", _t("Disabled"))

    # The test ------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        page = path("<int:pk>/test/", self.admin_site.admin_view(self.test_view), name="issuer_test")
        return [page, *super().get_urls()]

    def has_test_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return bool(request.user.has_perm(TEST))

    @detail_action(description=_("Test"), icon="network_check", url_path="test-it", permissions=["test"])
    def test_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("admin:issuer_test", pk=object_id)

    @detail_action(description=_("Linked identities"), icon="link", url_path="its-people", permissions=["view"])
    def show_people(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = get_object_or_404(Issuer, pk=object_id)
        return redirect(f"{reverse('admin:login_linkedidentity_changelist')}?{urlencode({'issuer': row.issuer})}")

    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        row = get_object_or_404(Issuer, pk=pk)
        if not self.has_test_permission(request):
            raise PermissionDenied
        found, problem = None, ""
        token = request.POST.get("token", "").strip().removeprefix("Bearer ").strip()
        if request.method == "POST":
            try:
                found = trial.run(row.trust(), token[: MOST_CHARACTERS + 1])
            except SecretError as error:
                problem = str(error)
        response = TemplateResponse(
            request,
            "admin/hub/issuer_test.html",
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "object": row,
                "issuer": row,
                "title": _t("Test"),
                "problem": problem,
                "found": found,
                "had_token": bool(token),
                "checks": [
                    {
                        "words": _WORDS.get(check.kind, check.kind),
                        "mark": mark("good", _t("OK")) if check.is_good else mark("bad", _t("Failed")),
                        "outcome": visible(check.words),
                    }
                    for check in (found.checks if found else ())
                ],
                "claims": [
                    (visible(name[:100]), visible(json.dumps(value, ensure_ascii=False)[:500]))
                    for name, value in list((found.claims if found else {}).items())[:100]
                ],
                "back": reverse("admin:signin_issuer_change", args=[pk]),
            },
        )
        add_never_cache_headers(response)
        return response


_WORDS = {
    "document": _("Document"),
    "keys": _("Keys"),
    "form": _("Format"),
    "algorithm": _("Algorithm"),
    "type": _("Type"),
    "key": _("Key id"),
    "signature": _("Signature"),
    "answer": _("Issuer response"),
    "issuer": _("Issuer"),
    "audience": _("Audience"),
    "lifetime": _("Lifetime"),
    "subject": _("Subject"),
    "scopes": _("Scopes"),
    "person": _("Person"),
}
