"""A file that is encrypted whole under a passphrase, written and read as a stream.

    mcphub-backup 1\\n
    one line of JSON: what anybody may read, with salt, cost and a check of the passphrase
    chunks: four bytes of length, then AES-256-GCM of at most 1 MiB

The key comes from scrypt. The nonce of a chunk is its number, because a salt and so a key serves one file only. Each
chunk is bound to the header's digest and says whether it is the last: a changed, moved, cut or lengthened file is
found. Pure: knows neither settings nor database.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from base64 import b64decode, b64encode
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from sessions_app.protocol.json import Json

MAGIC = b"mcphub-backup 1\n"
CHUNK_BYTES = 2**20
MAX_HEADER_BYTES = 2**20
_TAG_BYTES = 16
_COST = {"n": 2**16, "r": 8, "p": 1}
"""64 MiB and a tenth of a second for each guess."""
_MOST = {"n": 2**20, "r": 16, "p": 4}
"""Memory that a foreign file may demand of this machine: 2 GiB."""


class Unreadable(Exception):
    """The file is no backup, is damaged, or the passphrase is another one; the text is a sentence."""


class WrongPassphrase(Unreadable):
    pass


class Writer(io.RawIOBase):
    """Encrypts its input. `close` writes the last chunk; a file without one is not whole."""

    def __init__(self, file: BinaryIO, passphrase: str, header: dict[str, Json]) -> None:
        salt = os.urandom(16)
        key, check = _derive(passphrase, salt, _COST)
        locked = {"salt": b64encode(salt).decode(), "scrypt": _COST, "check": check}
        line = json.dumps({**header, "lock": locked}, separators=(",", ":")).encode() + b"\n"
        self._file, self._cipher, self._digest = file, AESGCM(key), hashlib.sha256(line).digest()
        self._buffer, self._number = bytearray(), 0
        file.write(MAGIC + line)

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        given = memoryview(data).cast("B")  # type: ignore[arg-type]
        self._buffer += given
        while len(self._buffer) > CHUNK_BYTES:  # the last chunk is written by close, and so is never empty by accident
            self._put(bytes(self._buffer[:CHUNK_BYTES]), is_last=False)
            del self._buffer[:CHUNK_BYTES]
        return given.nbytes

    def finish(self) -> None:
        self._put(bytes(self._buffer), is_last=True)
        self._buffer.clear()

    def _put(self, plain: bytes, *, is_last: bool) -> None:
        sealed = self._cipher.encrypt(_nonce(self._number), plain, _bound(self._digest, is_last))
        self._file.write(len(sealed).to_bytes(4, "big") + sealed)
        self._number += 1


class SealedReader(io.RawIOBase):
    """Returns the decrypted content. Every read may raise Unreadable; the end comes only after the last chunk."""

    def __init__(self, file: BinaryIO, passphrase: str) -> None:
        self.header, line = read_header(file)
        try:
            lock = self.header["lock"]
            salt, cost, check = b64decode(lock["salt"]), dict(lock["scrypt"]), lock["check"]
            if any(not 1 <= cost[name] <= most for name, most in _MOST.items()):
                raise ValueError("cost")
            key, own = _derive(passphrase, salt, cost)
        except (KeyError, TypeError, ValueError) as error:
            raise Unreadable("The backup's first lines are damaged.") from error
        if own != check:
            raise WrongPassphrase("The passphrase is not the one that the backup was made with.")
        self._file, self._cipher, self._digest = file, AESGCM(key), hashlib.sha256(line).digest()
        self._plain, self._number, self._is_over = memoryview(b""), 0, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        into = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._plain and not self._is_over:
            self._plain = memoryview(self._next())
        count = min(len(into), len(self._plain))
        into[:count], self._plain = self._plain[:count], self._plain[count:]
        return count

    def _next(self) -> bytes:
        length = int.from_bytes(_exactly(self._file, 4), "big")
        if not _TAG_BYTES <= length <= CHUNK_BYTES + _TAG_BYTES:
            raise Unreadable(_DAMAGED)
        sealed = _exactly(self._file, length)
        for is_last in (False, True):
            try:
                plain = self._cipher.decrypt(_nonce(self._number), sealed, _bound(self._digest, is_last))
            except InvalidTag:
                continue
            self._number += 1
            self._is_over = is_last
            if is_last and self._file.read(1):
                raise Unreadable("The backup goes on after its end: it was damaged, or something was appended.")
            return plain
        raise Unreadable(_DAMAGED)


_DAMAGED = "The backup is damaged: a part of it is not as it was written."


def read_header(file: BinaryIO) -> tuple[dict[str, Json], bytes]:
    """Return the public header of a backup, and its line; anybody may have changed it."""
    if file.read(len(MAGIC)) != MAGIC:
        raise Unreadable("The file is no backup that this version can read.")
    line = file.readline(MAX_HEADER_BYTES)
    try:
        header = json.loads(line)
    except ValueError as error:
        raise Unreadable("The backup's first lines are damaged.") from error
    if not isinstance(header, dict):
        raise Unreadable("The backup's first lines are damaged.")
    return header, line


def _exactly(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise Unreadable("The backup ends too early: it was cut, or was not written to its end.")
    return data


def _derive(passphrase: str, salt: bytes, cost: dict[str, int]) -> tuple[bytes, str]:
    both = Scrypt(salt, 64, n=cost["n"], r=cost["r"], p=cost["p"]).derive(passphrase.encode("utf-8", "surrogatepass"))
    return both[:32], both[32:].hex()


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")


def _bound(digest: bytes, is_last: bool) -> bytes:
    return digest + (b"\x01" if is_last else b"\x00")
