"""`mcphub audit`: verify and export the audit, publish a checkpoint, change its key, apply the retention policy."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from mcphub.commands.stop import Stop, database_or_stop, start_django

if TYPE_CHECKING:
    from invocations.chain.log import Log
    from invocations.chain.records import Selection
    from sessions_app.database import Dedicated

_SEALING_SECONDS = 30


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="verify|export|checkpoint|rotate-key|policy|hold|retain", required=True, title="verbs", dest="verb"
    )
    verify = verbs.add_parser("verify", help="say whether all rows are as they were sealed; status 1 if not")
    verify.add_argument("export", nargs="?", type=Path, metavar="EXPORT", help="a file; without it the database")
    verify.add_argument("--key", type=Path, metavar="FILE", help="public keys to trust (public.keys of this hub)")
    verify.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="checkpoints that were kept (those that this hub published)"
    )
    export = verbs.add_parser("export", help="write the audit out; recorded in the audit itself")
    export.add_argument("--output", "-o", type=Path, metavar="FILE", help="a file (standard output)")
    export.add_argument("--format", choices=["jsonl", "csv"], default="jsonl", help="jsonl can be verified (jsonl)")
    export.add_argument("--resume", action="store_true", help="go on where a run to the same file was cut off")
    export.add_argument("--first-block", type=_number, default=0, metavar="N", help="begin with this block (0)")
    export.add_argument("--last-block", type=_number, metavar="N", help="end with this block (the last)")
    for name in ("tool", "principal", "session"):
        export.add_argument(f"--{name}", default="", metavar=name.upper(), help=f"rows of this {name} only")
    export.add_argument("--status", choices=["ok", "error"], default="", help="calls that ended so only")
    export.add_argument("--from", dest="since", type=_moment, metavar="TIME", help="received at or after")
    export.add_argument("--until", type=_moment, metavar="TIME", help="received before")
    verbs.add_parser("checkpoint", help="seal what is there, publish and print the checkpoint")
    rotate = verbs.add_parser("rotate-key", help="sign with a new key from now on; the old one introduces it")
    rotate.add_argument(
        "--lost", action="store_true", help="the old key is gone, and cannot: auditors must be given the new one"
    )
    policy = verbs.add_parser("policy", help="show how long the audit is kept, or change it")
    policy.add_argument("--rows-days", type=_days, metavar="DAYS|forever", help="days that rows are kept")
    policy.add_argument("--bodies-days", type=_days, metavar="DAYS|forever", help="days that bodies are kept")
    policy.add_argument("--reason", default="", help="why; kept in the audit")
    hold = verbs.add_parser("hold", help="list legal holds, set one, or release one")
    deeds = hold.add_subparsers(metavar="list|set|release", required=True, title="deeds", dest="deed")
    listed = deeds.add_parser("list", help="one line a hold: state, name, what it holds, reason")
    listed.add_argument("--all", action="store_true", help="released ones too")
    made = deeds.add_parser("set", help="rows that it describes lose nothing until it is released")
    made.add_argument("name")
    made.add_argument("--reason", required=True, help="why; kept in the audit")
    for name in ("tool", "principal", "session"):
        made.add_argument(f"--{name}", default="", metavar=name.upper(), help=f"rows of this {name}")
    made.add_argument("--from", dest="since", type=_moment, metavar="TIME", help="received at or after")
    made.add_argument("--until", type=_moment, metavar="TIME", help="received before")
    made.add_argument("--first-block", type=_number, metavar="N", help="from this block on")
    made.add_argument("--last-block", type=_number, metavar="N", help="through this block")
    released = deeds.add_parser("release", help="let retention remove what it kept; it is not set again")
    released.add_argument("name")
    released.add_argument("--reason", required=True, help="why; kept in the audit")
    retain = verbs.add_parser("retain", help="remove now what the policy says; a hub does it by itself")
    retain.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run(options: argparse.Namespace) -> int:
    start_django()
    from invocations.chain.keys import KeyProblem
    from invocations.chain.verifier import Bad
    from mcphub import first_run

    verbs: dict[str, Callable[[argparse.Namespace], int]] = {
        "verify": _verify, "export": _export, "checkpoint": _checkpoint, "rotate-key": _rotate, "policy": _policy,
        "hold": _hold, "retain": _retain,
    }  # fmt: skip
    try:
        if options.verb == "verify" and options.export is not None:
            return _verify_file(options)
        with database_or_stop():
            first_run.migrate()
            return verbs[options.verb](options)
    except KeyProblem as problem:
        raise Stop(f"mcphub audit {options.verb}: {problem}") from problem
    except Bad as bad:
        raise Stop(f"BAD: {bad}") from bad
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Stop(f"mcphub audit {options.verb}: {error.filename}: {error.strerror}.", status=2) from error


# Verify ------------------------------------------------------------------------------------------------


def _verify_file(options: argparse.Namespace) -> int:
    from invocations.chain import service, verifier

    words = [str(options.export), "--key", str(options.key or service.keys().public)]
    if options.checkpoint:
        words += ["--checkpoint", str(options.checkpoint)]
    return verifier.main(words)


def _verify(options: argparse.Namespace) -> int:
    from invocations.chain import checking, publishing, service, verifier

    keys = service.keys()
    trusted = verifier.read_keys(options.key.read_text()) if options.key else keys.publics()
    kept = publishing.published(options.checkpoint or service.checkpoints())
    with _log() as (log, database):
        if not trusted:
            if log.size():
                raise Stop(f"mcphub audit verify: {keys.public} is missing; restore it, or name the keys with --key.")
            print("Nothing is sealed yet.")
            return 0
        whole = log.head().position
        with _bar(whole, "rows") as more:
            summary = checking.verify(log, keys, trusted, kept, more)
        waiting = service.sealer_of(database).unsealed()
    print(verifier.describe(summary))
    print(f"{len(kept)} published checkpoints agree.", end=" ")
    print(f"About {waiting} rows are not sealed yet." if waiting else "Every row is sealed.")
    return 0


# Export ------------------------------------------------------------------------------------------------


def _export(options: argparse.Namespace) -> int:
    from invocations.chain import exporting, service
    from invocations.chain.records import Selection

    selection = Selection(
        tool=options.tool, principal=options.principal, session=options.session, status=options.status,
        received_from=options.since or "", received_until=options.until or "",
    )  # fmt: skip
    if options.resume and options.output is None:
        raise Stop("mcphub audit export: --resume needs --output, the file to go on with.", status=2)
    resume = options.output if options.resume else None
    if resume is not None and not resume.is_file():
        raise Stop(f"mcphub audit export: there is no {resume} to go on with; leave --resume out.", status=2)
    with contextlib.ExitStack() as stack:
        log, database = stack.enter_context(_log())
        try:
            exporting.need_block(log, options.first_block)
            out = stack.enter_context(_output(options))
            _tell(options, selection)
            if options.format == "csv":
                with _bar(log.highest()["invocation"], "calls") as more:
                    count = exporting.write_csv(out, log, selection, resume=resume, written=more)
                print(f"{count} calls", file=sys.stderr)
                return 0
            with _bar(log.head().position, "rows") as more:
                blocks, rows = exporting.write_jsonl(
                    out, log, service.keys(), selection, options.first_block, options.last_block, resume=resume,
                    sealed=more,
                )  # fmt: skip
        except exporting.CannotExport as why:
            raise Stop(f"mcphub audit export: {why}", status=2) from why
        waiting = service.sealer_of(database).unsealed()
    print(f"{rows} rows in {blocks} blocks", file=sys.stderr)
    if waiting and options.last_block is None:
        print(f"About {waiting} rows are not sealed yet and not in it.", file=sys.stderr)
    return 0


def _tell(options: argparse.Namespace, selection: Selection) -> None:
    """Record the export before its first row is read."""
    from invocations.chain import events

    after = {"format": options.format, "filters": selection.words(), "first_block": options.first_block}
    if options.last_block is not None:
        after["last_block"] = options.last_block
    events.record("audit.exported", **events.on_the_machine(), after=after)


@contextlib.contextmanager
def _output(options: argparse.Namespace) -> Iterator[BinaryIO]:
    if options.output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with options.output.open("r+b" if options.resume else "wb") as out:
        if stat.S_ISREG(os.fstat(out.fileno()).st_mode):  # a device or a pipe is not the hub's to close to others
            os.fchmod(out.fileno(), 0o600)
        yield out


# The log and its key -----------------------------------------------------------------------------------


def _checkpoint(options: argparse.Namespace) -> int:
    from invocations.chain import service
    from invocations.chain.keys import KeyProblem

    with _log() as (_, database):
        sealer = service.sealer_of(database)
        try:
            sealer.seal()
        except KeyProblem as problem:
            print(f"Nothing was sealed here: {problem}", file=sys.stderr)
        service.publisher().publish(sealer)
        found = sealer.checkpoint()
    if found is None:
        raise Stop("mcphub audit checkpoint: the audit is empty; there is nothing to sign.")
    print(found[1], end="")
    return 0


def _rotate(options: argparse.Namespace) -> int:
    from invocations.chain import events, service
    from invocations.chain.keys import KeyProblem, Signer

    keys = service.keys()
    publics = keys.publics()
    if not publics:
        raise KeyProblem("the audit has no key yet; it gets one when its first rows are sealed.")
    if options.lost:
        if keys.private.exists():
            raise Stop(f"mcphub audit rotate-key: {keys.private} is there; leave --lost out.", status=2)
        old, kind = publics[-1], "audit.key_lost"
    else:
        old, kind = keys.signer().public, "audit.key_rotated"
    new = Signer.make(old.name)
    with _log() as (log, database):
        event = events.record(
            kind, **events.on_the_machine(), before={"key": str(old)}, after={"key": str(new.public)},
            label=new.public.key_id,
        )  # fmt: skip
        sealer = service.sealer_of(database)
        deadline = time.monotonic() + _SEALING_SECONDS
        while not options.lost and log.head().through["event"] < event.pk:
            sealer.seal()  # with the old key, which so introduces the new one
            if time.monotonic() > deadline:
                raise Stop("mcphub audit rotate-key: a long transaction holds the sealing up; try again later.")
        keys.keep(new)
        sealer.seal()
    print(f"{new.public}")
    print("Give this public key to those who keep the old one.", file=sys.stderr)
    return 0


# Retention ---------------------------------------------------------------------------------------------


def _policy(options: argparse.Namespace) -> int:
    from django.core.exceptions import ValidationError

    from invocations.chain.models import AuditPolicy

    policy = AuditPolicy.current()
    given = {name: getattr(options, name) for name in ("rows_days", "bodies_days")}
    given = {name: value for name, value in given.items() if value is not None}
    if given:
        for name, value in given.items():
            setattr(policy, name, value or None)
        policy._change_reason = options.reason[:100] or None
        try:
            policy.full_clean(exclude=["id"])
        except ValidationError as error:
            raise Stop(f"mcphub audit policy: {' '.join(error.messages)}", status=2) from error
        policy.save()
    print(f"rows    {_kept(policy.rows_days)}")
    print(f"bodies  {_kept(policy.bodies_days) if policy.bodies_days else 'as long as rows'}")
    return 0


def _kept(days: int | None) -> str:
    return f"{days} days" if days else "for ever"


def _hold(options: argparse.Namespace) -> int:
    from django.core.exceptions import ValidationError

    from invocations.chain.models import AuditHold

    if options.deed == "list":
        holds = AuditHold.objects.order_by("created_at")
        for hold in holds if options.all else holds.filter(released_at=None):
            state = "released" if hold.released_at else "holds"
            described = " ".join(f"{name}={value}" for name, value in hold.description().items())
            print(f"{state:8}  {hold.name}  {described}  {hold.reason}")
        return 0
    if options.deed == "release":
        found = AuditHold.objects.filter(name=options.name, released_at=None).first()
        if found is None:
            raise Stop(
                f"mcphub audit hold: no hold named {options.name!r} is set; `hold list` tells which are.", status=2
            )
        found.release(options.reason)
        print(f"{found.name} is released")
        return 0
    hold = AuditHold(
        name=options.name, reason=options.reason, tool_name=options.tool, principal=options.principal,
        session_id=options.session, received_from=options.since, received_until=options.until,
        first_block=options.first_block, last_block=options.last_block,
    )  # fmt: skip
    try:
        hold.full_clean()
    except ValidationError as error:
        raise Stop(f"mcphub audit hold: {' '.join(error.messages)}", status=2) from error
    hold.save()
    print(f"{hold.name} holds")
    return 0


def _retain(options: argparse.Namespace) -> int:
    from invocations.chain import events, retention, service

    with _log() as (log, _):
        if options.dry_run:
            found = {"rows": 0, "bodies": 0}
            for plan in retention.due(log):
                found[plan.kind] += plan.rows
            print(f"{found['rows']} rows would be removed, {found['bodies']} would lose their bodies")
            return 0
        rows, bodies = retention.apply(log, service.keys(), who=events.on_the_machine())
    print(f"{rows} rows removed, {bodies} rows without bodies now")
    return 0


# What the verbs share ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _log() -> Iterator[tuple[Log, Dedicated]]:
    from invocations.chain import service
    from sessions_app.database import Dedicated

    database = Dedicated()
    try:
        yield service.log_of(database), database
    finally:
        database.close()


@contextlib.contextmanager
def _bar(whole: int, words: str) -> Iterator[Callable[[int], Any]]:
    """A progress bar on a terminal, nothing elsewhere."""
    from invocations.chain.verifier import show_progress

    done, shown_at, is_shown = 0, 0.0, sys.stderr.isatty()

    def more(count: int) -> None:
        nonlocal done, shown_at
        done += count
        if is_shown and time.monotonic() - shown_at > 0.2:
            shown_at = time.monotonic()
            show_progress(done, whole, f"{done} {words}")

    yield more
    if is_shown and shown_at:
        show_progress(whole, whole, f"{done} {words}\n")


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a block, 0 or more")
    return int(text)


def _days(text: str) -> int:
    """Days; 0 for ever."""
    if text == "forever":
        return 0
    if not text.isdecimal() or not 1 <= len(text) <= 5 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of days nor the word forever")
    return int(text)


def _moment(text: str) -> str:
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(text)
        found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-21 or 2026-11-21T08:30:00Z") from None
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
