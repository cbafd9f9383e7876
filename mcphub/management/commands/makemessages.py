"""`mcphub makemessages`: brings the Russian catalogue up to date with the code. Needs gettext and a source tree."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import makemessages

ELSEWHERE = ("benchmarks", "build", "docs", "tests", "var", "*.egg-info")
"""What holds no words for people."""


class Command(makemessages.Command):
    xgettext_options = [*makemessages.Command.xgettext_options, "--keyword=_t"]
    # Where a word stands changes with every edit, and who wrote the file is in its history.
    msgmerge_options = [*makemessages.Command.msgmerge_options, "--no-fuzzy-matching"]

    def handle(self, *args: Any, **options: Any) -> None:
        if not (settings.BASE_DIR / "pyproject.toml").is_file():
            raise CommandError("The catalogue is made in a source tree, and this is an installation.")
        os.chdir(settings.BASE_DIR)
        options["locale"] = options["locale"] or [code for code, _name in settings.LANGUAGES if code != "en"]
        options["ignore_patterns"] = [*options["ignore_patterns"], *ELSEWHERE]
        options.update(no_location=True, no_obsolete=True)
        super().handle(*args, **options)
