"""A progress bar of a command."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(whole: int, words: str) -> Iterator[Callable[[int], object]]:
    """A progress bar on a terminal, nothing elsewhere."""
    from invocations.chain.verifier import show_progress

    done, shown_at, is_shown = 0, 0.0, sys.stderr.isatty()

    def more(count: int) -> None:
        nonlocal done, shown_at
        done += count
        if is_shown and time.monotonic() - shown_at > 0.2:
            shown_at = time.monotonic()
            show_progress(done, whole, f"{done} {words}")

    yield more
    if is_shown and shown_at:
        show_progress(whole, whole, f"{done} {words}\n")
