"""Writes what operators and the hub did to the audit itself, beside the calls and in the same proof."""

from __future__ import annotations

import getpass
from typing import Any

from invocations.chain.models import AuditEvent


def record(kind: str, *, actor: str = "", actor_label: str = "", subject: Any = "", label: str = "",
           before: Any = None, after: Any = None, reason: str = "") -> AuditEvent:  # fmt: skip
    """Append an event. Takes part in the caller's transaction, so a deed and its record stand or fall together."""
    return AuditEvent.objects.create(
        kind=kind, actor=actor, actor_label=_plain(actor_label, 150), subject_id=_plain(str(subject), 64),
        subject_label=_plain(label, 200), before=before, after=after, reason=_plain(reason, 500),
    )  # fmt: skip


def on_the_machine() -> dict[str, str]:
    """Who runs a command: a user of the machine, not of the hub."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = "?"
    return {"actor": "machine", "actor_label": name}


def _plain(text: str, most: int) -> str:
    return text.replace("\x00", "")[:most]
