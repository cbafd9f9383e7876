"""A signing key that the hub never holds: a command signs, for a KMS or an HSM. Needs no Django.

COMMAND            gets the bytes on its standard input; gives the Ed25519 signature, as 64 bytes or in Base64
COMMAND --public   gives the public key: a line of public.keys, PEM, or 32 bytes in Base64
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_public_key,
)

from invocations.chain.verifier import Bad, PublicKey, make_key_id

_MOST_BYTES = 4096
"""Of a command's answer; a signature in Base64 has 88."""
_SIGNATURE_BYTES = 64


class CommandFailed(Exception):
    """The command gave nothing that can be used. Its message is the reason."""


class Signs(Protocol):
    """The signer of the audit, wherever its key is."""

    @property
    def public(self) -> PublicKey: ...

    def sign(self, text: bytes) -> bytes: ...


@dataclass(frozen=True)
class SigningCommand:
    """How the command is run: words, no shell; the hub's environment; a bound on time and on its answer."""

    words: tuple[str, ...]
    seconds: float

    def public(self, name: str) -> PublicKey:
        """Request the public key; `name` is the log's, used if the answer has none."""
        return read_public_key(self._ask("--public").decode(errors="replace"), name)

    def sign(self, text: bytes) -> bytes:
        answer = self._ask(given=text)
        if len(answer) == _SIGNATURE_BYTES:
            return answer
        try:
            found = base64.b64decode(answer.strip(), validate=True)
        except (ValueError, binascii.Error):
            found = b""
        if len(found) != _SIGNATURE_BYTES:
            raise CommandFailed(f"{self.words[0]} gave no Ed25519 signature, neither as 64 bytes nor in Base64")
        return found

    def _ask(self, *more: str, given: bytes = b"") -> bytes:
        try:
            process = subprocess.Popen(  # noqa: S603 - the operator's own setting
                [*self.words, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise CommandFailed(f"{self.words[0]} cannot be run: {error.strerror}") from error
        until = time.monotonic() + self.seconds
        # Of the group: what the command started may hold its output open. The process itself is not reaped before.
        timer = threading.Timer(self.seconds, _kill, [process])
        timer.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
                pipe.write(given)
            with process.stdout as pipe:
                answer = pipe.read(_MOST_BYTES + 1)
            timer.cancel()
            status = process.wait(max(0.0, until - time.monotonic())) if len(answer) <= _MOST_BYTES else 0
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        finally:
            timer.cancel()
            if process.returncode is None:
                _kill(process)
                process.wait()
        if len(answer) > _MOST_BYTES:
            raise CommandFailed(f"{self.words[0]} gave more than {_MOST_BYTES} bytes")
        if time.monotonic() >= until:
            raise CommandFailed(f"{self.words[0]} did not end in {self.seconds:g} seconds (limit signing_seconds)")
        if status:
            raise CommandFailed(f"{self.words[0]} ended with status {status}; the log has what it said")
        return answer


@dataclass(frozen=True)
class CommandSigner:
    """Signs by the command. Its signatures are verified before use."""

    public: PublicKey
    command: SigningCommand

    def sign(self, text: bytes) -> bytes:
        signature = self.command.sign(text)
        if not self.public.has_signed(signature, text):
            raise CommandFailed(
                f"the signature of {self.command.words[0]} does not fit the public key {self.public.key_id}; it must "
                "be of Ed25519 over the bytes themselves, not over their hash"
            )
        return signature


def read_public_key(text: str, name: str) -> PublicKey:
    """Read a line of public.keys, PEM, or Base64 of 32 bytes or of DER. Raises CommandFailed."""
    told = text.strip()
    with contextlib.suppress(Bad):
        return PublicKey.parse(told)
    try:
        if told.startswith("-----BEGIN"):
            raw = _raw(load_pem_public_key(told.encode()))
        else:
            packed = base64.b64decode("".join(told.split()), validate=True)
            raw = packed if len(packed) == 32 else _raw(load_der_public_key(packed))
    except (ValueError, TypeError, UnsupportedAlgorithm, binascii.Error):
        raise CommandFailed(
            "the public key cannot be read: give a line of public.keys, PEM or Base64, of an Ed25519 key"
        ) from None
    name = name or f"mcphub-audit/{hashlib.sha256(raw).hexdigest()[:16]}"
    return PublicKey(name, make_key_id(name, raw), raw)


def _raw(key: object) -> bytes:
    if not isinstance(key, Ed25519PublicKey):
        raise TypeError
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the command and its child processes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
