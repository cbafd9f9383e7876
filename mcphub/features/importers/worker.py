"""Descriptions of APIs are read in a process of their own: off the event loop, within memory and time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Final

from django.conf import settings

from mcphub.features.importers import descriptions
from mcphub.features.importers.candidates import Found
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.protocol import json

SECONDS: Final = 120
RAW_FACTOR: Final = 4
"""A description as it comes may have so many times the bytes that an import may need of it."""
_one_at_a_time = threading.Lock()


def most_raw_bytes() -> int:
    """Bytes that are read of a description as it comes."""
    return RAW_FACTOR * int(settings.MCPHUB_MAX_IMPORT_BYTES)


def look(raw: bytes, kind: str, *, slug: str, prefix: str, source: str = "") -> Found:
    """Read a description as `descriptions.look` does; raises DocumentRefused."""
    if len(raw) > most_raw_bytes():
        raise DocumentRefused(
            f"The document has more than the {most_raw_bytes()} bytes that are read. Leave out what is not needed, "
            "or ask the hub's operator to raise the limit max_import_bytes."
        )
    if not _one_at_a_time.acquire(timeout=SECONDS):
        raise DocumentRefused("Other descriptions are being read. Try again in a minute.")
    try:
        answer = _answer(raw, kind, slug=slug, prefix=prefix, source=source)
    finally:
        _one_at_a_time.release()
    if answer.startswith(b'{"refused_whole":'):
        raise DocumentRefused(json.loads(answer)["refused_whole"])
    return descriptions.decoded(answer)


def _answer(raw: bytes, kind: str, **words: str) -> bytes:
    memory = int(settings.MCPHUB_IMPORT_MEMORY_BYTES)
    most = int(settings.MCPHUB_MAX_IMPORT_BYTES)
    task = {"kind": kind, **words, "most_bytes": most, "memory_bytes": memory, "seconds": SECONDS}
    try:
        done = subprocess.run(  # noqa: S603 - fixed words; what is foreign goes in by the pipe
            [sys.executable, "-m", descriptions.__name__],
            input=json.dumps(task) + b"\n" + raw,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            # Nothing of the hub's own environment, which may hold keys.
            env={"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DocumentRefused(f"The document was not read within {SECONDS} seconds. Leave out operations.") from error
    if done.returncode != 0:
        raise DocumentRefused(
            f"The document needs more than the {memory} bytes of memory, or the {SECONDS} seconds, that its reading "
            "may take. Leave out operations, give it as JSON, or ask the hub's operator to raise "
            "the limit import_memory_bytes."
        )
    return done.stdout
