"""`mcphub secrets rotate`: every secret encrypted anew under a new key, while calls go on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, cast

from mcphub.commands.stop import Stop, database_or_stop, start_django

if TYPE_CHECKING:
    from tools_catalog import secrets


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="new-key|rotate", required=True, title="verbs", dest="verb")
    verbs.add_parser("new-key", help="put a new key above the others in the file of keys, and nothing else")
    rotate = verbs.add_parser("rotate", help="make a new key, and encrypt every secret under it")
    rotate.add_argument(
        "--keep-key",
        action="store_true",
        help="make no key: the first one of the file is new already, and is on every machine of the hub",
    )


def run(options: argparse.Namespace) -> int:
    start_django()
    from django.conf import settings

    from mcphub.process import first_run
    from tools_catalog import encryption_keys

    path = settings.MCPHUB_ENCRYPTION_KEY_FILE
    try:
        if options.verb == "new-key" or not options.keep_key:
            encryption_keys.add(path)
        settings.MCPHUB_ENCRYPTION_KEYS = encryption_keys.read(path)
    except OSError as error:
        raise Stop(
            f"mcphub secrets {options.verb}: {error.filename or path}: {error.strerror}. Put the key above the others "
            "in the file yourself, and run `mcphub secrets rotate --keep-key`."
        ) from error
    key_id = settings.MCPHUB_ENCRYPTION_KEYS[0][0]
    if options.verb == "new-key":
        print(f"The key {key_id} stands first in {path}. Copy the file to every machine of the hub, then run")
        print("`mcphub secrets rotate --keep-key`.")
        return 0
    with database_or_stop():
        first_run.migrate()
        moved, lost = _rotate()
    print(f"{moved} rows with secrets are encrypted with the key {key_id} now.")
    for name, why in lost:
        print(f"{name}: {why}")
    print(
        f"Keep the other lines of {path} for 30 days, as long as messages and stored responses live, and in back-ups."
    )
    return 1 if lost else 0


def _rotate() -> tuple[int, list[tuple[str, str]]]:
    """Encrypt anew what the first key did not encrypt; give how many rows, and what cannot be read any more."""
    from django.apps import apps
    from django.db import transaction

    from sessions_app.history.recording import RecordedModel
    from tools_catalog import secrets

    moved, lost = 0, []
    for model in apps.get_models():
        if not hasattr(model, "encrypt_anew"):
            continue
        for pk in list(model._default_manager.order_by("pk").values_list("pk", flat=True)):
            with transaction.atomic():  # one row each, so that who edits a secret waits for it alone
                row = model._default_manager.select_for_update().filter(pk=pk).first()
                if row is None:
                    continue
                keeps = cast("secrets.Encrypted", row)
                try:
                    changed = keeps.encrypt_anew()
                except secrets.SecretError as error:
                    lost.append((f"{model._meta.verbose_name} {row}", str(error)))
                    continue
                if changed:
                    row.save(update_fields=None if isinstance(row, RecordedModel) else changed)
                    moved += 1
    return moved, lost
