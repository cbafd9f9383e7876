"""Secrets that the hub must send on: encrypted at rest, bound to the place where they are stored.

AES-256-GCM with a key id, so that keys can be rotated, and with associated data, so that a ciphertext copied
to another row or field does not decrypt. Keys come from the file
`MCPHUB_ENCRYPTION_KEY_FILE`; nothing here is a model.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tools_catalog import encryption_keys

_VERSION = "v1"
_NONCE_BYTES = 12
_MASK = "••••"
_SHOWN = 4
_SHORTEST_SHOWN = 12
"""Shorter secrets are masked whole: four of eight characters would be half of it."""


class SecretError(Exception):
    """A secret cannot be written or read. The sentence names no part of it."""


class Encrypted(Protocol):
    """A row that keeps secrets for long: `mcphub secrets rotate` moves them to the first key."""

    def encrypt_anew(self) -> list[str]:
        """Encrypt values of other keys anew under the first key; return the changed fields. Raises SecretError."""


class KeepsOneSecret:
    """Adds the methods of one secret to a model with the fields `ciphertext` and `mask`."""

    ciphertext: str
    mask: str

    @property
    def _binding(self) -> str:
        """The associated data of the secret; see `binding`."""
        raise NotImplementedError

    def set_secret(self, plain: str) -> None:
        """Encrypt the secret for this row; call save() afterwards. Empty: none."""
        self.ciphertext = encrypt(plain, aad=self._binding) if plain else ""
        self.mask = mask(plain) if plain else ""

    def secret(self) -> str:
        """Return the secret, empty where there is none. Raises SecretError."""
        return decrypt(self.ciphertext, aad=self._binding) if self.ciphertext else ""

    def encrypt_anew(self) -> list[str]:
        if not self.ciphertext or is_current(self.ciphertext):
            return []
        self.set_secret(self.secret())
        return ["ciphertext"]


def binding(model: str, pk: object, field: str) -> str:
    """Return the associated data of one stored secret: model label, primary key and field."""
    return f"{model}:{pk}:{field}"


def encrypt(plain: str, *, aad: str) -> str:
    """Return the token `v1.<key id>.<nonce>.<ciphertext>`; the parts after the key id are base64url."""
    key_id, key = _keys()[0]
    nonce = os.urandom(_NONCE_BYTES)
    sealed = AESGCM(key).encrypt(nonce, plain.encode("utf-8", "surrogatepass"), _associated(key_id, aad))
    return f"{_VERSION}.{key_id}.{_encode(nonce)}.{_encode(sealed)}"


def decrypt(token: str, *, aad: str) -> str:
    """Return the text back. Raises `SecretError` for a broken token, a foreign place or a missing key."""
    try:
        version, key_id, nonce, sealed = token.split(".")
        raw_nonce, raw_sealed = _decode(nonce), _decode(sealed)
    except ValueError as exc:
        raise SecretError("The stored secret is damaged. Enter it again.") from exc
    if version != _VERSION or len(raw_nonce) != _NONCE_BYTES:
        raise SecretError("The stored secret has an unknown form. Enter it again.")
    key = dict(_keys()).get(key_id) or dict(_read_again(key_id)).get(key_id)
    if key is None:
        raise SecretError(
            f"The key '{key_id}' that encrypted the secret is not in the file MCPHUB_ENCRYPTION_KEY_FILE. Put it back."
        )
    try:
        return AESGCM(key).decrypt(raw_nonce, raw_sealed, _associated(key_id, aad)).decode("utf-8", "surrogatepass")
    except InvalidTag as exc:
        raise SecretError("The stored secret was changed, moved or encrypted by another key.") from exc


def is_current(token: str) -> bool:
    """Return whether the key that encrypts today made the token; if not, rotation has it to do."""
    return token.startswith(f"{_VERSION}.{_keys()[0][0]}.")


def fingerprint(plain: str) -> str:
    """Return a keyed hash, equal for equal secrets, that reveals nothing to a reader of the database.

    Changes with the first key, whose ID it starts with.
    """
    key_id, key = _keys()[0]
    purpose = hmac.digest(key, b"mcphub secret fingerprint", hashlib.sha256)
    digest = hmac.new(purpose, plain.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return f"{key_id}.{digest.hexdigest()[:32]}"


def mask(plain: str) -> str:
    """Return the displayable part: the last four characters of a long secret, nothing of a short one."""
    return f"{_MASK} {plain[-_SHOWN:]}" if len(plain) >= _SHORTEST_SHOWN else _MASK


def _keys() -> tuple[tuple[str, bytes], ...]:
    from django.conf import settings

    keys: tuple[tuple[str, bytes], ...] = tuple(settings.MCPHUB_ENCRYPTION_KEYS)
    if not keys:
        raise SecretError("The file MCPHUB_ENCRYPTION_KEY_FILE holds no key. Add one.")
    return keys


def _read_again(key_id: str) -> encryption_keys.Keys:
    """Read the file, which `mcphub secrets rotate` has changed if it holds this key, and take its keys from now on."""
    from django.conf import settings

    try:
        found = encryption_keys.read(settings.MCPHUB_ENCRYPTION_KEY_FILE)
    except OSError:
        return ()
    if key_id in dict(found):
        settings.MCPHUB_ENCRYPTION_KEYS = found
    return found


def _associated(key_id: str, aad: str) -> bytes:
    return f"{_VERSION}.{key_id}|{aad}".encode("utf-8", "surrogatepass")


def _encode(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    if not text.isascii():
        raise ValueError("not ASCII")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
