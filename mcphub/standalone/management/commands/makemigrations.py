"""`mcphub makemigrations`: Django's, without migrations that would change words alone."""

from __future__ import annotations

from django.core.management.commands import makemigrations

from mcphub.standalone.management.migrations import WordlessAutodetector


class Command(makemigrations.Command):
    autodetector = WordlessAutodetector
