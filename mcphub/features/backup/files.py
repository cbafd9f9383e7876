"""The files of a hub besides its database: keys, and the published checkpoints."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from invocations.chain import service

CHECKPOINTS = "audit/checkpoints"


@dataclass(frozen=True, slots=True)
class BackedUpFile:
    """One file. `name` is its name in a backup."""

    name: str
    path: Path
    what: str


def checkpoints() -> BackedUpFile:
    return BackedUpFile(CHECKPOINTS, service.checkpoints(), "the published checkpoints")


def of_keys() -> list[BackedUpFile]:
    folder = service.keys()
    return [
        BackedUpFile("encryption_keys", settings.MCPHUB_ENCRYPTION_KEY_FILE, "the keys that encrypt secrets"),
        BackedUpFile("secret_key", settings.MCPHUB_SECRET_KEY_FILE, "the key of Django's signatures"),
        BackedUpFile("audit/signing.key", folder.private, "the key that signs the audit"),
        BackedUpFile("audit/public.keys", folder.public, "the audit's public keys"),
    ]


def left_out() -> str:
    """Return the key that a backup cannot hold; empty if it holds all."""
    given = service.keys().given
    return f"The key that signs the audit comes from {given.source} and is not in the backup." if given else ""


def put(part: BackedUpFile, content: bytes) -> None:
    """Write one file for its owner alone, whole or not at all."""
    part.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = part.path.with_name(f"{part.path.name}.{os.getpid()}.draft")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(part.path)
    finally:
        draft.unlink(missing_ok=True)
