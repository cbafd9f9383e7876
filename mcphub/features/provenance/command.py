"""`mcphub verify-release`: the check of a release before it is installed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mcphub.commands.stop import Stop
from mcphub.features.provenance.checking import CheckedRelease, check, read_key
from mcphub.features.provenance.minisign import BadSignature, ReleaseKey

MAX_LINES = 50


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the files of the release, and no others")
    parser.add_argument(
        "--key", required=True, metavar="PUBLIC", help="the releaser's public key: a file, or its line that begins RW"
    )


def run(options: argparse.Namespace) -> int:
    key = _key(options.key)
    try:
        checked = check(options.folder, key)
    except OSError as error:
        raise Stop(
            f"mcphub verify-release: {error.filename}: {error.strerror}; name the folder of a release.", status=2
        ) from error
    return _report(checked, key)


def _key(given: str) -> ReleaseKey:
    try:
        return read_key(given)
    except OSError as error:
        raise Stop(
            f"mcphub verify-release: {error.filename}: {error.strerror}; name the file of the releaser's public key.",
            status=2,
        ) from error
    except BadSignature as bad:
        raise Stop(
            f"mcphub verify-release: {given} {bad}; take the key from where the releaser publishes it.", status=2
        ) from bad


def _report(checked: CheckedRelease, key: ReleaseKey) -> int:
    for fault in checked.faults[:MAX_LINES]:
        print(_printable(f"BAD {fault}"))
    if (more := len(checked.faults) - MAX_LINES) > 0:
        print(f"BAD … and {more} more")
    if checked.faults:
        print("The folder is not the release that was signed. Do not install it.", file=sys.stderr)
        return 1
    assert checked.provenance is not None
    made = checked.provenance
    print(
        _printable(
            f"mcphub {made.version}, {len(made.files)} files: as built from commit {made.commit} "
            f"by {made.builder}, signed with {key.name}."
        )
    )
    return 0


def _printable(text: str) -> str:
    """Return a line in which names of files cannot steer a terminal."""
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text)
