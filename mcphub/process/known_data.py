"""Whether this version of the hub knows the data that it is given, asked before anything is changed."""

from __future__ import annotations

from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.utils.translation import gettext_noop

from mcphub import moved
from mcphub.commands.stop import Stop

MEND = gettext_noop("Start the version that wrote it, or name another place with --data-dir or MCPHUB_DATABASE_URL.")
_NAMED = 3


def why_not() -> str:
    """Return why the database is not this version's, nor an older one's, as a sentence; empty where it is."""
    loader = MigrationLoader(connection)
    known = set(loader.disk_migrations)
    for migration in loader.disk_migrations.values():
        known.update((app, name) for app, name in migration.replaces)
    ours = {config.label for config in apps.get_app_configs()}
    applied = {(app, name) for app, name in loader.applied_migrations if app in ours}
    unknown = sorted(f"{app}.{name}" for app, name in applied - known)
    if unknown:
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        return (
            "The database was written by another, perhaps newer version of the hub: version "
            f"{settings.MCPHUB_VERSION} does not know the migrations {', '.join(unknown[:_NAMED])}{more}."
        )
    begun = {app for app, _name in applied}
    tables = set(connection.introspection.table_names())
    foreign = sorted(
        model._meta.db_table
        for app in {app for app, _name in loader.disk_migrations} - begun
        for model in apps.get_app_config(app).get_models()
        if model._meta.db_table in tables
    )
    if foreign:
        return f"The database has a table {foreign[0]} that no migration of the hub made."
    return ""


def check() -> None:
    """Stop where the data is of an unknown version; nothing was changed until here."""
    if moved.is_half_done(connection):
        raise Stop(
            "mcphub: a move from SQLite into this database has not ended. Run `mcphub database move` again, and it "
            "begins anew; or start the hub without MCPHUB_DATABASE_URL, on the old file, which is as it was."
        )
    if why := why_not():
        raise Stop(f"mcphub: {why} Nothing was changed. {MEND}")
