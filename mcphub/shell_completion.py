"""Shell completion after `mcphub`: commands, verbs, options and the names of rows, by argcomplete.

A shell asks at each Tab, so nothing is written for it: no data directory is made, and no database is migrated.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcphub.commands.rows import RowKind

ASKED = "_ARGCOMPLETE"
"""Set by the shell's script where it asks."""
_MOST = 500


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions at the cursor for the shell, and end the program."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options=False)


def command_asked() -> str:
    """Return the command of the line that is written, so that no other command is imported."""
    words = os.environ.get("COMP_LINE", "").split()
    return words[1] if len(words) > 1 else ""


def names_of(kind: RowKind) -> Callable[..., Iterable[str]]:
    """Return the completer for names of rows: nothing if no hub has run, or its database is away."""

    def names(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
        data_dir = getattr(parsed_args, "data_dir", None) or os.environ.get("MCPHUB_DATA_DIR") or "var"
        if not os.environ.get("MCPHUB_DATABASE_URL") and not (Path(data_dir) / "hub.sqlite3").is_file():
            return []
        os.environ["MCPHUB_DATA_DIR"] = str(data_dir)
        from mcphub.commands.stop import start_django

        start_django()
        rows = kind.rows().filter(**{f"{kind.key}__startswith": prefix})
        return [str(name) for name in rows.values_list(kind.key, flat=True)[:_MOST]]

    return names
