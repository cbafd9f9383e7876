"""The key that signs the audit: files under the data directory, in the formats of C2SP signed-note.

`signing.key` holds the private key, for the owner alone. `public.keys` holds every public key of the log, oldest
first: what an auditor needs. A rotation keeps the old public key and destroys the old private one.
"""

from __future__ import annotations

import base64
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from invocations.chain.verifier import Bad, PublicKey, checkpoint_text, make_key_id, read_keys, tombstone_bytes

_MARK = "PRIVATE+KEY+"


class KeyProblem(Exception):
    """The signing key cannot be used; the text says why and what to do."""


@dataclass(frozen=True)
class Signer:
    """A private key and the name of its log."""

    public: PublicKey
    seed: bytes

    @classmethod
    def make(cls, name: str) -> Signer:
        return cls._of(name, secrets.token_bytes(32))

    @classmethod
    def _of(cls, name: str, seed: bytes) -> Signer:
        raw = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return cls(PublicKey(name, make_key_id(name, raw), raw), seed)

    @classmethod
    def parse(cls, text: str) -> Signer:
        try:
            name, key_id, data = text.strip().removeprefix(_MARK).split("+", 2)
            packed = base64.b64decode(data, validate=True)
            signer = cls._of(name, packed[1:])
        except ValueError as error:
            raise KeyProblem("The file of the audit's signing key is damaged; restore it from a backup.") from error
        if packed[:1] != b"\x01" or signer.public.key_id != key_id:
            raise KeyProblem("The file of the audit's signing key is damaged; restore it from a backup.")
        return signer

    def __str__(self) -> str:
        packed = base64.b64encode(b"\x01" + self.seed).decode()
        return f"{_MARK}{self.public.name}+{self.public.key_id}+{packed}"

    def sign(self, text: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self.seed).sign(text)

    def sign_checkpoint(self, size: int, root: bytes) -> str:
        """Give the signature, in Base64, of the log of `size` blocks."""
        return base64.b64encode(self.sign(checkpoint_text(self.public.name, size, root).encode())).decode()

    def sign_tombstone(self, tombstone: dict[str, object]) -> str:
        return base64.b64encode(self.sign(tombstone_bytes(tombstone))).decode()


def note(public: PublicKey, size: int, root: bytes, signature: str) -> str:
    """Give a checkpoint as a signed note."""
    packed = base64.b64encode(bytes.fromhex(public.key_id) + base64.b64decode(signature)).decode()
    return f"{checkpoint_text(public.name, size, root)}\n\u2014 {public.name} {packed}\n"


class KeyFolder:
    """The files, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.private = folder / "signing.key"
        self.public = folder / "public.keys"

    def signer(self, *, may_make: bool = False) -> Signer:
        """Give the key; make the first one where that is allowed. Raises KeyProblem."""
        try:
            return Signer.parse(self.private.read_text())
        except FileNotFoundError:
            if not may_make:
                raise KeyProblem(
                    f"The audit's signing key {self.private} is missing. Restore it from a backup, or copy it from the "
                    "machine that has it; `mcphub audit rotate-key --lost` begins a new one where it is gone for good."
                ) from None
        except OSError as error:
            raise KeyProblem(f"The audit's signing key {self.private} cannot be read: {error.strerror}.") from error
        self.keep(Signer.make(f"mcphub-audit/{secrets.token_hex(8)}"))
        return self.signer()

    def publics(self) -> list[PublicKey]:
        """Every public key that is on file, oldest first."""
        try:
            return read_keys(self.public.read_text())
        except FileNotFoundError:
            return []
        except (OSError, Bad) as error:
            raise KeyProblem(f"The public keys {self.public} cannot be read: {error}") from error

    def keep(self, signer: Signer) -> None:
        """Make `signer` the signing key. The public key is on file before the private one is in place."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.announce(signer.public)
        draft = self.private.with_name(f"signing.key.{os.getpid()}.draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{signer}\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.private)

    def announce(self, public: PublicKey) -> None:
        if public not in self.publics():
            with self.public.open("a") as file:
                file.write(f"{public}\n")
                file.flush()
                os.fsync(file.fileno())
