"""`mcphub audit ship`: how far the targets are that the audit is shipped to; a trial; begin again; make one of many."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands.rows import print_json
from mcphub.commands.stop import Stop, migrated_database, start_django

if TYPE_CHECKING:
    from mcphub.features.audit_export.models import ShippingTarget


def declare(verbs: Any) -> None:
    parser = verbs.add_parser("ship", help="show how far targets outside are; test one, rewind, join")
    actions = parser.add_subparsers(metavar="list|test|rewind|join", title="actions", dest="action")
    listed = actions.add_parser("list", help="one line a target: state, name, kind, rows and seconds behind, problem")
    listed.add_argument("--all", action="store_true", help="switched off ones too")
    listed.add_argument("--json", action="store_true", help="as JSON")
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


def run(options: argparse.Namespace) -> int:
    action = options.action or "list"
    start_django()
    if action == "join":
        return _join(options)
    with migrated_database():
        return _act(action, options)


def _act(action: str, options: argparse.Namespace) -> int:
    if action == "test":
        return _test(options.name)
    if action == "rewind":
        return _rewind(options)
    return _list(getattr(options, "all", False), as_json=getattr(options, "json", False))


def _list(is_all: bool, *, as_json: bool) -> int:
    from mcphub.features.audit_export import service
    from mcphub.features.audit_export.models import ShippingTarget

    rows = ShippingTarget.objects.with_lag().order_by("name")
    if not is_all:
        rows = rows.filter(enabled=True)
    behind, told = 0, []
    for row in rows:
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
    elif not rows:
        print("There is no export destination. Create one in the console under Audit export.", file=sys.stderr)
    return 1 if behind else 0


def _test(name: str) -> int:
    from mcphub.features.audit_export.delivering import try_target

    problem = try_target(_named(name))
    if problem:
        raise Stop(f"The trial did not arrive at {name}: {problem}")
    print(f"The trial arrived at {name}.")
    return 0


def _rewind(options: argparse.Namespace) -> int:
    from django.core.exceptions import ValidationError
    from django.db import transaction

    from sessions_app.history import events

    row = _named(options.name)
    if options.block < 0:
        raise Stop("mcphub audit ship rewind: --block is 0 or more.", status=2)
    with transaction.atomic():
        try:
            row.state.rewind(options.block)
        except ValidationError as error:
            raise Stop(f"mcphub audit ship rewind: {' '.join(error.messages)}", status=2) from error
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
        raise Stop(f"There is no target {name}. `mcphub audit ship list --all` lists them.", status=2)
    return row
