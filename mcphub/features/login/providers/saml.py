"""SAML 2.0 as far as a login needs it: a request by redirect, and a signed assertion by POST (Web Browser SSO).

python3-saml, of the extra `saml`, creates and judges the messages; the checks that it omits are made here. An
assertion must be signed by itself, be for this hub, answer a request of this hub, and it counts once.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from django.db import IntegrityError, transaction
from oauth2_provider.models import IDToken

from mcphub.features.login.models import LoginProvider
from mcphub.features.login.providers.asking import redirect_uri
from mcphub.features.login.providers.oidc import LoginRefused, ProviderFault
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from onelogin.saml2.response import OneLogin_Saml2_Response  # type: ignore[import-untyped]

MOST_RESPONSE = 256 * 1024
"""Characters of a response."""
SECONDS = 600
"""An assertion is remembered for so long after its end, so that it counts once."""
_REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
_POST = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
_UNSPECIFIED = "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified"
_TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
_BEARER = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
_CONFIRMED = "/saml:Subject/saml:SubjectConfirmation"
_NAMES = {
    "given_name": ("givenName", "urn:oid:2.5.4.42", "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/givenname"),
    "family_name": ("sn", "urn:oid:2.5.4.4", "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/surname"),
}
"""Attribute names of a person's names, beside those in the row."""


@dataclass(frozen=True, slots=True)
class Asserted:
    """A provider's statement about a person, in answer to one request."""

    request: str
    assertion: str
    ends: float
    claims: Mapping[str, Json]


def request_of(provider: LoginProvider) -> tuple[str, str]:
    """Return the id of a new request, and where it leads the browser; raise ProviderFault."""
    auth = _library(provider, {})
    address: str = auth.login(return_to="login")
    return auth.get_last_request_id(), address


def metadata_of(provider: LoginProvider) -> bytes:
    """Return the hub's metadata for the provider, as XML."""
    settings = _library(provider, {}).get_settings()
    found = settings.get_sp_metadata()
    return found if isinstance(found, bytes) else found.encode()


def judged(provider: LoginProvider, response: str) -> Asserted:
    """Judge a response; raise LoginRefused. The caller checks whether it answers this browser's request."""
    if not response or len(response) > MOST_RESPONSE:
        raise LoginRefused("code", "no response, or a too large one")
    auth = _library(provider, {"SAMLResponse": response})
    try:
        from onelogin.saml2.response import OneLogin_Saml2_Response

        said = OneLogin_Saml2_Response(auth.get_settings(), response)
        said.is_valid(_request(provider, {}), raise_exceptions=True)
        found = _asserted(provider, said)
    except LoginRefused:
        raise
    except Exception as error:  # the library raises whatever its XML parser does
        raise LoginRefused("assertion", str(error)[:200]) from error
    return found


def take_once(provider: LoginProvider, asserted: Asserted) -> None:
    """Raise LoginRefused where the assertion was taken before, in whichever process."""
    digest = hashlib.sha256(f"saml\x00{provider.issuer}\x00{asserted.assertion}".encode()).digest()
    ends = datetime.fromtimestamp(asserted.ends, UTC) + timedelta(seconds=SECONDS)
    try:
        with transaction.atomic():
            IDToken.objects.create(jti=uuid.UUID(bytes=digest[:16]), expires=ends, scope="")
    except IntegrityError as error:
        raise LoginRefused("state", "used before") from error


def _asserted(provider: LoginProvider, said: OneLogin_Saml2_Response) -> Asserted:
    """Read the signed assertion; raise LoginRefused if it lacks parts that SAML's profile demands."""
    if provider.client_id not in said.get_audiences():
        raise LoginRefused("assertion", "it names no audience")
    if said.get_nameid_format() == _TRANSIENT:
        raise LoginRefused("assertion", "the name id is another one each time; let the provider send a persistent one")
    request, ends = "", 0.0
    for node in said._query_assertion(_CONFIRMED):
        data = node.find("{*}SubjectConfirmationData")
        if node.get("Method") != _BEARER or data is None or data.get("Recipient") != redirect_uri(provider):
            continue
        request = data.get("InResponseTo") or ""
        until = data.get("NotOnOrAfter") or ""
        ends = datetime.fromisoformat(until).timestamp() if until else 0.0
    if not request or not ends:
        raise LoginRefused("assertion", "it answers no request of the hub, or has no end")
    attributes = {**said.get_friendlyname_attributes(), **said.get_attributes()}
    claims: dict[str, Any] = {"sub": said.get_nameid()}
    for name in (provider.username_claim, provider.email_claim, provider.directory_claim):
        if name and name != "sub" and attributes.get(name):
            claims[name] = attributes[name][:1]
    for claim, names in _NAMES.items():
        found: list[str] = next((attributes[name] for name in names if attributes.get(name)), [])
        claims[claim] = found[:1]
    claims[provider.groups_claim] = [
        each for each in attributes.get(provider.groups_claim, ()) if each in provider.groups
    ]
    return Asserted(request, said.get_assertion_id(), ends, claims)


def _library(provider: LoginProvider, posted: Mapping[str, str]) -> Any:
    """Raises ProviderFault where the extra is not installed any more, or the row does not do."""
    try:
        from onelogin.saml2.auth import OneLogin_Saml2_Auth  # type: ignore[import-untyped]
        from onelogin.saml2.errors import OneLogin_Saml2_Error  # type: ignore[import-untyped]
    except ImportError as error:
        raise ProviderFault("SAML is an extra: install `mcphub[saml]`, and start the hub again.") from error
    try:
        return OneLogin_Saml2_Auth(_request(provider, posted), old_settings=_settings(provider))
    except OneLogin_Saml2_Error as error:
        raise ProviderFault(str(error)[:300]) from error


def _request(provider: LoginProvider, posted: Mapping[str, str]) -> dict[str, Any]:
    """Return the response's destination by the configured address, never by a proxy or the request."""
    own = urlsplit(redirect_uri(provider))
    return {
        "https": "on" if own.scheme == "https" else "off",
        "http_host": own.netloc,
        "script_name": own.path,
        "get_data": {},
        "post_data": dict(posted),
    }


def _settings(provider: LoginProvider) -> dict[str, Any]:
    found = x509.load_pem_x509_certificates(provider.certificates.encode())
    signing = [each.public_bytes(Encoding.PEM).decode() for each in found]
    return {
        "strict": True,
        "sp": {
            "entityId": provider.client_id,
            "assertionConsumerService": {"url": redirect_uri(provider), "binding": _POST},
            "NameIDFormat": _UNSPECIFIED,
        },
        "idp": {
            "entityId": provider.issuer,
            "singleSignOnService": {"url": provider.login_address, "binding": _REDIRECT},
            "x509certMulti": {"signing": signing},
            "x509cert": signing[0],
        },
        "security": {
            "wantAssertionsSigned": True,
            "wantNameId": True,
            "wantAttributeStatement": False,
            "requestedAuthnContext": False,
            "rejectDeprecatedAlgorithm": True,
            "allowSingleLabelDomains": True,
            "metadataValidUntil": "",  # it holds as long as the row does
            "metadataCacheDuration": "",
        },
    }
