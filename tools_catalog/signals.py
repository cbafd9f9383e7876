"""The signal of the catalogue, for code beside the hub. Receivers are connected in an `AppConfig.ready`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from channels.db import database_sync_to_async
from django.dispatch import Signal

if TYPE_CHECKING:
    from tools_catalog.catalog.snapshot import Catalog, Tool

tool_changed: Final = Signal()
"""A tool is new here, changed or gone. Sends `tool` (its name) and `change`: `added`, `changed` or `removed`.

A tool that is switched off is changed. Each process that serves sends it; a process of a command sends nothing. An
exception in a receiver is logged and changes nothing.
"""


async def send_changes(before: Catalog, now: Catalog) -> None:
    """Send `tool_changed` for each difference between two snapshots, on Django's thread."""
    if tool_changed.has_listeners():
        await database_sync_to_async(_send)(list(_differences(before, now)))


def _send(differences: list[tuple[str, str]]) -> None:
    for name, change in differences:
        tool_changed.send_robust(None, tool=name, change=change)


def _differences(before: Catalog, now: Catalog) -> Iterator[tuple[str, str]]:
    for name in sorted(before.tools.keys() | now.tools.keys()):
        if name not in before.tools:
            yield name, "added"
        elif name not in now.tools:
            yield name, "removed"
        elif _deciding(before.tools[name]) != _deciding(now.tools[name]):
            yield name, "changed"


def _deciding(tool: Tool) -> tuple[object, ...]:
    return tool.version, tool.digest, tool.effect, tool.enabled, tool.groups, tool.why_not
