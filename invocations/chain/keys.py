"""The key that signs the audit, in the formats of C2SP signed-note.

`signing.key` holds the private key, for the owner alone, unless the hub is given its text or a command that signs.
`public.keys` holds every public key of the log, oldest first, for auditors. A rotation keeps the old public key and
destroys the old private one.
"""

from __future__ import annotations

import base64
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from invocations.chain.commanding import CommandFailed, CommandSigner, SigningCommand, Signs, read_public_key
from invocations.chain.verifier import Bad, PublicKey, checkpoint_text, make_key_id, read_keys, tombstone_bytes

if TYPE_CHECKING:
    from sessions_app.protocol.json import Json

_MARK = "PRIVATE+KEY+"


class KeyProblem(Exception):
    """The signing key is unusable; the message has the reason and the next step."""


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


def new_name() -> str:
    """Return a log of its own a name."""
    return f"mcphub-audit/{secrets.token_hex(8)}"


def sign_checkpoint(signer: Signs, size: int, root: bytes) -> str:
    """Return the signature, in Base64, of the log of `size` blocks. Raises KeyProblem."""
    return _signed(signer, checkpoint_text(signer.public.name, size, root).encode())


def sign_tombstone(signer: Signs, tombstone: dict[str, object]) -> str:
    return _signed(signer, tombstone_bytes(tombstone))


def _signed(signer: Signs, text: bytes) -> str:
    try:
        return base64.b64encode(signer.sign(text)).decode()
    except CommandFailed as failure:
        raise KeyProblem(f"MCPHUB_SIGNING_COMMAND: {failure}.") from failure


def note(public: PublicKey, size: int, root: bytes, signature: str) -> str:
    """Return a checkpoint as a signed note."""
    packed = base64.b64encode(bytes.fromhex(public.key_id) + base64.b64decode(signature)).decode()
    return f"{checkpoint_text(public.name, size, root)}\n\u2014 {public.name} {packed}\n"


@dataclass(frozen=True)
class KeySource:
    """Where the signing key is, if not in a file that the hub made itself."""

    text: str = field(default="", repr=False)
    """The key, read at the start."""
    source: str = ""
    """Which setting gave it, for messages."""
    problem: str = ""
    """Why it could not be read."""
    command: SigningCommand | None = None
    public_key: str = ""
    """The command's public key; empty: the command reports it."""

    def words(self) -> dict[str, Json]:
        """Return this as JSON carries it to another process, over a pipe: it may hold the key."""
        command = [list(self.command.words), self.command.seconds] if self.command else None
        return {**vars(self), "command": command}

    @classmethod
    def of(cls, words: dict[str, Json]) -> KeySource:
        command = words["command"]
        return cls(**{**words, "command": SigningCommand(tuple(command[0]), command[1]) if command else None})


class KeyFolder:
    """The files, in one folder; the private key may be elsewhere."""

    def __init__(self, folder: Path, given: KeySource | None = None) -> None:
        self.folder = folder
        self.private = folder / "signing.key"
        self.public = folder / "public.keys"
        self.given = given if given is not None and given.source else None
        self._commanded: CommandSigner | None = None

    @property
    def where(self) -> str:
        """Where the private key is, for messages."""
        return self.given.source if self.given else str(self.private)

    def signer(self, *, may_make: bool = False) -> Signs:
        """Return the key; make the first one where that is allowed. Raises KeyProblem."""
        if self.given is not None:
            signer = self._given(self.given)
            if may_make:
                self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self.announce(signer.public)
            return signer
        try:
            return Signer.parse(self.private.read_text())
        except FileNotFoundError:
            if not may_make:
                raise KeyProblem(
                    f"The audit's signing key {self.private} is missing. Restore it from a backup, or copy it from the "
                    "machine that has it, or set where the hub gets it (MCPHUB_SIGNING_KEY_FILE and its like); "
                    "`mcphub audit rotate-key --lost` begins a new one where it is gone for good."
                ) from None
        except OSError as error:
            raise KeyProblem(f"The audit's signing key {self.private} cannot be read: {error.strerror}.") from error
        self.keep(Signer.make(new_name()))
        return self.signer()

    def _given(self, given: KeySource) -> Signs:
        if given.problem:
            raise KeyProblem(f"The audit's signing key cannot be read: {given.source}: {given.problem}.")
        if given.command is None:
            try:
                return Signer.parse(given.text)
            except KeyProblem as problem:
                raise KeyProblem(f"{given.source} holds no signing key: `mcphub audit new-key` makes one.") from problem
        if self._commanded is None:
            known = self.publics()
            name = known[-1].name if known else ""
            try:
                public = read_public_key(given.public_key, name) if given.public_key else given.command.public(name)
            except CommandFailed as failure:
                raise KeyProblem(f"{given.source}: {failure}.") from failure
            self._commanded = CommandSigner(public, given.command)
        return self._commanded

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
