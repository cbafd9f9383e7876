"""The page of invitations: one is made, its link is shown once, and it is taken back while nobody used it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectMultipleWidget

from mcphub.features.login import invitations
from mcphub.features.login.models import Invitation
from sessions_app.admin.people import refuse_groups_beyond
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import mark, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell

if TYPE_CHECKING:
    _FormBase = forms.ModelForm[Invitation]
else:
    _FormBase = forms.ModelForm

_MADE, _ENDS, _USED = moment("made_at", _("created")), moment("expires_at", _("expires")), moment("used_at", _("used"))


class InvitationForm(_FormBase):
    editor: Any = None

    chosen = forms.ModelMultipleChoiceField(
        Group.objects.order_by("name"),
        label=_("Groups"),
        required=False,
        widget=UnfoldAdminSelectMultipleWidget,
        help_text=_("The person's groups. A group with console permissions gives access to the console."),
    )
    days = forms.IntegerField(
        label=_("Days"),
        min_value=1,
        max_value=invitations.MOST_DAYS,
        initial=7,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=_("Number of days that the link works."),
    )

    class Meta:
        model = Invitation
        fields = ["username", "email"]

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        if User.objects.filter(username__iexact=name).exists():
            raise forms.ValidationError(_t("An account with this name exists. Choose another name."))
        return name

    def clean_chosen(self) -> QuerySet[Group]:
        chosen: QuerySet[Group] = self.cleaned_data["chosen"]
        refuse_groups_beyond(self.editor, chosen)
        return chosen


@admin.register(Invitation)
class InvitationAdmin(RecordedAdmin):
    form = InvitationForm
    list_display = ["username", "shown_state", "shown_groups", _MADE, _ENDS]
    search_fields = ["username", "email"]
    fields: ClassVar[Any] = ["username", "email", "chosen", "days"]
    readonly_fields = ["shown_state", "shown_groups", _MADE, _ENDS, _USED]

    shown_groups = column(_("groups"), lambda row: cell(", ".join(row.groups) or "-"))

    @admin.display(description=_("state"))
    def shown_state(self, row: Invitation) -> SafeString:
        if row.used_at is not None:
            return mark("good", _t("Accepted"))
        return mark("wait", _t("Open")) if row.is_open else mark("off", _t("Ended"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj is None else ["username", "email", *self.readonly_fields]

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: object
    ) -> type[ModelForm[Any]]:
        if obj is not None:
            return super().get_form(request, obj, change, **kwargs)
        form = super().get_form(request, obj, change, fields=["username", "email"])
        return type(form.__name__, (form,), {"editor": request.user})

    def save_model(self, request: HttpRequest, obj: Invitation, form: ModelForm[Any], change: bool) -> None:
        made, link = invitations.invite(obj.username, obj.email, form.cleaned_data["chosen"], form.cleaned_data["days"])
        obj.pk = made.pk
        obj._state.adding = False
        obj.refresh_from_db()
        request._invitation_link = link  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: Invitation, post_url_continue: str | None = None) -> HttpResponse:
        """Show the link, on the only page that ever does."""
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _t("Invitation created"),
            "invitation": obj,
            "text": request._invitation_link,  # type: ignore[attr-defined]
            "next": reverse("admin:login_invitation_changelist"),
        }
        response = TemplateResponse(request, "admin/hub/invitation.html", context)
        add_never_cache_headers(response)
        response["Referrer-Policy"] = "no-referrer"
        return response
