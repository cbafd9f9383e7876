"""How a command ends early: with one sentence for a person and an exit status for a script."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class Stop(Exception):
    """Ends the command. The text is one whole sentence; status 2 means wrong flags or settings."""

    def __init__(self, sentence: str, *, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status


def settings_or_stop() -> None:
    """Read the settings; a bad one ends the command."""
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured

    try:
        settings.INSTALLED_APPS  # noqa: B018 - the first look reads the settings
    except ImproperlyConfigured as error:
        raise Stop(f"mcphub: {error}", status=2) from error


def start_django() -> None:
    """Read the settings and load the applications."""
    import django

    settings_or_stop()
    django.setup()


@contextlib.contextmanager
def database_or_stop() -> Iterator[None]:
    """End the command with a sentence where the database cannot be used."""
    from django.db import Error

    from sessions_app.database import driver

    try:
        yield
    except (Error, driver().Error) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise Stop(
            f"mcphub: the database cannot be used: {reason}; check MCPHUB_DATABASE_URL and --data-dir."
        ) from error
