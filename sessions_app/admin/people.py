"""People and groups, in the theme's forms. Nobody gives a person or a group more than they have themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from django import forms
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db.models import ManyToManyField, Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from sessions_app.history.pages import RecordedAdmin
from sessions_app.keys.making import groups_beyond
from sessions_app.kit.admin.chosen import LinksField
from sessions_app.people import is_within, permissions_beyond

if TYPE_CHECKING:
    _Form = forms.ModelForm[Any]
    _Users = UserAdmin[User]
else:
    _Form = forms.ModelForm
    _Users = UserAdmin

admin.site.unregister(User)
admin.site.unregister(Group)


def _refuse_permissions_beyond(user: User | AnonymousUser, permissions: Iterable[Permission]) -> None:
    if refused := permissions_beyond(user, permissions):
        raise forms.ValidationError(
            _("You can't grant %(permissions)s: your own account doesn't have it. Ask a superuser."),
            params={"permissions": ", ".join(refused)},
        )


def refuse_groups_beyond(user: User | AnonymousUser, groups: Iterable[Group]) -> None:
    """Raise ValidationError where `user` would hand out a group that is not his own."""
    if refused := groups_beyond(user, groups):
        raise forms.ValidationError(
            _("You can't assign %(groups)s: you are not a member. Ask a superuser."),
            params={"groups": ", ".join(sorted(group.name for group in refused))},
        )


class _Within(_Form):
    """Rejects additions beyond the rights of the `editor`."""

    editor: Any = None

    def clean_groups(self) -> QuerySet[Group]:
        chosen: QuerySet[Group] = self.cleaned_data["groups"]
        refuse_groups_beyond(self.editor, set(chosen) - self._had("groups"))
        return chosen

    def clean_user_permissions(self) -> QuerySet[Permission]:
        return self._permissions("user_permissions")

    def clean_permissions(self) -> QuerySet[Permission]:
        return self._permissions("permissions")

    def _permissions(self, name: str) -> QuerySet[Permission]:
        chosen: QuerySet[Permission] = self.cleaned_data[name].select_related("content_type")
        _refuse_permissions_beyond(self.editor, set(chosen) - self._had(name))
        return chosen

    def _had(self, name: str) -> set[Permission]:
        return set(getattr(self.instance, name).all()) if self.instance.pk else set()


_Row = TypeVar("_Row", bound=Model)


def _within(form: type[ModelForm[_Row]], request: HttpRequest) -> type[ModelForm[_Row]]:
    """Return the form's class limited to the rights of the request's editor."""
    return type(form.__name__, (_Within, form), {"editor": request.user})


@admin.register(User)
class PersonAdmin(_Users, RecordedAdmin):
    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ["username", "first_name", "last_name", "is_staff", "is_superuser", "is_active", "last_login"]

    def get_form(
        self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[User]]:
        return _within(super().get_form(request, obj, change=change, **kwargs), request)

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> list[str] | tuple[str, ...]:
        own = super().get_readonly_fields(request, obj)
        return own if request.user.is_superuser else [*own, "is_superuser"]

    def has_change_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or is_within(request.user, obj))

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or is_within(request.user, obj))


_DEEDS = {"add": _("add"), "change": _("change"), "delete": _("delete"), "view": _("view")}


def named(permission: Permission) -> str:
    """Return the name of a permission for people: *API keys: change*.

    Django's begins with the app and is English, and it stays as the migration that made the row worded it.
    """
    model = permission.content_type.model_class()
    rows = capfirst(model._meta.verbose_name_plural if model else permission.content_type.name)
    deed = permission.codename.partition("_")[0]
    is_djangos = deed in _DEEDS and permission.codename == f"{deed}_{permission.content_type.model}"
    if is_djangos:
        return f"{rows}: {_DEEDS[deed]}"
    return f"{rows}: {dict(model._meta.permissions if model else ()).get(permission.codename, permission.name)}"


class _Permissions(LinksField):
    def label_from_instance(self, obj: Permission) -> str:
        return named(obj)


@admin.register(Group)
class RoleAdmin(GroupAdmin, RecordedAdmin):
    def formfield_for_manytomany(
        self, db_field: ManyToManyField[Any, Any], request: HttpRequest | None = None, **kwargs: Any
    ) -> forms.ModelMultipleChoiceField[Any] | None:
        if db_field.name == "permissions":
            kwargs["form_class"] = _Permissions
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def get_form(
        self, request: HttpRequest, obj: Group | None = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[Group]]:
        return _within(super().get_form(request, obj, change=change, **kwargs), request)
