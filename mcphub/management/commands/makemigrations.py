"""`manage.py makemigrations` of a host: Django's, without the hub's applications."""

from __future__ import annotations

from django.core.management.commands import makemigrations

from mcphub.embedding.detecting import HostAutodetector


class Command(makemigrations.Command):
    autodetector = HostAutodetector
