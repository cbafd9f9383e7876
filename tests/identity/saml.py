"""An identity provider of SAML that others wrote (pysaml2), with answers as bad as a test wants."""

from __future__ import annotations

import base64
import shutil
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

with warnings.catch_warnings():  # of what it takes from `cryptography`
    warnings.simplefilter("ignore")
    from saml2 import BINDING_HTTP_REDIRECT
    from saml2.config import IdPConfig
    from saml2.saml import NAME_FORMAT_BASIC, NAMEID_FORMAT_PERSISTENT, NameID
    from saml2.server import Server

ISSUER = "https://idp.firm.example/saml"
PASSWORD = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Return the files of a new key and its certificate."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.key", folder / f"{name}.pem"
    files[0].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    files[1].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return files


WITHOUT_XMLSEC = pytest.mark.skipif(
    shutil.which("xmlsec1") is None, reason="xmlsec1, by which pysaml2 signs, is not installed"
)


class SamlProvider:
    """Knows the hub by the metadata that it gives."""

    def __init__(
        self, folder: Path, name: str = "firm", issuer: str = ISSUER, login: str = "https://idp.firm.example/login"
    ) -> None:
        self.folder, self.issuer, self.login = folder, issuer, login
        self.key, self.pem = certificate(folder, name)

    def meets(self, metadata: bytes, **policy: Any) -> None:
        """Read what the hub says of itself."""
        known = self.folder / "hub.xml"
        known.write_bytes(metadata)
        config = IdPConfig().load(
            {
                "entityid": self.issuer,
                "key_file": str(self.key),
                "cert_file": str(self.pem),
                "xmlsec_binary": shutil.which("xmlsec1"),
                "metadata": {"local": [str(known)]},
                "service": {
                    "idp": {
                        "endpoints": {"single_sign_on_service": [(self.login, BINDING_HTTP_REDIRECT)]},
                        "policy": {"default": {"lifetime": {"minutes": 15}, "name_form": NAME_FORMAT_BASIC, **policy}},
                    }
                },
            }
        )
        self.server = Server(config=config)

    def asked(self, address: str) -> Any:
        """Read the request that the hub sent a browser with."""
        query = parse_qs(urlsplit(address).query)
        assert address.startswith(f"{self.login}?")
        return self.server.parse_authn_request(query["SAMLRequest"][0], BINDING_HTTP_REDIRECT).message

    def answers(
        self, request: Any, person: str, attributes: dict[str, list[str]] | None = None, **otherwise: Any
    ) -> bytes:
        """Return the response to a request, signed as SAML demands but for what a test says."""
        name = NameID(format=NAMEID_FORMAT_PERSISTENT, text=person)
        said: dict[str, Any] = {
            "identity": attributes or {},
            "in_response_to": request.id if request is not None else None,
            "destination": request.assertion_consumer_service_url if request is not None else None,
            "sp_entity_id": request.issuer.text if request is not None else None,
            "name_id": name,
            "authn": {"class_ref": PASSWORD},
            "sign_assertion": True,
            "sign_response": False,
            "sign_alg": "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
            "digest_alg": "http://www.w3.org/2001/04/xmlenc#sha256",
            **otherwise,
        }
        return str(self.server.create_authn_response(**said)).encode()


def posted(response: bytes) -> dict[str, str]:
    return {"SAMLResponse": base64.b64encode(response).decode()}
