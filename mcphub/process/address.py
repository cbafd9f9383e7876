"""Where clients reach this hub, for commands that run beside the server without its flags."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from mcphub import environment as env

_FALLBACK = "http://127.0.0.1:8000"


def _note() -> Path:
    return Path(env.text("MCPHUB_DATA_DIR", "var")).absolute() / "public_url"


def remember(public_url: str) -> None:
    """Leave the address in the data directory. Not being able to is no reason not to start."""
    with contextlib.suppress(OSError):
        draft = _note().with_suffix(f".{os.getpid()}")
        draft.write_text(public_url + "\n")
        draft.replace(_note())


def public_url() -> str:
    """Return MCPHUB_PUBLIC_URL, else where this data directory's hub was last started; no slash at its end."""
    url = env.text("MCPHUB_PUBLIC_URL")
    if not url:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            url = _note().read_text().strip()
    return (url or _FALLBACK).rstrip("/")


def endpoint() -> str:
    return f"{public_url()}/mcp"
