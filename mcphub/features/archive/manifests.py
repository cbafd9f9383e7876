"""The signed manifest of an archived month: its blocks, its files, and the month before it.

A month is a folder `2026-10`. `manifest.json` names every file with size and SHA-256, and the SHA-256 of the manifest
before, so that no month can be left out or stand in another's place; `manifest.sig` is the signature of `MARK` and the
manifest by the audit's key, as `NAME ID BASE64`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from invocations.chain.commanding import CommandFailed, Signs
from invocations.chain.keys import KeyProblem
from invocations.chain.verifier import Bad, PublicKey, canonical, from_base64, loads
from mcphub.features.archive.files import write_whole
from mcphub.features.archive.places import MANIFEST, SIGNATURE, ArchivePlace

MARK: Final = b"mcphub archive 1\n"
"""Before the manifest in the signed bytes, so that the signature serves for nothing else."""
FORMAT: Final = "mcphub archive 1"
TOMBSTONES: Final = "tombstones.jsonl"
_MOST_BYTES: Final = 16 * 1024 * 1024
_NAME: Final = re.compile(r"part-\d{12}-\d{12}\.parquet|tombstones\.jsonl")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of one month, as it was signed."""

    place: ArchivePlace
    values: Mapping[str, Any]
    digest: str
    """SHA-256 of its bytes: by it the next month and the event in the log name this one."""

    @property
    def month(self) -> str:
        return str(self.values["month"])

    @property
    def archive(self) -> str:
        """The identity of the archive that the month is of."""
        return str(self.values["archive"])

    @property
    def first_block(self) -> int:
        return int(self.values["first_block"])

    @property
    def last_block(self) -> int:
        return int(self.values["last_block"])

    @property
    def rows(self) -> int:
        return int(self.values["rows"])

    @property
    def files(self) -> Mapping[str, Any]:
        """Name -> bytes, SHA-256, rows, and of Parquet `calls`: number, ends of their positions and starts."""
        found: Mapping[str, Any] = self.values["files"]
        return found

    @property
    def parts(self) -> list[str]:
        """The files with blocks, in the order of the log."""
        return [name for name in sorted(self.files) if name != TOMBSTONES]

    def fetched(self, name: str, *, may_be_kept: bool = False) -> AbstractContextManager[Path]:
        """Return a file for the time of a block, as it is in its place. Raises OSError."""
        return self.place.fetched(self.month, name, self.files[name], may_be_kept=may_be_kept)


def save(folder: Path, values: Mapping[str, Any], signer: Signs) -> None:
    """Sign and write the manifest of a month. Raises KeyProblem."""
    text = canonical(values)
    try:
        signature = base64.b64encode(signer.sign(MARK + text)).decode()
    except CommandFailed as failure:
        raise KeyProblem(f"MCPHUB_SIGNING_COMMAND: {failure}.") from failure
    write_whole(folder / MANIFEST, text)
    write_whole(folder / SIGNATURE, f"{signer.public.name} {signer.public.key_id} {signature}\n".encode())


def of_place(place: ArchivePlace, keys: Mapping[str, PublicKey]) -> list[Manifest]:
    """Return the manifests of an archive, oldest month first.

    Raises OSError, and Bad where one is not as it was signed, not that of its folder, or not the next.
    """
    found: list[Manifest] = []
    for month in place.months():
        manifest = of_month(place, month, keys)
        _follow(manifest, found[-1] if found else None)
        found.append(manifest)
    return found


def of_month(place: ArchivePlace, month: str, keys: Mapping[str, PublicKey]) -> Manifest:
    """Return the manifest of a month. Raises OSError, and Bad where it is not as it was signed."""
    text, signature = (_small(place, month, name) for name in (MANIFEST, SIGNATURE))
    try:
        name, key_id, packed = signature.decode().split()
        key, signed = keys.get(key_id), from_base64(packed)
    except ValueError:
        raise Bad(f"{month}/{SIGNATURE} was changed: it is no signature.") from None
    if key is None or key.name != name:
        raise Bad(
            f"The manifest of {month} is signed with the key {key_id[:80]} of {name[:80]}, which is not trusted. "
            "If it is yours, give its public key as well."
        )
    if not key.has_signed(signed, MARK + text):
        raise Bad(f"The manifest of {month} was changed after it was signed.")
    values = loads(text)  # signed, so it has its form
    if values["format"] != FORMAT:
        raise Bad(f"The manifest of {month} is of another format: {values['format']}.")
    manifest = Manifest(place, values, hashlib.sha256(text).hexdigest())
    if manifest.month != month:
        raise Bad(f"The folder {month} holds the month {manifest.month}: it was swapped, or renamed.")
    if values["log"] != name:
        raise Bad(f"The month {month} is of another log: {values['log']}.")
    strange = [each for each in manifest.files if not _NAME.fullmatch(each)]
    if strange:
        raise Bad(f"The manifest of {month} names a file that an archive does not have: {strange[0][:80]}.")
    return manifest


def _small(place: ArchivePlace, month: str, name: str) -> bytes:
    try:
        text = place.small(month, name, _MOST_BYTES + 1)
    except FileNotFoundError:
        raise Bad(f"{month}/{name} is missing.") from None
    if len(text) > _MOST_BYTES:
        raise Bad(f"{month}/{name} was changed: it is too large.")
    return text


def _follow(manifest: Manifest, before: Manifest | None) -> None:
    due = (None, 0) if before is None else (before.digest, before.last_block + 1)
    if (manifest.values["previous"], manifest.first_block) == due:
        return
    if before is None:
        raise Bad(f"A month before {manifest.month} is missing: it begins with block {manifest.first_block}.")
    raise Bad(
        f"The month {manifest.month} does not follow {before.month} as it stands here: a month between them is "
        f"missing, or {before.month} was swapped."
    )
