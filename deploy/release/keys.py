"""The releaser's key: made here or by `minisign -G`, and never kept in a checkout.

    python -m deploy.release.keys ~/keys/mcphub.key            asks for a passphrase; --no-passphrase for a run of CI

Writes the secret key in minisign's format (mode 0600) and the public one beside it, with the suffix `.pub`. A
passphrase is asked on the terminal, or comes from the file that --passphrase-file names.
"""

from __future__ import annotations

import argparse
import getpass
import hashlib
import os
import stat
import struct
import sys
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from deploy.release import hashes
from mcphub.features.provenance.minisign import ALGORITHM, FileSignature, ReleaseKey, prehash

MAKE_ONE = "python -m deploy.release.keys ~/mcphub-release.key"
_LAYOUT = struct.Struct("<2s2s2s32sQQ104s")
"""Algorithm, derivation, checksum, salt, two costs, and id, key and checksum together."""
_DERIVATION, _CHECKSUM = b"Sc", b"B2"
_COSTS = (2**25, 2**30)
"""Operations and memory, as minisign takes them: 1 GiB and some seconds for each guess."""


class Unusable(Exception):
    """A key, or what shall be signed, cannot be used; the text is a sentence with what to do."""


@dataclass(frozen=True)
class Signer:
    key_id: bytes
    private: Ed25519PrivateKey

    @property
    def public(self) -> ReleaseKey:
        return ReleaseKey(self.key_id, self.private.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self.private.sign(message)

    def file(self, path: Path, epoch: int) -> FileSignature:
        """Return the signature of a file. The same file, time and key give the same bytes."""
        with path.open("rb") as file:
            first = self.sign(prehash(file))
        comment = f"timestamp:{epoch}\tfile:{path.name}\thashed"
        return FileSignature(self.key_id, first, comment, self.sign(first + comment.encode()))


def make() -> Signer:
    return Signer(os.urandom(8), Ed25519PrivateKey.generate())


def text_of(signer: Signer, passphrase: str) -> str:
    """Return the file of a secret key, encrypted unless the passphrase is empty."""
    secret = signer.key_id + signer.private.private_bytes_raw() + signer.public.raw
    plain = secret + _sum(secret)
    salt, costs, kind = bytes(32), (0, 0), b"\0\0"
    if passphrase:
        salt, costs, kind = os.urandom(32), _COSTS, _DERIVATION
        plain = _masked(plain, passphrase, salt, *costs)
    data = _LAYOUT.pack(ALGORITHM, kind, _CHECKSUM, salt, *costs, plain)
    return f"untrusted comment: minisign secret key {signer.public.name}\n{b64encode(data).decode()}\n"


def read(path: Path, passphrase_file: Path | None = None) -> Signer:
    """Return the key of a file. Unusable."""
    try:
        mode, text = path.stat().st_mode, path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{path} cannot be read as a key: {error}. Make one with `{MAKE_ONE}`.") from error
    if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
        raise Unusable(f"Other users can read {path}: run `chmod 600 {path}`.")
    try:
        fields = _LAYOUT.unpack(b64decode(text.splitlines()[1], validate=True))
    except (ValueError, IndexError, struct.error) as error:
        raise Unusable(f"{path} is not a secret key of minisign. Make one with `{MAKE_ONE}`.") from error
    algorithm, kind, checksum, salt, operations, memory, held = fields
    if algorithm != ALGORITHM or checksum != _CHECKSUM or kind not in (b"\0\0", _DERIVATION):
        raise Unusable(f"{path} is not a secret key of minisign. Make one with `{MAKE_ONE}`.")
    if kind == _DERIVATION:
        if memory > _COSTS[1] or operations > _COSTS[0]:
            raise Unusable(f"{path} asks for more memory than minisign does; make another key.")
        held = _masked(held, _passphrase(path, passphrase_file), salt, operations, memory)
    secret, control = held[:72], held[72:]
    if _sum(secret) != control:
        raise Unusable(f"The passphrase is not that of {path}, or the file is damaged.")
    return Signer(secret[:8], Ed25519PrivateKey.from_private_bytes(secret[8:40]))


def outside_checkout(path: Path) -> None:
    """Raise Unusable for a path in the repository, where a key could be committed."""
    if path.resolve().is_relative_to(hashes.HOME.resolve()):
        raise Unusable(f"{path} is in the repository, where a key must not be. Name a path outside.")


def _passphrase(path: Path, file: Path | None) -> str:
    if file is not None:
        try:
            return file.read_text().splitlines()[0]
        except (OSError, UnicodeDecodeError, IndexError) as error:
            raise Unusable(f"{file} has no passphrase in its first line: {error}.") from error
    if not sys.stdin.isatty():
        raise Unusable(f"{path} is encrypted: name the file of its passphrase with PASSPHRASE_FILE=…")
    return getpass.getpass(f"Passphrase of {path}: ")


def _masked(data: bytes, passphrase: str, salt: bytes, operations: int, memory: int) -> bytes:
    """Encrypt or decrypt by the stream that libsodium's scrypt gives for these costs."""
    rounds, is_slow = 8, operations >= memory // 32
    most = memory // (rounds * 128) if is_slow else operations // (rounds * 4)
    cost = next(1 << power for power in range(1, 63) if (1 << power) > most // 2)
    parallel = max(1, min(operations // 4 // cost, 0x3FFFFFFF) // rounds) if is_slow else 1
    try:
        stream = Scrypt(salt, len(data), n=cost, r=rounds, p=parallel).derive(passphrase.encode())
    except MemoryError as error:
        raise Unusable("An encrypted key takes 1 GiB of memory for some seconds, and that is not free here.") from error
    return bytes(one ^ other for one, other in zip(data, stream, strict=True))


def _sum(secret: bytes) -> bytes:
    return hashlib.blake2b(ALGORITHM + secret, digest_size=32).digest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="of the secret key, outside the repository")
    parser.add_argument("--passphrase-file", type=Path, help="its first line is the passphrase")
    parser.add_argument("--no-passphrase", action="store_true", help="leave the key unencrypted")
    options = parser.parse_args()
    path = options.path.expanduser()
    public = path.with_name(path.name + ".pub")
    try:
        outside_checkout(path)
        if path.exists() or public.exists():
            raise Unusable(f"{path} or {public} is there already, and is left as it is. Name another path.")
        passphrase = "" if options.no_passphrase else _new_passphrase(path, options.passphrase_file)
        signer = make()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text_of(signer, passphrase))
        public.write_text(signer.public.text())
    except Unusable as problem:
        print(problem, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{error.filename}: {error.strerror}.", file=sys.stderr)
        return 2
    print(f"{path}: keep it, and a copy, where nobody else reads it. {public}: publish it. Key {signer.public.name}.")
    return 0


def _new_passphrase(path: Path, file: Path | None) -> str:
    if file is None and not sys.stdin.isatty():
        raise Unusable("There is no terminal to ask for a passphrase: use --passphrase-file FILE or --no-passphrase.")
    given = _passphrase(path, file)
    if not given:
        raise Unusable("The passphrase is empty: enter one, or use --no-passphrase.")
    if file is None and getpass.getpass("Once more: ") != given:
        raise Unusable("The two passphrases differ.")
    return given


if __name__ == "__main__":
    sys.exit(main())
