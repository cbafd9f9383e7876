from django.utils.translation import gettext_lazy as _

from mcphub.parts import HubCommand
from sessions_app.kit.features import FeatureConfig


class BackupConfig(FeatureConfig):
    name = "mcphub.features.backup"
    label = "backup"
    verbose_name = _("Backup")
    parts = (
        HubCommand(
            "backup",
            "write database and keys of one moment into one encrypted file, while the hub runs",
            "mcphub.features.backup.commands.backup",
        ),
        HubCommand(
            "restore",
            "put a backup into an empty data directory and database, and verify its audit",
            "mcphub.features.backup.commands.restore",
        ),
        HubCommand(
            "database",
            "move the database of a stopped hub from SQLite to PostgreSQL",
            "mcphub.features.backup.commands.database",
        ),
    )
