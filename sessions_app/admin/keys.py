"""API keys: made, rotated and revoked here; the text of a key is shown once and kept nowhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop, ngettext
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from sessions_app import accountable
from sessions_app.history.pages import RecordedAdmin
from sessions_app.keys import making, reminding
from sessions_app.kit.admin.base import detail_action, is_confirmed, mark, moment, names_and_count, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, clipped, visible
from sessions_app.models import ApiKey
from sessions_app.models.keys import may_hold
from sessions_app.workspaces.pages import WorkspacePages
from sessions_app.workspaces.scope import current

if TYPE_CHECKING:
    _ApiKeyBase = forms.ModelForm[ApiKey]
else:
    _ApiKeyBase = forms.ModelForm

_FINAL = gettext_noop("Requests with this key are refused from now on. This can't be undone; recorded calls remain.")

configurations: Callable[[str], Sequence[Any]] = lambda token: ()  # noqa: E731 - replaced by the floor above
"""Gives ready client configurations (title, where, text) for a key; the floor that knows the address sets it."""


class ApiKeyForm(_ApiKeyBase):
    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        choices=ApiKey.Scope.choices,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        required=False,
        initial=ApiKey.DEFAULT_SCOPES,
        help_text=_("The key's permissions. A key without scopes can do nothing."),
    )
    user: Any = None

    class Meta:
        model = ApiKey
        fields = [
            "name",
            "owner",
            "service",
            "scopes",
            "groups",
            "workspace",
            "calls_per_minute",
            "recorded_mib_per_day",
            "expires_at",
        ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None and "expires_at" in self.fields:
            self.fields["expires_at"].initial = making.default_end
            self.fields["expires_at"].help_text = _("Leave blank if the key never expires.")
        if "owner" in self.fields:
            owner: Any = self.fields["owner"]
            people = owner.queryset.filter(is_active=True)
            owner.queryset = people if self.user.is_superuser else people.filter(pk=self.user.pk)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        row = self.instance if self.instance.pk else None
        owner = row.owner if row is not None else cleaned.get("owner")
        scopes, groups = cleaned.get("scopes") or [], cleaned.get("groups") or []
        had_scopes, had_groups = (row.scopes, set(row.groups.all())) if row is not None else ([], set())
        new_scopes = [scope for scope in scopes if scope not in had_scopes]
        new_groups = [group for group in groups if group not in had_groups]
        try:
            if row is None:
                making.refuse(self.user, owner=owner, scopes=new_scopes, groups=new_groups)
            else:
                making.refuse(self.user, owner=None, scopes=new_scopes, groups=new_groups)
                if owner is not None and (problems := making.of_person(owner, new_scopes, new_groups)):
                    raise forms.ValidationError({name: problems[name] for name in problems if name != "owner"})
        except forms.ValidationError as error:
            for name, words in error.error_dict.items():
                self.add_error(name if name in self.fields else None, words)
        return cleaned


class RotationForm(forms.Form):
    overlap = forms.ChoiceField(
        label=_("When should the old key stop working?"),
        widget=UnfoldAdminSelectWidget,
        choices=[("0", _("Immediately")), ("1", _("In 1 hour")), ("24", _("In 1 day")), ("168", _("In 1 week"))],
        help_text=_(
            "Clients can switch to the new key in the meantime. Choose “Immediately” if the old key may have leaked."
        ),
    )


class AccountableForm(forms.Form):
    people = forms.CharField(
        label=_("Accountable people"),
        max_length=1000,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("User names, separated by spaces. ? stands for an unknown person."),
    )

    def clean_people(self) -> list[str]:
        names = sorted(set(self.cleaned_data["people"].split()))
        accountable.found(names)
        return names


_CREATED = moment("created_at", _("created"))
_OVERLAP = moment("previous_until", _("old key works until"))
_EXPIRES = moment("expires_at", _("expires"))
_USED = moment("last_used_at", _("last used"))
_REVOKED = moment("revoked_at", _("revoked"))


@admin.register(ApiKey)
class ApiKeyAdmin(WorkspacePages, RecordedAdmin):
    form = ApiKeyForm
    workspace_pages = ("changelist", "add", "change", "rotate", "revoke", "history", "history_entry")
    list_display = ["name", "shown_prefix", "state", "shown_owner", "shown_scopes", _EXPIRES, _USED]
    list_select_related = ["owner"]
    list_filter = ["expires_at", "last_used_at"]
    search_fields = ["name", "prefix", "service", "owner__username"]
    search_help_text = _("Name, prefix, person or service account")
    autocomplete_fields = ["groups"]
    page_facts = ("state", "shown_prefix", "shown_owner", "shown_scopes", "shown_accountable", _EXPIRES, _USED)
    actions = ["revoke_selected"]
    actions_detail = ["show_calls", "name_accountable", "rotate", "revoke"]
    readonly_fields = ["shown_prefix", "state", "created_by", "shown_accountable", _CREATED, _USED, _OVERLAP, _REVOKED]
    add_fieldsets: Any = [
        (None, {"fields": ["name", "owner", "service", "scopes", "groups", "workspace"]}),
        (_("Limits"), {"fields": ["calls_per_minute", "recorded_mib_per_day", "expires_at"]}),
    ]
    fieldsets = [
        *add_fieldsets,
        (
            _("Use"),
            {
                "fields": [
                    "shown_prefix",
                    "state",
                    "created_by",
                    "shown_accountable",
                    _CREATED,
                    _USED,
                    _OVERLAP,
                    _REVOKED,
                ]
            },
        ),
    ]

    shown_prefix = column(_("prefix"), lambda key: f"{key.prefix}…")
    shown_owner = column(_("belongs to"), lambda key: cell(key.owner or key.service or "-"), ordering="owner__username")

    @admin.display(description=_("state"))
    def state(self, key: ApiKey) -> SafeString:
        if key.revoked_at is not None:
            return mark("off", _("Revoked"))
        if key.owner is not None and not key.owner.is_active:
            return mark("off", _("Person disabled"))
        if not key.is_usable():
            return mark("warn", _("Expired"))
        if reminding.ends_soon(key):
            return mark("warn", _("Expires soon"))
        return mark("good", _("Active"))

    @admin.display(description=_("accountable"))
    def shown_accountable(self, key: ApiKey) -> SafeString | str:
        told = accountable.origins_of(key.credential, owner=key.owner_id, maker=key.created_by_id)
        return format_html_join(
            "",
            '<div>{} <span class="hub-subtle">{}</span></div>',
            ((_t("nobody known") if name == accountable.UNKNOWN else visible(name), how) for name, how in told),
        )

    shown_scopes = column(_("scopes"), lambda key: ", ".join(key.scopes) or "-")

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> list[str]:
        return [*self.readonly_fields, "owner", "workspace"] if obj is not None else []

    def get_autocomplete_fields(self, request: HttpRequest) -> list[str]:
        # Others than a superuser choose nobody but themselves, and may not look for people.
        return ["groups", "owner"] if request.user.is_superuser else ["groups"]

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
            owner=obj.owner,
            service=obj.service,
            scopes=obj.scopes,
            calls_per_minute=obj.calls_per_minute,
            recorded_mib_per_day=obj.recorded_mib_per_day,
            expires_at=obj.expires_at,
            workspace=obj.workspace,
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
                "title": _t("Key created"),
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
            and not making.groups_beyond(request.user, key.groups.all())
            and making.may_act_for(request.user, key.owner)
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
                "A new key is created and shown once. Until the old one expires, both work; a key from an "
                "earlier rotation expires at once."
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

    def has_naming_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return current() is None and self.has_end_permission(request, object_id)

    @detail_action(
        description=_("Name accountable people"), permissions=["naming"], icon="person_check", url_path="accountable"
    )
    def name_accountable(self, request: HttpRequest, object_id: str) -> HttpResponse:
        key = row_of(self, request, object_id)
        back = reverse("admin:sessions_app_apikey_change", args=[key.pk])
        given = request.POST if is_confirmed(request) else None
        form = AccountableForm(given, initial={"people": " ".join(key.accountable)})
        page = self.confirmation(
            request,
            title=_t("Who answers for this key?"),
            items=[(str(key), "")],
            explanation=_t(
                "They confirm and approve nothing that comes by the key; one other person is enough for that. While "
                "somebody unknown may have the key, it takes two people or a superuser. To leave a person or ? out "
                "waits for a second person, unless you are a superuser."
            ),
            button=_t("Save"),
            back=back,
            form=form,
            reason=True,
        )
        if page is not None:
            return page
        key.accountable, key.change_reason = form.cleaned_data["people"], request.POST.get("reason", "").strip()
        key.save()
        if key.waiting_change is None:
            self.message_user(request, _t("Accountable people saved."), messages.SUCCESS)
        return redirect(back)

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
        self.message_user(request, _t("Key revoked."), messages.SUCCESS)
        return redirect(back)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return self.has_change_permission(request)

    @admin.action(description=_("Revoke the selected keys"), permissions=["revoke"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        total, back = queryset.count(), request.get_full_path()
        names, count = names_and_count(queryset.filter(revoked_at__isnull=True))
        explanation = _t(_FINAL)
        if total > count:
            before = ngettext("%(count)d was already revoked.", "%(count)d were already revoked.", total - count)
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
                rows.append((clipped(key, 80), mark("off", _t("Unchanged")), _t("was already revoked")))
        return self.outcomes_page(request, title=_t("Result"), rows=rows, back=back)
