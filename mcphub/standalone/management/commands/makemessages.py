"""`mcphub makemessages`: brings the Russian catalogue up to date with the code and compiles it.

Run it, translate empty entries, run it again. Needs gettext and a source tree.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import makemessages
from django.core.management.utils import popen_wrapper

ELSEWHERE = ("benchmarks", "build", "docs", "tests", "var", "*.egg-info")
"""Paths without messages for people."""


class Command(makemessages.Command):
    xgettext_options = [*makemessages.Command.xgettext_options, "--keyword=_t"]
    # A guess looks like a translation and is none.
    msgmerge_options = [*makemessages.Command.msgmerge_options, "--no-fuzzy-matching"]

    def handle(self, *args: object, **options: Any) -> None:
        if not (settings.BASE_DIR / "pyproject.toml").is_file():
            raise CommandError("The catalogue is made in a source tree, and this is an installation.")
        os.chdir(settings.BASE_DIR)
        options["locale"] = options["locale"] or [code for code, _name in settings.LANGUAGES if code != "en"]
        options["ignore_patterns"] = [*options["ignore_patterns"], *ELSEWHERE]
        # Where a word stands changes with every edit.
        options.update(no_location=True, no_obsolete=True)
        super().handle(*args, **options)

    def write_po_file(self, potfile: str, locale: str) -> None:
        super().write_po_file(potfile, locale)
        source = Path(potfile).parent / locale / "LC_MESSAGES" / "django.po"
        # The moment of the run would be a change in itself.
        source.write_text(re.sub(r'^"POT-Creation-Date: .*\n', "", source.read_text(), flags=re.MULTILINE))
        words, problems, status = popen_wrapper(
            ["msgfmt", "--check-format", "-o", str(source.with_suffix(".mo")), str(source)]
        )
        if status:
            raise CommandError(f"{source} cannot be compiled: {problems or words}")
