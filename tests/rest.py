"""Who asks over REST in tests, and how an error is read."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Permission
from django.test import Client

from sessions_app.models import ApiKey
from tests.factories import UserFactory


def by_key(*scopes: str, groups: tuple[Any, ...] = (), **fields: Any) -> Client:
    """A client that sends a new key of these scopes."""
    key, token = ApiKey.issue("auditor", scopes=list(scopes), **fields)
    key.groups.set(groups)
    return by_token(token)


def by_token(token: str) -> Client:
    return Client(headers={"authorization": f"Bearer {token}"})


def by_person(*permissions: str, **fields: Any) -> Client:
    """A client with the login of a person who holds these permissions."""
    person = UserFactory(**fields)
    for name in permissions:
        app, codename = name.split(".")
        person.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    client = Client()
    client.force_login(person)
    return client


def error_of(response: Any, status: int, code: str) -> dict[str, Any]:
    """Return the error of a response; it must have the one shape."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body = response.json()
    assert set(body) == {"error", "type", "title", "status", "detail"}
    error = body["error"]
    assert (body["status"], body["detail"]) == (status, error["message"])
    assert set(error) == {"code", "message", "details", "retryable"}
    assert error["code"] == code
    assert error["message"]
    return dict(error)
