"""`mcphub restore`: a backup put into an empty place, and its audit verified there."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from mcphub import environment as env
from mcphub.commands.stop import Stop, data_private_or_stop, database_or_stop, migrated_database, start_django
from mcphub.features.backup.commands import backup


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="what `mcphub backup` wrote")
    backup.declare_passphrase(parser)


def run(options: argparse.Namespace) -> int:
    passphrase = backup.passphrase_of(options, "restore")
    data = Path(env.text("MCPHUB_DATA_DIR", "var")).absolute()
    folders = {data, data / "static"}
    lock = data / "start.lock"
    keys = {
        Path(env.text("MCPHUB_SECRET_KEY_FILE", str(data / "secret_key"))),
        Path(env.text("MCPHUB_ENCRYPTION_KEY_FILE", str(data / "encryption_keys"))),
    }
    here = {path for path in keys | folders | {lock} if path.exists()}
    start_django(with_every_feature=True)  # which makes keys and folders where there are none
    data_private_or_stop()
    from mcphub.features.backup import restoring, sealed
    from mcphub.process import first_run

    try:
        with database_or_stop(), first_run.one_at_a_time():  # a hub that starts meanwhile would make tables
            header = restoring.read(options.file, passphrase, here & keys)
    except BaseException as error:
        for path in (keys | {lock}) - here:
            path.unlink(missing_ok=True)
        for folder in sorted(folders - here, reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, sealed.Unreadable | restoring.CannotRestore):
            raise Stop(f"mcphub restore: {options.file}: {error} Nothing was restored.") from error
        if isinstance(error, OSError):
            raise Stop(f"mcphub restore: {backup.why(error, options.file)} Nothing was restored.") from error
        raise
    return _finish(options.file, str(header["made_at"]), str(header["version"]))


def _finish(file: Path, made_at: str, version: str) -> int:
    """Migrate the tables, record the restore, and verify; return the status of the verification."""
    from django.conf import settings

    from mcphub.commands import audit
    from sessions_app.history import events
    from tools_catalog import encryption_keys

    settings.MCPHUB_ENCRYPTION_KEYS = encryption_keys.read(settings.MCPHUB_ENCRYPTION_KEY_FILE)
    with migrated_database():
        after = {"made_at": made_at, "version": version}
        events.record("hub.restored", actor=events.on_the_machine(), label=str(file.absolute()), after=after)
    print(f"Restored: the backup of {made_at}, version {version}. Its audit:")
    return audit.verify()
