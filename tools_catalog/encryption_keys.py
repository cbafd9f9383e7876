"""The file of the keys that encrypt secrets: one a line; the first encrypts, all decrypt.

Settings read it at the start. A process that meets a secret of a key it does not know reads it again, so that
`mcphub secrets rotate` needs no restart.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

Keys = tuple[tuple[str, bytes], ...]
"""Key ids of eight hexadecimal digits, and keys of 32 bytes."""


def parse(text: str) -> Keys:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    keys = [hashlib.sha256(b"mcphub encryption " + line.encode()).digest() for line in lines]
    return tuple((hashlib.sha256(key).hexdigest()[:8], key) for key in keys)


def read(path: Path) -> Keys:
    return parse(path.read_text())


def add(path: Path) -> str:
    """Put a new key above the others, durably and at once for every reader; give its id."""
    line = secrets.token_urlsafe(64)
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{line}\n{path.read_text().strip()}\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return parse(line)[0][0]
