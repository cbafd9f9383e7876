"""How processes of the hub on different machines trust each other: TLS under a certificate that their shared key gives.

Each machine of a hub has the same secret key (`MCPHUB_SECRET_KEY_FILE`). From it each derives the same private key and
the same certificate, so both ends show it, and accept no other. There is nothing to issue, to copy or to renew.
"""

from __future__ import annotations

import datetime
import ssl
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

SCHEME: Final = "tls://"
_PURPOSE: Final = b"mcphub calls between machines"
_NAME: Final = "mcphub"
_BEGAN: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
_ENDS: Final = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
"""The key is changed by changing the secret key. An end would only stop machines with a wrong clock."""


@dataclass(frozen=True, slots=True)
class PeerPort:
    """Where other machines of the hub reach this process."""

    host: str
    port: int
    secret: str

    @property
    def address(self) -> str:
        """As its row names it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{SCHEME}{host}:{self.port}"


def parted(address: str) -> tuple[str, int]:
    """Return host and port of an address as rows name it."""
    host, _, port = address.removeprefix(SCHEME).rpartition(":")
    return host.strip("[]"), int(port)


@lru_cache(maxsize=2)
def listening(secret: str) -> ssl.SSLContext:
    """Return the server side's TLS context for calls of other machines."""
    return _context(ssl.PROTOCOL_TLS_SERVER, secret)


@lru_cache(maxsize=2)
def calling(secret: str) -> ssl.SSLContext:
    """Return the client side's TLS context for calls to other machines."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, secret)


def _context(protocol: int, secret: str) -> ssl.SSLContext:
    key, certificate = _identity(secret)
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is that of the hub, not of a machine
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate.decode())
    with tempfile.TemporaryDirectory(prefix="mcphub-") as folder:  # ssl takes a key from a file alone
        file = Path(folder) / "identity.pem"
        file.touch(mode=0o600)
        file.write_bytes(key + certificate)
        context.load_cert_chain(file)
    return context


def _identity(secret: str) -> tuple[bytes, bytes]:
    """Return private key and certificate as PEM: the same for the same secret, on each machine."""
    seed = HKDF(hashes.SHA256(), length=32, salt=None, info=_PURPOSE).derive(secret.encode())
    key = Ed25519PrivateKey.from_private_bytes(seed)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(_BEGAN)
        .not_valid_after(_ENDS)
        .sign(key, None)
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain), certificate.public_bytes(pem)
