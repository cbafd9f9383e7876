"""`mcphub migrate`: Django's, which asks for no migration of words."""

from __future__ import annotations

from django.core.management.commands import migrate

from mcphub.standalone.management.migrations import WordlessAutodetector


class Command(migrate.Command):
    autodetector = WordlessAutodetector
