"""The clients that the person let in, when each was last used, and the way to take that back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Max
from django.http import Http404, HttpRequest
from django.utils.translation import gettext as _
from oauth2_provider.models import AccessToken

from invocations.models import McpToolInvocation
from mcphub.features.signin import clients
from mcphub.features.signin.models import Consent
from mcphub.my_access.parts import Part
from sessions_app import endpoints

_MOST = 100
_MOST_CALLS = 500
"""Of the person's newest calls, among which the last of each client is looked for."""
BY_CLIENT = re.compile(r"\(client (\d+)\)$")


def _rows(request: HttpRequest) -> Mapping[str, object]:
    found = Consent.objects.filter(user=request.user.pk).select_related("client")[:_MOST]
    used = _last_used(request.user)
    return {
        "clients": [
            {
                "id": consent.pk,
                "name": consent.client.name or _("Unnamed client"),
                "target": ", ".join(sorted({clients.target_of(each) for each in consent.client.redirect_uris.split()})),
                "endpoint": endpoints.identifier(consent.endpoint, request.get_host()),
                "scopes": [_words(scope) for scope in consent.scopes.split()],
                "given_at": consent.given_at,
                "used_at": used.get(consent.client_id),
            }
            for consent in found
        ]
    }


def _words(scope: str) -> str:
    words = {"tools:list": _("see tools"), "tools:call": _("use tools"), "chat": _("ask models")}
    return words.get(scope, scope)


def _last_used(user: Any) -> dict[int, datetime]:
    """Return when each client last called, or else last got a token: that is once an hour while it is in use."""
    tokens = AccessToken.objects.filter(user=user).values("application").annotate(last=Max("created"))
    found = {row["application"]: row["last"] for row in tokens}
    calls = McpToolInvocation.objects.filter(principal=f"user:{user.pk}").order_by("-id")
    for client, moment in calls.values_list("allowed_client", "started_at")[:_MOST_CALLS]:
        by = BY_CLIENT.search(client or "")
        if by is not None and moment is not None:
            number = int(by[1])
            found[number] = max(found.get(number, moment), moment)
    return found


def _take_back(request: HttpRequest) -> str:
    number = request.POST.get("id", "")
    consent = Consent.objects.filter(user=request.user.pk, pk=number).first() if _is_number(number) else None
    if consent is None:
        raise Http404
    name = consent.client.name or _("Unnamed client")
    consent.revoke(by=request.user, reason="taken back by the person")
    return _("%(name)s can no longer act in your name. Your open sessions ended.") % {"name": name}


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 19


PART = Part("clients", "me/clients.html", _rows, {"take-back": _take_back})
