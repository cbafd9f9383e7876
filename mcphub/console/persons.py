"""The page of a person, for operators: their role, their authorized apps and open logins, and the end of these.

It replaces Django's form, whose flags and lists of permissions repeat each other in four places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import Group, User
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget

from mcphub import ending
from mcphub.ending import is_last_superuser
from mcphub.features.signin import clients
from mcphub.features.signin.models import Consent
from mcphub.groups import ROLES
from sessions_app.admin.people import PersonAdmin
from sessions_app.keys.making import groups_beyond
from sessions_app.kit.admin.base import detail_action, mark, moment, row_of
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, clipped
from sessions_app.login import open_logins
from sessions_app.models import ApiKey, McpSession

if TYPE_CHECKING:
    from django.contrib.auth.forms import UserChangeForm as _Form
else:
    from unfold.forms import UserChangeForm as _Form

NOBODY, SUPERUSER, AS_IT_IS = "none", "superuser", "as it is"
_MOST = 20
"""Rows of one kind on the page; of more there is the way to their list."""


def _console_groups() -> QuerySet[Group]:
    """Return the groups that open the console: the roles that ship, and others with permissions of their own."""
    return Group.objects.filter(permissions__isnull=False).distinct().order_by("name")


def role_of(person: User) -> str:
    """Return the one role that a person has: the number of a group, or one of the words above."""
    if person.is_superuser:
        return SUPERUSER
    roles = [str(pk) for pk in _console_groups().filter(user=person).values_list("pk", flat=True)]
    if person.user_permissions.exists() or len(roles) > 1 or person.is_staff != bool(roles):
        return AS_IT_IS
    return roles[0] if roles else NOBODY


def shown_role(person: User) -> str:
    role = role_of(person)
    if role in (NOBODY, SUPERUSER):
        return str(_t("Superuser") if role == SUPERUSER else _t("No console"))
    names = ", ".join(_console_groups().filter(user=person).values_list("name", flat=True))
    return names or str(_t("Custom permissions"))


class PersonForm(_Form):  # type: ignore[type-arg, unused-ignore]
    """A person, their console role, and their tool groups."""

    role = forms.ChoiceField(
        label=_("Console role"),
        widget=UnfoldAdminSelectWidget,
        help_text=_("The person's rights in the console. Apps that the person authorizes need no role."),
    )
    tool_groups = forms.ModelMultipleChoiceField(
        label=_("Tool groups"),
        queryset=Group.objects.none(),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("The person, and everything that acts in their name, can use the tools of these groups."),
    )
    editor: Any = None

    class Meta:
        model = User
        fields = ["username", "first_name", "last_name", "email"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        person, role, groups = self.instance, self.fields["role"], self.fields["tool_groups"]
        assert isinstance(role, forms.ChoiceField)
        assert isinstance(groups, forms.ModelMultipleChoiceField)
        rest = Group.objects.filter(permissions=None).order_by("name")
        groups.queryset, groups.initial = rest, list(rest.filter(user=person))
        role.initial = role_of(person)
        choices: list[tuple[str, Any]] = [(NOBODY, _("No console"))]
        choices += [(str(group.pk), group.name) for group in sorted(_console_groups(), key=_in_order)]
        if self.editor.is_superuser or person.is_superuser:
            choices.append((SUPERUSER, _("Superuser: everything")))
        if role.initial == AS_IT_IS:
            choices.insert(0, (AS_IT_IS, _t("Keep as is: %(role)s") % {"role": shown_role(person)}))
        role.choices = choices

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        role = cleaned.get("role", AS_IT_IS)
        if "tool_groups" not in cleaned or "role" not in cleaned:
            return cleaned
        had = set(self.instance.groups.all())
        wanted = set(cleaned["tool_groups"]) | _role_groups(role, had)
        if beyond := groups_beyond(self.editor, wanted - had):
            names = ", ".join(sorted(group.name for group in beyond))
            words = _t("You can't assign %(groups)s: you are not a member. Ask a superuser.")
            self.add_error("role" if role.isdecimal() else "tool_groups", words % {"groups": names})
        if self.instance.is_superuser and role != SUPERUSER and is_last_superuser(self.instance):
            self.add_error("role", _t("This is the last superuser who can log in. Create another one first."))
        return cleaned


def _role_groups(role: str, had: set[Group]) -> set[Group]:
    if role == AS_IT_IS:
        return set(_console_groups()) & had
    return set(_console_groups().filter(pk=role)) if role.isdecimal() else set()


def _in_order(group: Group) -> tuple[int, str]:
    """Put the roles that ship first, in their order."""
    known = list(ROLES)
    return (known.index(group.name) if group.name in known else len(known), group.name)


_LOGGED_IN, _JOINED = moment("last_login", _("last login")), moment("date_joined", _("created"))

admin.site.unregister(User)


@admin.register(User)
class PersonPage(PersonAdmin):
    form = PersonForm
    list_display = ["username", "full_name", "state", "role", _LOGGED_IN]
    list_filter = ["is_active", "groups"]
    list_select_related = ()
    fieldsets = (
        (None, {"fields": ["username", "state", "first_name", "last_name", "email", "password"]}),
        (_("Permissions"), {"fields": ["role", "tool_groups"]}),
        (_("Times"), {"fields": [_LOGGED_IN, _JOINED]}),
    )
    readonly_fields = ("state", "directory", _LOGGED_IN, _JOINED)
    filter_horizontal = ()
    page_facts = ("full_name", "email", "state", "role", "tool_groups", _LOGGED_IN, _JOINED)
    actions_detail = ["end_all", "disable", "enable"]
    change_form_outer_after_template = "admin/hub/person.html"

    full_name = column(_("name"), lambda person: cell(person.get_full_name() or "-"))

    @admin.display(description=_("state"))
    def state(self, person: User) -> SafeString:
        return mark("good", _("Active")) if person.is_active else mark("off", _("Disabled"))

    @admin.display(description=_("Console role"))
    def role(self, person: User) -> str:
        return shown_role(person)

    @admin.display(description=_("Tool groups"))
    def tool_groups(self, person: User) -> str:
        names = person.groups.filter(permissions=None).values_list("name", flat=True)
        return ", ".join(names) or "-"

    @admin.display(description=_("managed by"))
    def directory(self, person: User) -> str:
        kept: Any = person  # of an app above: its relation is no member that types know
        return cell(_t("The directory, as %(id)s") % {"id": kept.provisioned.external_id or "-"})

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        """Note that a directory manages the account: it overwrites changes made here."""
        shown = list(super().get_fieldsets(request, obj))
        if getattr(obj, "provisioned", None) is not None:
            (title, options), *rest = shown
            shown = [(title, {**options, "fields": [*options["fields"], "directory"]}), *rest]
        return shown

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> Any:
        return list(self.readonly_fields) if obj is not None else []

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if change and "role" in form.cleaned_data:
            person, role = form.instance, form.cleaned_data["role"]
            wanted = set(form.cleaned_data["tool_groups"]) | _role_groups(role, set(person.groups.all()))
            person.groups.set(wanted)

    def save_model(self, request: HttpRequest, obj: User, form: ModelForm[Model], change: bool) -> None:
        role = form.cleaned_data.get("role", AS_IT_IS)
        if change and role != AS_IT_IS:
            obj.is_superuser, obj.is_staff = role == SUPERUSER, role != NOBODY
        super().save_model(request, obj, form, change)
        if change and role != AS_IT_IS:
            obj.user_permissions.clear()

    # Ending ------------------------------------------------------------------------------------------

    def _person(self, request: HttpRequest, object_id: str | None) -> User | None:
        person = User.objects.filter(pk=int(object_id)).first() if object_id and object_id.isdecimal() else None
        return person if person is not None and self.has_change_permission(request, person) else None

    def has_end_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return self._person(request, object_id) is not None

    def has_disable_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        person = self._person(request, object_id)
        is_open = person is not None and person.is_active and person.pk != request.user.pk
        return person is not None and is_open and not is_last_superuser(person)

    def has_enable_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        person = self._person(request, object_id)
        return person is not None and not person.is_active

    @detail_action(description=_("Disable"), permissions=["disable"], icon="person_off")
    def disable(self, request: HttpRequest, object_id: str) -> HttpResponse:
        words = _t(
            "The person can no longer log in. Their keys, tokens and logins are revoked permanently, and "
            "their sessions, streams and running calls end immediately. Records remain."
        )
        return self._deed(request, object_id, _t("Disable this person?"), words, _t("Disable"), is_active=False)

    @detail_action(description=_("Enable"), permissions=["enable"], icon="person_check")
    def enable(self, request: HttpRequest, object_id: str) -> HttpResponse:
        words = _t("The person can log in again. Keys, tokens and logins that ended stay ended.")
        return self._deed(request, object_id, _t("Enable this person?"), words, _t("Enable"), is_active=True)

    @detail_action(description=_("End all access"), permissions=["end"], icon="logout", url_path="end-all")
    def end_all(self, request: HttpRequest, object_id: str) -> HttpResponse:
        words = _t(
            "Their keys, tokens and logins are revoked permanently, and their sessions, streams and running "
            "calls end immediately. The person can log in and authorize clients again."
        )
        return self._deed(request, object_id, _t("End all access of this person?"), words, _t("End all access"))

    def _deed(
        self,
        request: HttpRequest,
        object_id: str,
        title: str,
        explanation: str,
        button: str,
        is_active: bool | None = None,
    ) -> HttpResponse:
        person = row_of(self, request, object_id)
        back = reverse("admin:auth_user_change", args=[person.pk])
        page = self.confirmation(
            request,
            title=title,
            items=[(str(person), person.get_full_name())],
            explanation=explanation,
            button=button,
            back=back,
            reason=True,
            danger=is_active is not True,
        )
        if page is not None:
            return page
        reason = request.POST.get("reason", "").strip()
        if is_active is None:
            ending.end_all(person, reason or "ended by an operator")
        else:
            person.is_active = is_active
            person.change_reason = reason[:500]  # type: ignore[attr-defined]
            person.save(update_fields=["is_active"])
        self.message_user(request, _t("Done."), messages.SUCCESS)
        return redirect(back)

    # Beside the form ---------------------------------------------------------------------------------

    def beside(self, request: HttpRequest, row: User) -> dict[str, object]:
        may = request.user.has_perm
        principal = f"user:{row.pk}"
        shown: dict[str, object] = {"person_logins": open_logins.of(row, request.session.session_key)[:_MOST]}
        if may("signin.view_consent"):
            shown["person_clients"] = _clients(row)
        if may("sessions_app.view_apikey"):
            keys = ApiKey.objects.filter(owner=row, revoked_at=None).order_by("-pk")[:_MOST]
            shown["person_keys"] = [(key, reverse("admin:sessions_app_apikey_change", args=[key.pk])) for key in keys]
        if may("sessions_app.view_mcpsession"):
            sessions = McpSession.objects.live().filter(principal=principal, is_implicit=False)[:_MOST]
            shown["person_sessions"] = [
                (each, reverse("admin:sessions_app_mcpsession_change", args=[each.pk])) for each in sessions
            ]
        return shown


def _clients(person: User) -> list[dict[str, object]]:
    found = Consent.objects.filter(user=person).select_related("client")[:_MOST]
    return [
        {
            "name": clipped(consent.client.name or "-", 80),
            "target": ", ".join(sorted({clients.target_of(each) for each in consent.client.redirect_uris.split()})),
            "endpoint": consent.endpoint,
            "given_at": consent.given_at,
            "address": reverse("admin:signin_consent_change", args=[consent.pk]),
        }
        for consent in found
    ]
