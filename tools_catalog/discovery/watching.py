"""A test of a connection that somebody watches: what happens is given out while it happens.

The test runs where it is watched, and ends when nobody watches any longer. So nothing of it is shared between workers.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from django.conf import settings

from sessions_app.protocol.errors import ServerBusy
from tools_catalog.accounts.resolving import Accounts
from tools_catalog.models import offer_kinds
from tools_catalog.upstream import listing, probe
from tools_catalog.upstream.probe import Progress, Step
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.vault import secret_for

MOST_TESTS: Final = 20
"""At once in one process; each may start a program."""
LOOK_SECONDS: Final = 1.0
_MOST_FILES: Final = 20_000
"""Files of a program's own folder that are counted."""
_SHOWN: Final = 4000
"""Characters of standard error, from its end."""

_under_way: set[object] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialState:
    """A test at one moment; `is_done` with its result."""

    seconds: int = 0
    stage: str = probe.ADDRESS
    """The step that is under way, as `probe` names them."""
    stderr: str = ""
    """The end of the program's standard error."""
    loaded_bytes: int = 0
    """So much has the program put into its own folder, as package managers do."""
    is_done: bool = False
    steps: tuple[Step, ...] = ()
    offers: listing.Offers = field(default_factory=dict)


def check_room() -> None:
    """Raise ServerBusy at the bound of this process."""
    if len(_under_way) >= MOST_TESTS:
        busy = ServerBusy(f"This process runs {MOST_TESTS} tests already. Try again in a moment.")
        busy.retry_after_seconds = 10
        raise busy


async def watch(
    spec: ConnectionSpec, *, kinds: Iterable[str] = (listing.TOOL,), look_seconds: float = LOOK_SECONDS
) -> AsyncGenerator[TrialState, None]:
    """Test a connection; give what is seen at once, then every second, and the result in the end.

    Whoever stops watching ends the test, and the program that it started.
    """
    progress, ticket = Progress(), object()
    _under_way.add(ticket)
    home = _home(spec)
    before = await asyncio.to_thread(_size, home)
    test = asyncio.create_task(
        probe.look(
            spec,
            secret_for,
            settings.MCPHUB_VERSION,
            kinds=kinds,
            account=Accounts(),
            progress=progress,
            readers=offer_kinds.readers() if kinds == listing.KINDS else {},
        ),
        name=f"mcphub-test-{spec.slug}",
    )
    try:
        loaded = 0
        while not test.done():
            yield TrialState(
                seconds=progress.seconds,
                stage=progress.stage,
                stderr=progress.stderr[-_SHOWN:],
                loaded_bytes=loaded,
                steps=tuple(progress.steps),
            )
            await asyncio.wait({test}, timeout=look_seconds)
            loaded = max(loaded, await asyncio.to_thread(_size, home) - before)
        steps, offers = test.result()
        yield TrialState(
            seconds=progress.seconds,
            stage=progress.stage,
            stderr=progress.stderr[-_SHOWN:],
            loaded_bytes=loaded,
            is_done=True,
            steps=tuple(steps),
            offers=offers,
        )
    finally:
        _under_way.discard(ticket)
        test.cancel()
        await asyncio.gather(test, return_exceptions=True)


def _home(spec: ConnectionSpec) -> Path | None:
    """Return the folder in which a program keeps what it loads; None where that is not its own."""
    if spec.launch is None or spec.launch.is_unconfined or not spec.launch.folder:
        return None
    return Path(spec.launch.folder)


def _size(folder: Path | None) -> int:
    total, left, open_folders = 0, _MOST_FILES, [folder] if folder is not None else []
    while open_folders and left > 0:
        try:
            with os.scandir(open_folders.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        open_folders.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue  # the child writes there at this moment
    return total
