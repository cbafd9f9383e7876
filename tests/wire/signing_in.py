"""People who let clients in, and clients that ask them, both by hand: no browser, no SDK."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
CALLBACK = "http://127.0.0.1:41999/callback"


# In the process beside the hub ------------------------------------------------------------------------


def make_person(name: str, groups: tuple[str, ...] = (), *, staff: bool = False) -> dict[str, Any]:
    """Return the id of a new person and the cookie of a login."""
    import time
    from importlib import import_module

    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import Group, User

    user = User.objects.create_user(name, is_staff=staff)
    user.groups.set([Group.objects.get_or_create(name=group)[0] for group in groups])
    store = import_module(settings.SESSION_ENGINE)
    session = store.SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session[store.OPENED_AT] = time.time()
    session.save()
    return {"id": user.pk, "cookie": session.session_key, "named": settings.SESSION_COOKIE_NAME}


def disable_person(name: str) -> None:
    from django.contrib.auth.models import User

    user = User.objects.get(username=name)
    user.is_active = False
    user.save()


def join(name: str, group: str) -> None:
    from django.contrib.auth.models import Group, User

    User.objects.get(username=name).groups.add(Group.objects.get_or_create(name=group)[0])


def leave(name: str, group: str) -> None:
    from django.contrib.auth.models import Group, User

    User.objects.get(username=name).groups.remove(Group.objects.get(name=group))


def make_toolset(slug: str) -> None:
    """Offer a toolset; once."""
    from tools_catalog.models import McpToolset

    McpToolset.objects.get_or_create(slug=slug, defaults={"patterns": "*"})


def make_workspace(slug: str, group: str) -> None:
    """Make a workspace whose members are a group."""
    from django.contrib.auth.models import Group

    from sessions_app.models import McpWorkspace

    McpWorkspace.objects.create(slug=slug).members.add(Group.objects.get_or_create(name=group)[0])


def take_back(name: str) -> int:
    """Take back all that a person allowed."""
    from mcphub.features.signin.models import Consent

    return Consent.objects.filter(user__username=name).revoke(reason="test")


def expire_tokens(name: str) -> int:
    from datetime import timedelta

    from django.utils import timezone
    from oauth2_provider.models import AccessToken

    return int(AccessToken.objects.filter(user__username=name).update(expires=timezone.now() - timedelta(seconds=1)))


def age_refreshes(name: str, seconds: int) -> int:
    """Let refresh tokens that were used have been used so long before."""
    from datetime import timedelta

    from django.db.models import F
    from oauth2_provider.models import RefreshToken

    used = RefreshToken.objects.filter(user__username=name, revoked__isnull=False)
    return int(used.update(revoked=F("revoked") - timedelta(seconds=seconds)))


def refresh_often(name: str) -> None:
    """Leave what as many refreshes leave as may be in a minute."""
    from django.utils import timezone
    from oauth2_provider.models import RefreshToken

    from mcphub.features.signin.server import TOKENS_A_MINUTE

    one = RefreshToken.objects.filter(user__username=name).latest("pk")
    for number in range(TOKENS_A_MINUTE):
        RefreshToken.objects.create(
            user=one.user, application=one.application, token=f"{name} {number}", revoked=timezone.now()
        )


def everything_stored() -> list[str]:
    """Return all text of all rows, to look for what must not be there."""
    from django.db import connection

    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            found += [f"{table} {row}" for row in cursor.fetchall()]
    return found


# People and clients ------------------------------------------------------------------------------------


class Person:
    """Somebody with a browser that keeps cookies and follows no redirect by itself."""

    def __init__(self, hub: Hub, name: str, groups: tuple[str, ...] = (), *, staff: bool = False) -> None:
        self.hub = hub
        made = hub.operate(make_person, name, groups, staff=staff)
        self.name, self.id = name, made["id"]
        self.principal = f"user:{self.id}"
        self.http = httpx2.Client(base_url=hub.url, timeout=PATIENCE_SECONDS)
        self.http.cookies.set(made["named"], made["cookie"])

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def asked(self, address: str) -> httpx2.Response:
        return self.http.get(address)

    def answers(self, address: str, deed: str = "allow") -> httpx2.Response:
        """Open the page and press a button."""
        page = self.asked(address)
        assert page.status_code == 200, (page.status_code, page.headers, page.text)
        return self.http.post(address, data={"csrfmiddlewaretoken": csrf_of(page), deed: "1"})


def csrf_of(page: httpx2.Response) -> str:
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


@dataclass
class Client:
    """A public client that registered itself."""

    hub: Hub
    name: str = "Test client"
    redirect_uri: str = CALLBACK
    id: str = ""
    grants: tuple[str, ...] = ("authorization_code", "refresh_token")
    more: dict[str, str] = field(default_factory=dict)
    """Parameters of the address that is opened, besides the usual ones or instead of them."""

    def __post_init__(self) -> None:
        self.verifier = secrets.token_urlsafe(48)
        self.http = httpx2.Client(base_url=self.hub.url, timeout=PATIENCE_SECONDS)
        if not self.id:
            answer = self.http.post("/oauth/register/", json=self.metadata())
            assert answer.status_code == 201, answer.text
            self.id = answer.json()["client_id"]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def metadata(self) -> dict[str, Any]:
        return {
            "client_name": self.name,
            "redirect_uris": [self.redirect_uri],
            "token_endpoint_auth_method": "none",
            "grant_types": list(self.grants),
            "response_types": ["code"],
        }

    def address(self, endpoint: str = "/mcp", **more: str | None) -> str:
        """Where the person's browser is sent."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        asked: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "state": "a state",
            "scope": "tools:list tools:call",
            "resource": f"{self.hub.url}{endpoint}",
            **self.more,
            **more,
        }
        return "/oauth/authorize/?" + urlencode({name: value for name, value in asked.items() if value is not None})

    def redeem(self, code: str, endpoint: str = "/mcp", **more: str | None) -> httpx2.Response:
        asked: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.id,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            "resource": f"{self.hub.url}{endpoint}",
            **more,
        }
        return self.token(**asked)

    def refresh(self, refresh_token: str, **more: str | None) -> httpx2.Response:
        asked = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": self.id, **more}
        return self.token(**asked)

    def token(self, **asked: str | None) -> httpx2.Response:
        return self.http.post("/oauth/token/", data={name: value for name, value in asked.items() if value is not None})

    def sign_in(self, person: Person, endpoint: str = "/mcp", **more: str | None) -> dict[str, Any]:
        """Return the tokens that a person's consent gives."""
        told = told_to(person.answers(self.address(endpoint, **more)))
        answer = self.redeem(told["code"], endpoint)
        assert answer.status_code == 200, answer.text
        tokens: dict[str, Any] = answer.json()
        return tokens


def told_to(answer: httpx2.Response) -> dict[str, str]:
    """Return what a client is told by the address that the browser is sent to."""
    assert answer.status_code == 302, (answer.status_code, answer.text)
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    assert all(len(values) == 1 for values in query.values())
    return {name: values[0] for name, values in query.items()}
