"""Public keys and signatures as minisign has them: Ed25519 over the BLAKE2b digest of a file, and over a comment.

Format: https://jedisct1.github.io/minisign/. Pure: knows neither settings nor database.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from io import BufferedReader

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX_BYTES = 8192
"""Of a key or signature file; minisign writes less than 1 KiB."""
ALGORITHM = b"Ed"
PREHASHED = b"ED"
_COMMENT = "untrusted comment: "
_TRUSTED = "trusted comment: "


class BadSignature(Exception):
    """A key or signature is malformed or wrong; the text is the reason, without a subject."""


@dataclass(frozen=True, slots=True)
class ReleaseKey:
    """The public key of a releaser."""

    key_id: bytes
    raw: bytes

    @classmethod
    def parse(cls, text: str) -> ReleaseKey:
        """Return the key of a file that minisign wrote, or of its one line in Base64."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(_COMMENT.strip())]
        data = _decoded(lines[0], 42) if len(lines) == 1 else b""
        if data[:2] != ALGORITHM:
            raise BadSignature("is not a public key of minisign")
        return cls(data[2:10], data[10:])

    @property
    def name(self) -> str:
        """The id as minisign prints it."""
        return self.key_id[::-1].hex().upper()

    def line(self) -> str:
        return b64encode(ALGORITHM + self.key_id + self.raw).decode()

    def text(self) -> str:
        return f"{_COMMENT}minisign public key {self.name}\n{self.line()}\n"

    def verify(self, signature: bytes, message: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class FileSignature:
    """The content of a `.minisig` file."""

    key_id: bytes
    signature: bytes
    comment: str
    comment_signature: bytes

    @classmethod
    def parse(cls, text: str) -> FileSignature:
        lines = text.removesuffix("\n").split("\n")
        if len(lines) != 4 or not lines[0].startswith(_COMMENT) or not lines[2].startswith(_TRUSTED):
            raise BadSignature("is not a signature of minisign")
        data = _decoded(lines[1], 74)
        if data[:2] != PREHASHED:
            raise BadSignature("has a signature that is not over a BLAKE2b digest")
        return cls(data[2:10], data[10:], lines[2].removeprefix(_TRUSTED), _decoded(lines[3], 64))

    def text(self) -> str:
        first = b64encode(PREHASHED + self.key_id + self.signature).decode()
        second = b64encode(self.comment_signature).decode()
        return f"{_COMMENT}signature of an MCP Hub release\n{first}\n{_TRUSTED}{self.comment}\n{second}\n"

    def check(self, key: ReleaseKey, digest: bytes) -> None:
        """Raise BadSignature unless `key` signed the file of this `prehash` and the trusted comment."""
        if self.key_id != key.key_id:
            raise BadSignature(f"is signed with the key {self.key_id[::-1].hex().upper()}, not with {key.name}")
        if not key.verify(self.signature, digest):
            raise BadSignature("has a signature that does not fit its content")
        if not key.verify(self.comment_signature, self.signature + self.comment.encode()):
            raise BadSignature("has a signature whose trusted comment was changed")


def prehash(file: BufferedReader) -> bytes:
    return hashlib.file_digest(file, hashlib.blake2b).digest()


def _decoded(text: str, length: int) -> bytes:
    try:
        data = b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != length:
        raise BadSignature("has a line that is not Base64 of the length that minisign writes")
    return data
