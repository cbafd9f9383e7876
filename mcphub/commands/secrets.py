"""`mcphub secrets`: secrets by name, and every secret encrypted anew under a new key while calls go on."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mcphub.commands.stop import Stop, migrated_database, start_django

if TYPE_CHECKING:
    from tools_catalog import secrets


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|set|remove|new-key|rotate", required=True, title="verbs", dest="verb")
    listed = verbs.add_parser("list", help="name the secrets and what each is bound to, without their values")
    listed.add_argument("--json", action="store_true", help="as JSON, as /api/secrets/ gives it")
    write = verbs.add_parser("set", help="add a secret or give it another value")
    write.add_argument("name", metavar="NAME", help="what stands in {secret:NAME}")
    write.add_argument("--origins", metavar="WORDS", help="where it may be sent; needed for a new secret")
    write.add_argument("--places", metavar="WORDS", help="where in a request: headers.NAME, environment.NAME, …")
    write.add_argument("--users", metavar="WORDS", help="who may send it: service:NAME, connection:NAME, tool:NAME")
    write.add_argument("--file", metavar="FILE", help="read the value from it; default: standard input")
    write.add_argument("--keep-value", action="store_true", help="change its bindings alone; read nothing")
    remove = verbs.add_parser("remove", help="remove secrets; what names them then fails")
    remove.add_argument("name", metavar="NAME", nargs="+", help="name of the secret")
    for each in (write, remove):
        each.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    verbs.add_parser("new-key", help="put a new key above the others in the file of keys, and nothing else")
    rotate = verbs.add_parser("rotate", help="make a new key, and encrypt every secret under it")
    rotate.add_argument(
        "--keep-key",
        action="store_true",
        help="make no key: the first one of the file is new already, and is on every machine of the hub",
    )


def run(options: argparse.Namespace) -> int:
    start_django()
    if options.verb in _BY_NAME:
        with migrated_database():
            return _BY_NAME[options.verb](options)
    from django.conf import settings

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
    with migrated_database():
        moved, lost = _rotate()
    print(f"{moved} rows with secrets are encrypted with the key {key_id} now.")
    for name, why in lost:
        print(f"{name}: {why}")
    print(
        f"Keep the other lines of {path} for 30 days, as long as messages and stored responses live, and in back-ups."
    )
    return 1 if lost else 0


def _list(options: argparse.Namespace) -> int:
    from tools_catalog.models import Secret
    from tools_catalog.rest.launch import SecretSerializer

    rows = list(Secret.objects.order_by("name"))
    if options.json:
        print(json.dumps([SecretSerializer(row).data for row in rows], indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        print(
            "\t".join([row.name, *(" ".join(words.split()) or "-" for words in (row.origins, row.places, row.users))])
        )
    if not rows:
        print("There is no secret. `mcphub secrets set NAME --origins ORIGIN` adds one.", file=sys.stderr)
    return 0


def _set(options: argparse.Namespace) -> int:
    from django.db import transaction

    from tools_catalog.models import Secret

    with transaction.atomic():
        row = Secret.objects.select_for_update().filter(name=options.name).first()
        is_new = row is None
        if row is None:
            if options.keep_value or not options.origins:
                raise Stop(
                    f"mcphub secrets set: there is no secret {options.name!r}; a new one needs --origins and a value.",
                    status=2,
                )
            row = Secret(name=options.name)
        for member in ("origins", "places", "users"):
            if getattr(options, member) is not None:
                setattr(row, member, getattr(options, member))
        if not options.keep_value:
            row.set_value(_given(options.file))
        row.change_reason = options.reason[:100]
        row.full_clean()
        row.save()
    print(f"{row.name} is {'added' if is_new else 'changed'}.")
    return 0


def _given(file: str | None) -> str:
    """Read a value; the end of its last line is not part of it."""
    try:
        if file is not None:
            with Path(file).open(encoding="utf-8") as source:
                value = source.read(_LONGEST_VALUE + 2)
        elif sys.stdin.isatty():
            value = getpass.getpass("Value: ")
        else:
            value = sys.stdin.read(_LONGEST_VALUE + 2)
    except (OSError, UnicodeDecodeError) as error:
        raise Stop(f"mcphub secrets set: the value cannot be read: {error}.", status=2) from error
    value = value.removesuffix("\n").removesuffix("\r")
    if not value or len(value) > _LONGEST_VALUE:
        raise Stop(f"mcphub secrets set: a value has 1 to {_LONGEST_VALUE} characters.", status=2)
    return value


def _remove(options: argparse.Namespace) -> int:
    from tools_catalog.models import Secret

    rows = {row.name: row for row in Secret.objects.filter(name__in=options.name)}
    if missing := [name for name in options.name if name not in rows]:
        raise Stop(f"mcphub secrets: there is no secret {missing[0]!r}; `mcphub secrets list` names them.", status=2)
    for row in rows.values():
        row.change_reason = options.reason[:100]
        row.delete()
        print(f"{row.name} is removed.")
    return 0


_BY_NAME = {"list": _list, "set": _set, "remove": _remove}
_LONGEST_VALUE = 65_536


def _rotate() -> tuple[int, list[tuple[str, str]]]:
    """Encrypt values of older keys anew; return the number of rows, and the unreadable ones."""
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
