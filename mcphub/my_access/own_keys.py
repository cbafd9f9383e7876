"""The person's own keys: created within the person's permissions, shown once, revoked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcphub import clients
from mcphub.my_access.parts import DeedRefused, Part
from sessions_app.keys import making, reminding
from sessions_app.models import ApiKey

SCOPES = ("tools:list", "tools:call", "chat")
"""Scopes of keys that people create for themselves: those of a sign-in."""
_MOST_SHOWN = 100
_LONGEST_DAYS = 3650
_USUAL_DAYS = 90


class OwnKey(forms.Form):
    """A person's form for an own key."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=100)
    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("Permissions"),
        choices=[
            ("tools:list", gettext_lazy("see tools")),
            ("tools:call", gettext_lazy("use tools")),
            ("chat", gettext_lazy("ask models")),
        ],
        initial=["tools:list", "tools:call"],
    )
    groups = forms.MultipleChoiceField(label=gettext_lazy("Groups"), required=False)

    def __init__(self, data: Any = None, *, person: Any) -> None:
        super().__init__(data)
        self.own = {str(group.pk): group for group in person.groups.order_by("name")}
        groups = self.fields["groups"]
        assert isinstance(groups, forms.MultipleChoiceField)
        groups.choices = [(pk, group.name) for pk, group in self.own.items()]
        longest = settings.MCPHUB_KEY_DAYS or _LONGEST_DAYS
        self.fields["days"] = forms.IntegerField(
            label=_("Days until it expires"), min_value=1, max_value=longest, initial=min(_USUAL_DAYS, longest)
        )


def _rows(request: HttpRequest) -> Mapping[str, object]:
    keys = ApiKey.objects.filter(owner=request.user.pk, revoked_at=None).select_related("owner")
    return {
        "keys": [
            {
                "prefix": key.prefix,
                "name": key.name,
                "scopes": ", ".join(key.scopes),
                "groups": ", ".join(group.name for group in key.groups.all()),
                "is_over": not key.is_usable(),
                "ends_soon": reminding.ends_soon(key),
                "expires_at": key.expires_at,
                "used_at": key.last_used_at,
            }
            for key in keys.prefetch_related("groups").order_by("-pk")[:_MOST_SHOWN]
        ],
        "may_make": settings.MCPHUB_OWN_KEYS,
        "new_key": OwnKey(person=request.user),
    }


def _make(request: HttpRequest) -> HttpResponse:
    """Make a key, and show it on the only page that ever does."""
    if not settings.MCPHUB_OWN_KEYS:
        raise DeedRefused(_("Only operators create keys on this hub: ask them for one."))
    form = OwnKey(request.POST, person=request.user)
    if not form.is_valid():
        problems = [f"{form[name].label}: {' '.join(map(str, words))}" for name, words in form.errors.items()]
        raise DeedRefused(" ".join(problems))
    chosen, person = form.cleaned_data, request.user
    groups = [form.own[pk] for pk in chosen["groups"]]
    try:
        making.refuse(person, owner=person, scopes=chosen["scopes"], groups=groups)  # type: ignore[arg-type]
        key, text = ApiKey.issue(
            chosen["name"],
            owner=person,
            scopes=chosen["scopes"],
            groups=groups,
            expires_at=(timezone.now() + timedelta(days=chosen["days"])).replace(microsecond=0),
            created_by=person,
            reason="made by the person",
        )
    except ValidationError as error:
        raise DeedRefused(" ".join(error.messages)) from error
    shown = clients.snippets(settings.MCPHUB_PUBLIC_URL.rstrip("/") + "/mcp", text)
    response = render(request, "me/key.html", {"key": key, "text": text, "snippets": shown})
    add_never_cache_headers(response)
    response["Referrer-Policy"] = "no-referrer"
    return response


def _revoke(request: HttpRequest) -> str:
    prefix = request.POST.get("id", "")
    key = ApiKey.objects.filter(owner=request.user.pk, prefix=prefix).first() if prefix.isprintable() else None
    if key is None:
        raise Http404
    ApiKey.objects.filter(pk=key.pk).revoke("revoked by the person")
    return _("The key %(name)s is revoked.") % {"name": key.name}


PART = Part("keys", "me/keys.html", _rows, {"make": _make, "revoke": _revoke})
