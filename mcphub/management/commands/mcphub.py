"""`manage.py mcphub …`: every command of `mcphub`, with the settings of the project that `manage.py` belongs to."""

from __future__ import annotations

from django.core.management.base import BaseCommand

from mcphub import cli


class Command(BaseCommand):
    help = "Run a command of the hub: manage.py mcphub token create NAME. Without arguments: list them."
    requires_system_checks = []

    def run_from_argv(self, argv: list[str]) -> None:
        raise SystemExit(cli.main(argv[2:]))
