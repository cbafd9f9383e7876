"""Permissions to read and write over REST: keys by scope, people by Django's permissions.

A view declares `required_scope` and `required_permission`, each a dict by deed: "read", "write" and, where
they differ, "create" and "delete".
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db import DatabaseError
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from sessions_app.caller import caller_of_key
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import Forbidden
from sessions_app.workspaces.scope import NOWHERE, current, narrow, of_caller

logger = logging.getLogger(__name__)

_NO_HASH = "0" * 64
_NOTED_EVERY = timedelta(minutes=1)
"""A key's last use is written at most this often: reading the audit is not a write."""
OF_CONSOLE: Final = "the console"
"""In the place of a permission: whoever may open the console."""
_DEEDS = {"POST": "create", "PUT": "write", "PATCH": "write", "DELETE": "delete"}


class KeyPrincipal:
    """Stands for a key where Django expects a user. Never in the database; holds no Django permission."""

    is_authenticated = True
    is_active = True
    is_anonymous = is_staff = is_superuser = False
    pk = id = None

    def __init__(self, key: ApiKey) -> None:
        self.key = key

    def __str__(self) -> str:
        return f"key {self.key.name} ({self.key.prefix}…)"

    def get_username(self) -> str:
        return str(self)

    def has_perm(self, perm: str, obj: object = None) -> bool:
        return False

    def has_perms(self, perms: Iterable[str], obj: object = None) -> bool:
        return False

    def has_module_perms(self, app_label: str) -> bool:
        return False


class KeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer mcph_…`, checked against the database, so that a revocation holds at once.

    Sets `request.user` to a KeyPrincipal and `request.auth` to the ApiKey.
    """

    def authenticate(self, request: Request) -> tuple[KeyPrincipal, ApiKey] | None:
        header = request.META.get("HTTP_AUTHORIZATION")
        if header is None:
            return None
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise AuthenticationFailed("The Authorization header must read `Bearer <key>`.")
        prefix = "_".join(token.split("_", 2)[:2]) if _plain(token) else ""
        key = ApiKey.objects.select_related("owner", "workspace").filter(prefix=prefix).first()
        given = ApiKey.hash(token)
        same = any(hmac.compare_digest(each, given) for each in (key.hashes() if key else [_NO_HASH]))
        if key is None or not same or key.revoked_at is not None:
            raise AuthenticationFailed("The key is unknown or was revoked. Ask the operator for a new one.")
        if key.owner is not None and not key.owner.is_active:
            raise AuthenticationFailed("The person whose key it is may not come in any more. Ask the operator.")
        if not key.is_usable():
            raise AuthenticationFailed("The key has expired. Ask the operator for a new one.")
        _note_use(key)
        key.scopes = key.held_scopes()  # what it may do now; the row keeps what it was given
        return KeyPrincipal(key), key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class Scoped(BasePermission):
    """Lets a key in by its scopes and a person by their permissions, as the view declares them."""

    def has_permission(self, request: Request, view: Any) -> bool:
        if not (request.user and request.user.is_authenticated):
            return False
        if getattr(view, (request.method or "").lower(), None) is None:
            return True  # a method that is not served is answered 405, whoever asks
        enter_workspace(request, view)
        deed = "read" if request.method in SAFE_METHODS else _DEEDS.get(request.method or "", "write")
        if isinstance(request.auth, ApiKey):
            scope = _declared(view.required_scope, deed)
            if scope not in request.auth.scopes:
                sentence = f"The key lacks the scope {scope}. Ask the operator for a key that has it."
                raise Forbidden(sentence, scope=scope)
            return True
        permission = _declared(view.required_permission, deed)
        if not _may(request.user, permission):
            sentence = f"Your account lacks the permission {permission}. Ask an administrator for it."
            raise Forbidden(sentence, permission=permission)
        return True


def enter_workspace(request: Request, view: Any) -> None:
    """Narrow the request to the workspace of its key; raise Forbidden where the resource is about the whole hub.

    A person acts in one by the login (`acting`). A view lists its actions that support workspaces in `of_workspace`.
    """
    key = request.auth if isinstance(request.auth, ApiKey) else None
    if key is not None and key.workspace_id is not None:
        narrow(of_caller(caller_of_key(key)) or NOWHERE)
    found = current()
    if found is not None and not knows_workspaces(view):
        raise Forbidden(
            f"This is about the whole hub, and you act in the workspace {found.slug or 'that you left'}. "
            "Ask the hub's operator for a key of the hub.",
            workspace=found.slug,
        )


def knows_workspaces(view: Any) -> bool:
    """Return whether a view's action, within a workspace, shows that workspace's rows alone."""
    asked = getattr(view, "action", None) or "list"
    return asked in getattr(view, "of_workspace", ())


def is_granted(request: Request, *, scope: str, permission: str) -> bool:
    """Return whether the key has `scope`, or the person `permission`."""
    if isinstance(request.auth, ApiKey):
        return scope in request.auth.scopes
    return bool(request.user and _may(request.user, permission))


def may_read(request: Request, view: Any) -> bool:
    """Return whether the key or the person may read the data of `view`, an instance or a class."""
    is_within = current() is not None or (isinstance(request.auth, ApiKey) and request.auth.workspace_id is not None)
    if is_within and not knows_workspaces(view):
        return False
    return is_granted(
        request, scope=_declared(view.required_scope, "read"), permission=_declared(view.required_permission, "read")
    )


def still_granted(request: Request, *, scope: str, permissions: list[str]) -> bool:
    """Return whether the recipient of a long response still has permission, according to the database."""
    if isinstance(request.auth, ApiKey):
        key = ApiKey.objects.select_related("owner").filter(pk=request.auth.pk, revoked_at__isnull=True).first()
        return key is not None and key.is_usable() and scope in key.held_scopes()
    if request.user.pk is None:
        return False
    person = get_user_model()._default_manager.filter(pk=request.user.pk, is_active=True).first()
    return person is not None and bool(person.has_perms(permissions))


def _may(person: Any, permission: str) -> bool:
    return bool(person.is_staff if permission == OF_CONSOLE else person.has_perm(permission))


def _declared(by_deed: dict[str, str], deed: str) -> str:
    return by_deed.get(deed) or by_deed["write"]


def _plain(token: str) -> bool:
    """Return whether `token` can be asked of a database at all."""
    return token.isascii() and token.isprintable()


def _note_use(key: ApiKey) -> None:
    now = timezone.now()
    if key.last_used_at is not None and now - key.last_used_at < _NOTED_EVERY:
        return
    try:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
    except DatabaseError as error:  # the audit stays readable while the database takes no writes
        logger.warning("The last use of a key could not be noted: %s", error)
