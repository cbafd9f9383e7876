"""The early end of a command: one sentence for a person, an exit status for a script."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import stat
from collections.abc import Iterator

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError

from mcphub import feature_list


class Stop(Exception):
    """Ends the command. The text is one whole sentence; status 2 means wrong flags or settings."""

    def __init__(self, sentence: str, *, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status


def fills(argument: argparse.Action, *fields: str) -> None:
    """Declare the fields of a row that an argument of another name fills, for errors."""
    argument.fields = fields  # type: ignore[attr-defined]  # read by `values_rejected` alone


def values_rejected(error: ValidationError, parser: argparse.ArgumentParser) -> Stop:
    """Return the end of a command that a model rejects: status 2 with each reason after the flag that filled the field.

    An error of no field concerns the state of a row, and has status 1.
    """
    labels = {action.dest: _label(action) for action in parser._actions}
    labels |= {field: _label(action) for action in parser._actions for field in getattr(action, "fields", ())}
    if not hasattr(error, "error_dict"):
        return Stop(f"{parser.prog}: {' '.join(error.messages)}")
    reasons = [
        " ".join(words) if field == NON_FIELD_ERRORS else f"{labels.get(field, field)}: {' '.join(words)}"
        for field, words in error.message_dict.items()
    ]
    return Stop(f"{parser.prog}: {' '.join(reasons)}", status=2)


def _label(action: argparse.Action) -> str:
    return max(action.option_strings, key=len, default="") or str(action.metavar or action.dest)


def settings_or_stop() -> None:
    """Read the settings; a bad one ends the command."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    try:
        settings.INSTALLED_APPS  # noqa: B018 - the first look reads the settings
    except ImproperlyConfigured as error:
        raise Stop(f"mcphub: {error}", status=2) from error


def data_private_or_stop() -> None:
    """End the command where other users may look into the data directory, which holds keys and every recorded call."""
    from django.conf import settings

    home = settings.MCPHUB_DATA_DIR
    mode = stat.S_IMODE(home.stat().st_mode) if home.is_dir() else 0o700
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Stop(
            f"mcphub: other users can look into the data directory {home} (mode {mode:04o}); run `chmod 700 {home}`, "
            "or name a folder with --data-dir that the hub may make.",
            status=2,
        )


def start_django(*, with_every_feature: bool = False) -> None:
    """Read the settings and load the applications. `with_every_feature`: those too that are off, whose rows stay."""
    import django
    from django.apps import apps

    if with_every_feature:
        os.environ["MCPHUB_FEATURES"] = " ".join(feature_list.known())
    settings_or_stop()
    is_collecting, is_first = gc.isenabled(), not apps.ready
    gc.disable()  # what is loaded stays: to look through it again and again is a tenth of a short command
    try:
        django.setup()
    finally:
        if is_collecting and is_first:
            gc.freeze()  # nor once, at the first collection or at the end of the process
        if is_collecting:
            gc.enable()


@contextlib.contextmanager
def database_or_stop() -> Iterator[None]:
    """End the command with a sentence where the database cannot be used."""
    from django.db import Error

    from sessions_app.kit.database import driver

    try:
        yield
    except (Error, driver().Error) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise Stop(
            f"mcphub: the database cannot be used: {reason}; check MCPHUB_DATABASE_URL and --data-dir."
        ) from error


@contextlib.contextmanager
def migrated_database() -> Iterator[None]:
    """Start Django and bring the tables up to date first; else as `database_or_stop`."""
    start_django()
    from mcphub.process import first_run

    with database_or_stop():
        first_run.migrate()
        yield
