"""API keys: made, rotated and revoked here; the text of a key is shown once and kept nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import AnonymousUser, Group, User
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop, ngettext
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget

from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, is_confirmed, mark, moment, names_and_count, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import clipped
from sessions_app.models import ApiKey

if TYPE_CHECKING:
    _ApiKeyBase = forms.ModelForm[ApiKey]
else:
    _ApiKeyBase = forms.ModelForm

DAYS_VALID = 90

NEEDED = {
    ApiKey.Scope.AUDIT_READ.value: "invocations.read_bodies",
    ApiKey.Scope.CALLS_REPLAY.value: "invocations.replay_call",
    ApiKey.Scope.CATALOG_WRITE.value: "tools_catalog.change_mcptooldefinition",
}
"""Scope -> permission without which nobody may hand it out: a key must not do more than its maker."""


_FINAL = gettext_noop("Requests with the key are refused from now on. This cannot be undone; recorded calls stay.")

configurations: Callable[[str], Sequence[Any]] = lambda token: ()  # noqa: E731 - replaced by the floor above
"""Gives ready client configurations (title, where, text) for a key; the floor that knows the address sets it."""


def may_hold(user: User | AnonymousUser, scope: str) -> bool:
    return scope not in NEEDED or user.has_perm(NEEDED[scope])


def groups_beyond(user: User | AnonymousUser, groups: Iterable[Group]) -> list[Group]:
    """Give those of `groups` that `user` has not, and so may hand to nobody. A superuser has all."""
    if user.is_superuser:
        return []
    own = set(user.groups.values_list("pk", flat=True))
    return [group for group in groups if group.pk not in own]


def refuse_groups_beyond(user: User | AnonymousUser, groups: Iterable[Group]) -> None:
    """Raise ValidationError where `user` would hand out a group that is not his own."""
    if refused := groups_beyond(user, groups):
        raise forms.ValidationError(
            _("You may not hand out %(groups)s: you are in no such group. Ask a superuser."),
            params={"groups": ", ".join(sorted(group.name for group in refused))},
        )


class ApiKeyForm(_ApiKeyBase):
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=ApiKey.Scope.choices,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
        initial=ApiKey.DEFAULT_SCOPES,
        help_text=_("What the key may do. A key without scopes can do nothing."),
    )
    user: Any = None

    class Meta:
        model = ApiKey
        fields = ["name", "scopes", "groups", "calls_per_minute", "recorded_mib_per_day", "expires_at"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None and "expires_at" in self.fields:
            self.fields["expires_at"].initial = lambda: (timezone.now() + timedelta(days=DAYS_VALID)).replace(
                microsecond=0
            )

    def clean_scopes(self) -> list[str]:
        chosen: list[str] = self.cleaned_data["scopes"]
        had = self.instance.scopes if self.instance.pk else []
        refused = [scope for scope in chosen if scope not in had and not may_hold(self.user, scope)]
        if refused:
            raise forms.ValidationError(
                _("You may not hand out %(scopes)s: your own account lacks that permission."),
                params={"scopes": ", ".join(refused)},
            )
        return chosen

    def clean_groups(self) -> QuerySet[Group]:
        chosen: QuerySet[Group] = self.cleaned_data["groups"]
        had = set(self.instance.groups.all()) if self.instance.pk else set()
        refuse_groups_beyond(self.user, set(chosen) - had)
        return chosen


class RotationForm(forms.Form):
    overlap = forms.ChoiceField(
        label=_("The old text works on"),
        widget=UnfoldAdminSelectWidget,
        choices=[("0", _("not at all")), ("1", _("for an hour")), ("24", _("for a day")), ("168", _("for a week"))],
        help_text=_(
            "The old text works this long, so that clients can change to the new "
            "one. Choose “not at all” if the old text may have leaked."
        ),
    )


_CREATED = moment("created_at", _("created"))
_OVERLAP = moment("previous_until", _("old text works until"))
_EXPIRES = moment("expires_at", _("expires"))
_USED = moment("last_used_at", _("last used"))
_REVOKED = moment("revoked_at", _("revoked"))


@admin.register(ApiKey)
class ApiKeyAdmin(RecordedAdmin):
    form = ApiKeyForm
    list_display = ["name", "shown_prefix", "state", "shown_scopes", "created_by", _EXPIRES, _USED]
    list_select_related = ["created_by"]
    list_filter = ["expires_at", "last_used_at"]
    search_fields = ["name", "prefix"]
    search_help_text = _("Name or prefix")
    autocomplete_fields = ["groups"]
    actions = ["revoke_selected"]
    actions_detail = ["show_calls", "rotate", "revoke"]
    readonly_fields = ["shown_prefix", "state", "created_by", _CREATED, _USED, _OVERLAP, _REVOKED]
    add_fieldsets: Any = [
        (None, {"fields": ["name", "scopes", "groups"]}),
        (_("Limits"), {"fields": ["calls_per_minute", "recorded_mib_per_day", "expires_at"]}),
    ]
    fieldsets = [
        *add_fieldsets,
        (_("Use"), {"fields": ["shown_prefix", "state", "created_by", _CREATED, _USED, _OVERLAP, _REVOKED]}),
    ]

    shown_prefix = column(_("prefix"), lambda key: f"{key.prefix}…")

    @admin.display(description=_("state"))
    def state(self, key: ApiKey) -> SafeString:
        if key.revoked_at is not None:
            return mark("off", _("Revoked"))
        if not key.is_usable():
            return mark("warn", _("Expired"))
        return mark("good", _("Usable"))

    shown_scopes = column(_("scopes"), lambda key: ", ".join(key.scopes) or "-")

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        return [*self.readonly_fields] if obj is not None else []

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False  # calls on record name their key; it is revoked instead

    def get_form(
        self, request: HttpRequest, obj: Model | None = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[Model]]:
        form = super().get_form(request, obj, change, **kwargs)
        return type(form.__name__, (form,), {"user": request.user})

    # Making ------------------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: ApiKey, form: ModelForm[Model], change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        issued, request._key_text = ApiKey.issue(  # type: ignore[attr-defined]
            obj.name,
            scopes=obj.scopes,
            calls_per_minute=obj.calls_per_minute,
            recorded_mib_per_day=obj.recorded_mib_per_day,
            expires_at=obj.expires_at,
            created_by=request.user,
        )
        obj.pk = issued.pk
        obj._state.adding = False
        obj.refresh_from_db()

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        return self._shown_once(request, obj, request._key_text)  # type: ignore[attr-defined]

    def _shown_once(self, request: HttpRequest, key: ApiKey, text: str) -> HttpResponse:
        """The only page that ever shows a key; it is in no session, no message and no cache."""
        response = TemplateResponse(
            request,
            "admin/hub/key.html",
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "title": _t("Key made"),
                "key": key,
                "text": text,
                "configurations": configurations(text),
                "next": reverse("admin:sessions_app_apikey_change", args=[key.pk]),
            },
        )
        add_never_cache_headers(response)
        response["Referrer-Policy"] = "no-referrer"
        return response

    @detail_action(description=_("Calls"), icon="monitoring", url_path="its-calls", permissions=["calls"])
    def show_calls(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return redirect("key_calls", pk=object_id)

    def has_calls_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perms(["sessions_app.view_apikey", "invocations.view_mcptoolinvocation"])

    # Rotating and revoking ---------------------------------------------------------------------------

    def _key(self, object_id: str | None) -> ApiKey | None:
        return ApiKey.objects.filter(pk=object_id or 0).first() if str(object_id).isdecimal() else None

    def has_rotate_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        key = self._key(object_id)
        return (
            key is not None
            and key.is_usable()
            and self.has_change_permission(request, key)
            and all(may_hold(request.user, scope) for scope in key.scopes)
            and not groups_beyond(request.user, key.groups.all())
        )

    def has_end_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        key = self._key(object_id)
        return key is not None and key.revoked_at is None and self.has_change_permission(request, key)

    @detail_action(description=_("Rotate"), permissions=["rotate"], icon="autorenew")
    def rotate(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = row_of(self, request, object_id)
        form = RotationForm(request.POST if is_confirmed(request) else None)
        page = self.confirmation(
            request,
            title=_t("Rotate this key?"),
            items=[(str(key), "")],
            explanation=_t(
                "The key gets a new text, shown once. Until the old text ends, both work; a text from a rotation "
                "before ends at once."
            ),
            button=_t("Rotate the key"),
            back=reverse("admin:sessions_app_apikey_change", args=[key.pk]),
            danger=True,
            form=form,
        )
        if page is not None:
            return page
        key.change_reason = _t("rotated")
        text = key.rotate(timedelta(hours=int(form.cleaned_data["overlap"])))
        return self._shown_once(request, key, text)

    @detail_action(description=_("Revoke"), permissions=["end"], icon="block")
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = row_of(self, request, object_id)
        back = reverse("admin:sessions_app_apikey_change", args=[key.pk])
        page = self.confirmation(
            request,
            title=_t("Revoke this key?"),
            items=[(str(key), "")],
            explanation=_t(_FINAL),
            reason=True,
            button=_t("Revoke the key"),
            back=back,
            danger=True,
            typed=key.name,
        )
        if page is not None:
            return page
        ApiKey.objects.filter(pk=key.pk).revoke(request.POST.get("reason", ""))
        self.message_user(request, _t("The key is revoked."), messages.SUCCESS)
        return redirect(back)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return self.has_change_permission(request)

    @admin.action(description=_("Revoke the selected keys"), permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        total, back = queryset.count(), request.get_full_path()
        names, count = names_and_count(queryset.filter(revoked_at__isnull=True))
        explanation = _t(_FINAL)
        if total > count:
            before = ngettext("%(count)d was revoked already.", "%(count)d were revoked already.", total - count)
            explanation = f"{explanation} {before % {'count': total - count}}"
        if count:  # else there is nothing to ask about
            page = self.confirmation(
                request,
                title=ngettext("Revoke %(count)d key?", "Revoke %(count)d keys?", count) % {"count": count},
                items=names,
                explanation=explanation,
                button=_t("Revoke keys"),
                back=back,
                action="revoke_selected",
                danger=True,
                reason=True,
                typed=str(count),
                selected=list(queryset.values_list("pk", flat=True)),
            )
            if page is not None:
                return page
        rows, reason = [], request.POST.get("reason", "")
        for key in queryset:
            if ApiKey.objects.filter(pk=key.pk).revoke(reason):
                rows.append((clipped(key, 80), mark("good", _t("Revoked")), ""))
            else:
                rows.append((clipped(key, 80), mark("off", _t("Unchanged")), _t("was revoked already")))
        return self.outcomes_page(request, title=_t("What was done"), rows=rows, back=back)
