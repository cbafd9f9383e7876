"""`manage.py migrate` of a host: Django's, which asks for no migration of the hub's applications."""

from __future__ import annotations

from django.core.management.commands import migrate

from mcphub.embedding.detecting import HostAutodetector


class Command(migrate.Command):
    autodetector = HostAutodetector
