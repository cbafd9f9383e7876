"""An autodetector of migrations for hosts: the hub's applications bring theirs."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.db.migrations.autodetector import MigrationAutodetector

from mcphub.embedding.host import APPS


class HostAutodetector(MigrationAutodetector):
    """Leaves out the hub's applications, whose migrations hold no words of today (labels, help texts)."""

    def changes(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        own = {config.label for config in apps.get_app_configs() if config.name in APPS}
        found: dict[str, Any] = super().changes(*args, **kwargs)
        return {label: migrations for label, migrations in found.items() if label not in own}
