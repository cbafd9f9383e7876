"""The check of a release's folder against its signed provenance. Needs no network, settings or database."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path

from mcphub.features.provenance import statements
from mcphub.features.provenance.minisign import MAX_BYTES, BadSignature, FileSignature, ReleaseKey, prehash
from mcphub.features.provenance.statements import Provenance

SIGNATURE = ".minisig"
MAX_FILES = 1000
"""In a folder; a release has a dozen."""


@dataclass(frozen=True, slots=True)
class ReleaseFault:
    kind: str
    """*missing*, *extra*, *changed* or *wrongly signed*."""
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.name} {self.reason}"


@dataclass(frozen=True, slots=True)
class CheckedRelease:
    provenance: Provenance | None
    """None: there is no statement that the key signed, so nothing else can be judged."""
    faults: tuple[ReleaseFault, ...]


def read_key(given: str) -> ReleaseKey:
    """Return the key of a file, or of its line in Base64. BadSignature, OSError."""
    path = Path(given)
    if len(given) == 56 and given.startswith("RW") and not path.exists():
        return ReleaseKey.parse(given)
    return ReleaseKey.parse(_text(path, MAX_BYTES))


def check(folder: Path, key: ReleaseKey) -> CheckedRelease:
    """Compare a folder with its provenance. OSError: it cannot be read."""
    there = _entries(folder)
    envelopes = sorted(name for name in there if name.endswith(statements.SUFFIX))
    if not envelopes:
        reason = "is not there: without it nothing in the folder can be verified"
        return CheckedRelease(None, (ReleaseFault("missing", f"the provenance (*{statements.SUFFIX})", reason),))
    faults = [ReleaseFault("extra", name, "is a second provenance") for name in envelopes[1:]]
    envelope = envelopes[0]
    try:
        if not there[envelope]:
            raise BadSignature("is not a regular file")
        provenance = statements.opened(_text(folder / envelope, statements.MAX_BYTES), key)
    except BadSignature as bad:
        return CheckedRelease(None, (*faults, ReleaseFault("wrongly signed", envelope, str(bad))))
    expected = {*provenance.files, envelope}
    for name in sorted(provenance.files):
        faults += _of_file(folder, name, there, provenance.files[name])
    for name in sorted(expected):
        faults += _of_signature(folder, name, there, key)
    expected |= {name + SIGNATURE for name in expected} | set(envelopes)
    faults += [ReleaseFault("extra", name, "is not part of the release") for name in sorted(there.keys() - expected)]
    return CheckedRelease(provenance, tuple(faults))


def _entries(folder: Path) -> dict[str, bool]:
    """Return the names in a folder, each with whether it is a regular file. Links are none."""
    found: dict[str, bool] = {}
    for each in folder.iterdir():
        if len(found) == MAX_FILES:
            raise OSError(0, f"it has more than {MAX_FILES} entries, so it is not the folder of a release", str(folder))
        found[each.name] = stat.S_ISREG(each.lstat().st_mode)
    return found


def _of_file(folder: Path, name: str, there: dict[str, bool], digest: str) -> list[ReleaseFault]:
    if name not in there:
        return [ReleaseFault("missing", name, "is in the provenance, but not in the folder")]
    if not there[name]:
        return [ReleaseFault("changed", name, "is not a regular file")]
    with (folder / name).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        return [ReleaseFault("changed", name, f"has the SHA-256 {found}, the release has {digest}")]
    return []


def _of_signature(folder: Path, name: str, there: dict[str, bool], key: ReleaseKey) -> list[ReleaseFault]:
    if not there.get(name):
        return []  # reported as missing or changed already
    signature = name + SIGNATURE
    if signature not in there:
        return [ReleaseFault("missing", signature, "is not in the folder")]
    try:
        if not there[signature]:
            raise BadSignature("is not a regular file")
        with (folder / name).open("rb") as file:
            digest = prehash(file)
        FileSignature.parse(_text(folder / signature, MAX_BYTES)).check(key, digest)
    except BadSignature as bad:
        return [ReleaseFault("wrongly signed", name, str(bad))]
    return []


def _text(path: Path, most: int) -> str:
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise BadSignature(f"is larger than {most} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise BadSignature("is not text") from None
