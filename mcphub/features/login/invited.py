"""The page that an invitation leads to."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from mcphub import error_pages
from mcphub.features.login import entering, invitations
from mcphub.features.login.guesses import guarded
from mcphub.features.login.invitations import InvitationOver
from mcphub.features.login.models import Invitation, LoginProvider

_WAY = entering.Way("invitation")
_MOST_PASSWORD = 1000


class PasswordForm(forms.Form):
    password = forms.CharField(strip=False, max_length=_MOST_PASSWORD)
    again = forms.CharField(strip=False, max_length=_MOST_PASSWORD)

    def __init__(self, invitation: Invitation, data: Any = None) -> None:
        super().__init__(data)
        self._person = get_user_model()(username=invitation.username, email=invitation.email)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        password, again = cleaned.get("password", ""), cleaned.get("again", "")
        if password and again and password != again:
            raise forms.ValidationError(_("The two passwords don't match."))
        if password and again:
            validate_password(password, self._person)
        return cleaned


@sensitive_post_parameters("password", "again")
@csrf_protect
@never_cache
def invited(request: HttpRequest, token: str) -> HttpResponse:
    """Show the invited account; accept a password."""
    try:
        page: HttpResponse = guarded(request, lambda asked: _page(asked, token), request.get_full_path())
    except InvitationOver:
        words = _("This invitation was used, has expired, or was withdrawn. Ask for a new one.")
        page = error_pages.refused_login(words, reverse("login"))
    page["Referrer-Policy"] = "same-origin"  # with less, browsers send the form without the origin that Django checks
    return page


@sensitive_variables()
def _page(request: HttpRequest, token: str) -> HttpResponse:
    invitation = invitations.open_one(invitations.digest_of(token))
    form = PasswordForm(invitation, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        user = invitations.accept(invitation.digest, form.cleaned_data["password"])
        return entering.enter(request, user, _WAY, "")
    problems = [error for errors in form.errors.values() for error in errors] if request.method == "POST" else []
    providers = [
        {"name": each.name, "address": f"{reverse('login-with', args=[each.slug])}?{urlencode({'invitation': token})}"}
        for each in LoginProvider.objects.filter(enabled=True)
    ]
    context = {"name": invitation.username, "email": invitation.email, "problems": problems, "providers": providers}
    return render(request, "login/invited.html", context)
