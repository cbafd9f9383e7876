"""`mcphub audit ship`: destinations of the audit, added, tried, switched, removed; ship again; join what arrived."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind, print_json
from mcphub.commands.stop import Stop, fills, migrated_database, start_django

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from mcphub.features.audit_export.models import ShippingTarget


def declare(verbs: Any) -> None:
    parser = verbs.add_parser("ship", help="destinations outside: show how far they are; add, test, switch")
    actions = parser.add_subparsers(
        metavar="list|show|add|test|enable|disable|remove|rewind|join", title="actions", dest="action"
    )
    listed = actions.add_parser("list", help="one line a target: state, name, kind, rows and seconds behind, problem")
    listed.add_argument("--all", action="store_true", help="switched off ones too")
    listed.add_argument("--json", action="store_true", help="as JSON")
    rows.declare_show(actions, KIND)
    _declare_add(actions)
    rows.declare_deed(actions, KIND, "enable", "ship again, from where it stopped")
    rows.declare_deed(actions, KIND, "disable", "ship nothing to destinations, and let retention not wait for them")
    rows.declare_deed(actions, KIND, "remove", "delete destinations; what arrived there stays there")
    tried = actions.add_parser(
        "test", help="deliver one record that says it is a trial; status 1 if it does not arrive"
    )
    tried.add_argument("name")
    rewound = actions.add_parser("rewind", help="ship again from a block on, such as after a restore or a loss there")
    rewound.add_argument("name")
    rewound.add_argument("--block", type=int, required=True, metavar="N", help="the first block to ship again, from 0")
    rewound.add_argument("--reason", default="", help="the reason; the audit keeps it")
    joined = actions.add_parser("join", help="make one export of the JSON lines that a target kept, to be verified")
    joined.add_argument("files", nargs="+", type=Path, metavar="FILE", help="files (.jsonl, .jsonl.gz) or folders")
    joined.add_argument("--output", "-o", type=Path, metavar="FILE", help="a file (standard output)")


def _declare_add(actions: Any) -> None:
    add = actions.add_parser("add", help="add a destination")
    add.add_argument("name", metavar="NAME", help="identifies it in metrics and here; it stays")
    add.add_argument("kind", choices=("folder", "webhook", "syslog", "otlp", "s3"), help="what receives it")
    add.add_argument("address", metavar="ADDRESS", help="a folder's name, https://…, tls://host:6514 or tcp://host:601")
    secret = add.add_argument(
        "--secret-file", metavar="FILE", help="has the signing secret, the header's value or the secret access key"
    )
    fills(secret, "new_secret")
    add.add_argument("--secret-stdin", action="store_true", help="read the secret from standard input")
    add.add_argument("--content", choices=("all", "checkpoints"), help="all rows, or checkpoints only (all)")
    add.add_argument("--with-bodies", action="store_true", help="arguments, results and errors too, after redaction")
    add.add_argument("--format", choices=("jsonl", "parquet", "ocsf", "cef", "leef"), help="(jsonl)")
    add.add_argument("--begins", choices=("first", "now"), help="with the first recorded row, or the next (first)")
    add.add_argument("--retention-goes-on", action="store_true", help="remove rows that it has not got, too")
    add.add_argument("--every", dest="every_seconds", type=int, metavar="SECONDS", help="between deliveries, at most")
    add.add_argument("--header", help="OTLP: the header that has the secret (Authorization)")
    add.add_argument("--access-id", metavar="ID", help="S3: the access key id")
    add.add_argument("--region", help="S3 (us-east-1)")
    trusted = "syslog over TLS: certificates (PEM) to trust"
    fills(add.add_argument("--authority-file", type=Path, metavar="FILE", help=trusted), "authority")
    add.add_argument("--file-mib", type=int, metavar="MIB", help="folder: the size at which a new file begins (64)")
    add.add_argument("--disabled", action="store_true", help="it gets nothing before it is enabled")
    add.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    add.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace) -> int:
    action = options.action or "list"
    start_django()
    if action == "join":
        return _join(options)
    with migrated_database():
        return _act(action, options)


def _act(action: str, options: argparse.Namespace) -> int:
    if action == "show":
        return rows.show_row(KIND, options)
    if action == "add":
        return _add(options)
    if action == "remove":
        return rows.remove(KIND, options)
    if action in ("enable", "disable"):
        options.verb = action
        return rows.switch(KIND, options)
    if action == "test":
        return _test(options.name)
    if action == "rewind":
        return _rewind(options)
    return _list(getattr(options, "all", False), as_json=getattr(options, "json", False))


def _list(is_all: bool, *, as_json: bool) -> int:
    from mcphub.features.audit_export import service
    from mcphub.features.audit_export.models import ShippingTarget

    found = ShippingTarget.objects.with_lag().order_by("name")
    if not is_all:
        found = found.filter(enabled=True)
    behind, told = 0, []
    for row in found:
        lag = service.lag_of(row)
        state = "off" if not row.enabled else "fails" if lag.failures else "waits" if lag.rows else "arrives"
        behind += row.enabled and lag.is_behind
        told.append(
            {
                "name": row.name,
                "state": state,
                "kind": row.kind,
                "lag_rows": lag.rows,
                "lag_seconds": lag.seconds,
                "position": row.state.position,
                "problem": lag.problem or "",
            }
        )
        if as_json:
            continue
        words = [
            f"{state:8}",
            row.name,
            row.kind,
            f"{lag.rows} rows",
            f"{lag.seconds:.0f} s",
            f"at {row.state.position}",
        ]
        print("  ".join([*words, *([lag.problem] if lag.problem else [])]))
    if as_json:
        print_json(told)
    elif not found:
        print(KIND.none, file=sys.stderr)
    return 1 if behind else 0


_PLAIN = ("content", "format", "begins", "every_seconds", "header", "access_id", "region", "file_mib")
"""Options that stand for a column of their name where they are given."""


def _add(options: argparse.Namespace) -> int:
    from mcphub.features.audit_export.destinations.kinds import missing
    from mcphub.features.audit_export.models import ShippingTarget

    row = ShippingTarget(name=options.name, kind=options.kind, address=options.address)
    for name in _PLAIN:
        if (value := getattr(options, name)) is not None:
            setattr(row, name, value)
    row.enabled, row.with_bodies = not options.disabled, options.with_bodies
    row.holds_retention = not options.retention_goes_on
    if options.authority_file is not None:
        try:
            row.authority = options.authority_file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Stop(f"mcphub audit ship add: the authority cannot be read: {error}.", status=2) from error
    secret = ""
    if options.secret_file is not None or options.secret_stdin:
        secret = rows.read_secret("audit ship add", options.secret_file)
    row.change_reason = options.reason[:300]
    row.set_secret(secret)
    row.full_clean()
    row.check_secret()
    row.save()
    if why := missing(row):
        print(why, file=sys.stderr)
    done = f"is added. `mcphub audit ship test {row.name}` tries it"
    return rows.tell(KIND, [row], [True], options, done=done, before="")


def _test(name: str) -> int:
    from mcphub.features.audit_export.delivering import try_target

    problem = try_target(_named(name))
    if problem:
        raise Stop(f"The trial did not arrive at {name}: {problem}")
    print(f"The trial arrived at {name}.")
    return 0


def _rewind(options: argparse.Namespace) -> int:
    from django.db import transaction

    from sessions_app.history import events

    row = _named(options.name)
    if options.block < 0:
        raise Stop("mcphub audit ship rewind: --block is 0 or more.", status=2)
    with transaction.atomic():
        row.state.rewind(options.block)
        events.record(
            "shippingtarget.rewound",
            actor=events.on_the_machine(),
            label=row.name,
            before={"position": row.state.position},
            after={"block": options.block},
            reason=options.reason,
        )
    print(f"{row.name} is shipped to again from block {options.block} on.")
    return 0


def _join(options: argparse.Namespace) -> int:
    """Needs no database: whoever got the lines can do it."""
    from mcphub.features.audit_export.joining import CannotJoin, join

    try:
        if options.output is None:
            blocks, rows = join(options.files, sys.stdout.buffer)
        else:
            with options.output.open("wb") as out:
                blocks, rows = join(options.files, out)
    except CannotJoin as why:
        raise Stop(f"mcphub audit ship join: {why}", status=2) from why
    print(f"{rows} rows in {blocks} blocks", file=sys.stderr)
    return 0


def _named(name: str) -> ShippingTarget:
    from mcphub.features.audit_export.models import ShippingTarget

    row = ShippingTarget.objects.select_related("state").filter(name=name).first()
    if row is None:
        raise rows.missing(KIND, name, status=2)
    return row


def _rows() -> QuerySet[Any]:
    from mcphub.features.audit_export.models import ShippingTarget

    return ShippingTarget.objects.with_lag().order_by("name")


def _told(row: Any) -> Mapping[str, Any]:
    from mcphub.features.audit_export.rest import ShippingTargetSerializer

    read = row if hasattr(row, "log_end") else _rows().get(pk=row.pk)
    return dict(ShippingTargetSerializer(read).data)


KIND = RowKind(
    command="audit ship",
    noun="export destination",
    nouns="export destinations",
    key="name",
    rows=_rows,
    told=_told,
    line=lambda told: [told["name"]],
    listing="audit ship list --all",
    none="There is no export destination. `mcphub audit ship add NAME KIND ADDRESS` adds one.",
)
"""`list` has lines and JSON of its own."""
