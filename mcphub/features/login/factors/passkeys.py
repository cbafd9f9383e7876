"""Passkeys (WebAuthn): the browser's request, and verification of the signature in its answer."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import struct
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from mcphub.features.login.factors.holding import MOST_PASSKEYS
from mcphub.features.login.models import SecondFactor
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from tools_catalog import secrets

MOST_ANSWER = 32 * 1024
_WRONG = (ValueError, TypeError, KeyError, AttributeError, AssertionError, struct.error, HubError, secrets.SecretError)
"""The library's exceptions for answers that no browser would produce."""


class NoPasskey(Exception):
    """The answer is not that of a passkey which the hub knows, or was given before."""


def are_possible(request: HttpRequest) -> bool:
    """Return whether browsers offer passkeys here: at a name, over https, or at localhost."""
    host = _host(request)
    try:
        ipaddress.ip_address(host.strip("[]"))
        return False
    except ValueError:
        return request.is_secure() or host == "localhost"


def creation(request: HttpRequest, user: User) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the browser's request for a new passkey, and the part that the session keeps."""
    person = PublicKeyCredentialUserEntity(id=_handle(user), name=user.get_username(), display_name=str(user))
    options, state = _server(request).register_begin(
        person,
        [_credential(row) for row in _rows(user)],
        resident_key_requirement=ResidentKeyRequirement.PREFERRED,
        user_verification=UserVerificationRequirement.PREFERRED,
    )
    return dict(options)["publicKey"], dict(state)


def register(request: HttpRequest, user: User, state: Mapping[str, Any], answer: str, name: str) -> SecondFactor:
    """Keep a new passkey. Raises NoPasskey."""
    if _rows(user).count() >= MOST_PASSKEYS:
        raise NoPasskey
    try:
        found = _server(request).register_complete(state, RegistrationResponse.from_dict(_read(answer)))
        credential = found.credential_data
        if credential is None:
            raise NoPasskey
        row = SecondFactor(user=user, kind=SecondFactor.Kind.PASSKEY, name=name, last_step=found.counter)
        row.credential = _digest(credential.credential_id)
        row.set_content(base64.b64encode(bytes(credential)).decode())
        with transaction.atomic():
            row.save()
    except (*_WRONG, IntegrityError) as error:
        raise NoPasskey from error
    return row


def question(request: HttpRequest, user: User | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the browser's request for a known passkey: one of the person's, or any if the person is unknown.

    Alone a passkey must have been unlocked by its person; beside a password it need not.
    """
    verification = UserVerificationRequirement.REQUIRED if user is None else UserVerificationRequirement.PREFERRED
    known = None if user is None else [_credential(row) for row in _rows(user)]
    options, state = _server(request).authenticate_begin(known, verification)
    return dict(options)["publicKey"], dict(state)


def answered(request: HttpRequest, user: User | None, state: Mapping[str, Any], answer: str) -> User:
    """Return the owner of the passkey in the answer, `user` if given. Raises NoPasskey. One answer counts once."""
    try:
        given = AuthenticationResponse.from_dict(_read(answer))
        with transaction.atomic():
            rows = SecondFactor.objects.select_for_update(of=("self",)).select_related("user")
            row = rows.filter(kind=SecondFactor.Kind.PASSKEY, credential=_digest(given.raw_id)).first()
            if row is None or (user is not None and row.user_id != user.pk):
                raise NoPasskey
            _server(request).authenticate_complete(state, [_credential(row)], given)
            counter = given.response.authenticator_data.counter
            challenge = hashlib.sha256(str(state["challenge"]).encode()).hexdigest()
            is_copy = bool(counter or row.last_step) and counter <= row.last_step
            if is_copy or row.last_challenge == challenge:
                raise NoPasskey
            row.note_use(last_step=counter, last_challenge=challenge)
            person: User = row.user
            return person
    except _WRONG as error:
        raise NoPasskey from error


def _server(request: HttpRequest) -> Fido2Server:
    host = _host(request)
    origin = f"{request.scheme}://{request.get_host()}"
    return Fido2Server(PublicKeyCredentialRpEntity(id=host, name="MCP Hub"), verify_origin=lambda said: said == origin)


def _host(request: HttpRequest) -> str:
    return urlsplit(f"//{request.get_host()}").hostname or ""


def _read(answer: str) -> Any:
    if len(answer) > MOST_ANSWER:
        raise NoPasskey
    return json.loads(answer.encode("utf-8", "surrogatepass"))


def _rows(user: User) -> Any:
    return SecondFactor.objects.filter(user=user, kind=SecondFactor.Kind.PASSKEY)


def _credential(row: SecondFactor) -> AttestedCredentialData:
    return AttestedCredentialData(base64.b64decode(row.content()))


def _digest(credential_id: bytes) -> str:
    return hashlib.sha256(credential_id).hexdigest()


def _handle(user: User) -> bytes:
    """Name a person to their authenticator: an ID without meaning outside this hub."""
    return hashlib.sha256(f"mcphub user {user.pk}".encode()).digest()
