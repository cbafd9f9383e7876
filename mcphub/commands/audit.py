"""`mcphub audit`: calls listed and shown, the audit verified, exported and kept, its checkpoints and keys."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from mcphub import feature_list
from mcphub.commands import audit_calls, audit_retention
from mcphub.commands.audit_log import open_log
from mcphub.commands.progress import progress
from mcphub.commands.rows import print_json
from mcphub.commands.stop import Stop, fills, migrated_database, start_django
from mcphub.parts import VerifiedCopy
from sessions_app.kit.features import loaded

if TYPE_CHECKING:
    from invocations.chain.log import Log
    from invocations.chain.records import RowSelection
    from invocations.chain.sealer import Sealer
    from invocations.chain.verifier import Checkpoint, PublicKey, Summary
    from sessions_app.kit.database import Dedicated

_SEALING_SECONDS = 30


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="list|show|verify|lift-alarm|export|checkpoint|new-key|rotate-key|policy|hold|retain",
        required=True,
        title="verbs",
        dest="verb",
    )
    audit_calls.declare(verbs, _moment)
    verify = verbs.add_parser("verify", help="say whether all rows are as they were sealed; status 1 if not")
    verify.add_argument("export", nargs="?", type=Path, metavar="EXPORT", help="a file; without it the database")
    verify.add_argument("--key", type=Path, metavar="FILE", help="public keys to trust (public.keys of this hub)")
    verify.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="checkpoints to compare with (default: those that this hub published)",
    )
    for copy in feature_list.declared(VerifiedCopy):
        verify.add_argument(f"--{copy.name}", nargs="?", const="", metavar="PLACE", help=copy.help)
    verify.add_argument("--json", action="store_true", help="the verdict about the database as JSON")
    lift = verbs.add_parser("lift-alarm", help="say that a person has looked into an alarm; the history records it")
    lift.add_argument("alarm", nargs="?", default="", metavar="ID", help="as `audit verify` shows it (all)")
    lift.add_argument("--reason", required=True, help="what was found; the history keeps it")
    export = verbs.add_parser("export", help="write the audit to a file; the audit records the export")
    export.add_argument("--output", "-o", type=Path, metavar="FILE", help="a file (standard output)")
    export.add_argument("--format", choices=["jsonl", "csv"], default="jsonl", help="jsonl can be verified (jsonl)")
    export.add_argument("--resume", action="store_true", help="continue an interrupted export to the same file")
    export.add_argument("--first-block", type=_number, default=0, metavar="N", help="begin with this block (0)")
    export.add_argument("--last-block", type=_number, metavar="N", help="end with this block (the last)")
    for name in ("tool", "principal", "session"):
        export.add_argument(f"--{name}", default="", metavar=name.upper(), help=f"rows of this {name} only")
    export.add_argument("--status", choices=["ok", "error"], default="", help="only calls with this status")
    export.add_argument("--from", dest="since", type=_moment, metavar="TIME", help="received at or after")
    export.add_argument("--until", type=_moment, metavar="TIME", help="received before")
    verbs.add_parser("checkpoint", help="seal all rows, publish and print the checkpoint")
    verbs.add_parser("new-key", help="print a new signing key, for a hub that is given its key; change nothing")
    rotate = verbs.add_parser("rotate-key", help="sign with a new key from now on; the old one introduces it")
    rotate.add_argument(
        "--to",
        metavar="PUBLIC-KEY",
        default="",
        help="introduce this key, which the hub is given next: a line of public.keys, or Base64 as a KMS gives it",
    )
    rotate.add_argument(
        "--lost",
        action="store_true",
        help="the old key is lost and cannot introduce the new one: give auditors the new one",
    )
    policy = verbs.add_parser("policy", help="show how long the audit is kept, or change it")
    policy.add_argument("--rows-days", type=_days, metavar="DAYS|forever", help="days that rows are kept")
    policy.add_argument("--bodies-days", type=_days, metavar="DAYS|forever", help="days that bodies are kept")
    policy.add_argument("--json", action="store_true", help="as JSON")
    policy.add_argument("--reason", default="", help="the reason; the audit keeps it")
    hold = verbs.add_parser("hold", help="list legal holds, set one, or release one")
    actions = hold.add_subparsers(metavar="list|set|release", required=True, title="actions", dest="action")
    listed = actions.add_parser("list", help="one line a hold: state, name, what it holds, reason")
    listed.add_argument("--all", action="store_true", help="released ones too")
    listed.add_argument("--json", action="store_true", help="as JSON")
    made = actions.add_parser("set", help="keep the described rows until the hold is released")
    made.add_argument("name")
    made.add_argument("--reason", required=True, help="the reason; the audit keeps it")
    for name in ("tool", "principal", "session"):
        each = made.add_argument(f"--{name}", default="", metavar=name.upper(), help=f"rows of this {name}")
        fills(each, name, f"{name}_name", f"{name}_id")
    since = made.add_argument("--from", dest="since", type=_moment, metavar="TIME", help="received at or after")
    fills(since, "received_from")
    until = made.add_argument("--until", type=_moment, metavar="TIME", help="received before")
    fills(until, "received_until")
    made.add_argument("--first-block", type=_number, metavar="N", help="from this block on")
    made.add_argument("--last-block", type=_number, metavar="N", help="through this block")
    released = actions.add_parser(
        "release", help="let retention remove the rows of a hold; a released hold cannot be set again"
    )
    released.add_argument("name")
    released.add_argument("--reason", required=True, help="the reason; the audit keeps it")
    retain = verbs.add_parser("retain", help="apply the retention policy now; a running hub does it by itself")
    retain.add_argument("--json", action="store_true", help="as JSON")
    retain.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run(options: argparse.Namespace) -> int:
    start_django()
    from invocations.chain.keys import KeyProblem
    from invocations.chain.verifier import Bad
    from invocations.chain.watching import Rewritten

    verbs: dict[str, Callable[[argparse.Namespace], int]] = {
        "list": audit_calls.run,
        "show": audit_calls.run,
        "verify": _verify,
        "lift-alarm": _lift,
        "export": _export,
        "checkpoint": _checkpoint,
        "rotate-key": _rotate,
        "policy": audit_retention.policy,
        "hold": audit_retention.hold,
        "retain": audit_retention.retain,
    }
    try:
        if options.verb == "verify" and options.export is not None:
            beside = [
                copy.name for copy in feature_list.declared(VerifiedCopy) if getattr(options, copy.name) is not None
            ]
            if beside:
                raise Stop(f"mcphub audit verify: --{beside[0]} goes with the database, not with a file.", status=2)
            if options.json:
                raise Stop("mcphub audit verify: --json is of the database; leave it out for a file.", status=2)
            return _verify_file(options)
        if options.verb == "new-key":
            return _new_key()
        with migrated_database():
            return verbs[options.verb](options)
    except KeyProblem as problem:
        raise Stop(f"mcphub audit {options.verb}: {problem}") from problem
    except Rewritten as problem:
        raise Stop(f"BAD: {problem} Nothing was sealed. `mcphub audit verify` looks at the whole log.") from problem
    except Bad as bad:
        if getattr(options, "json", False):
            print_json({"ok": False, "problem": str(bad)})
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


def verify() -> int:
    """Verify the audit as `mcphub audit verify` does without flags; return the exit status."""
    parser = argparse.ArgumentParser()
    declare(parser)
    return run(parser.parse_args(["verify"]))


def _verify(options: argparse.Namespace) -> int:
    from invocations.chain import alarms, checking, publishing, service, verifier

    keys = service.keys()
    trusted = verifier.read_keys(options.key.read_text()) if options.key else keys.publics()
    kept = publishing.published(options.checkpoint or service.checkpoints())
    with open_log() as (log, database):
        if not trusted:
            if log.size():
                raise Stop(f"mcphub audit verify: {keys.public} is missing; restore it, or name the keys with --key.")
            if options.json:
                return print_json({"ok": True, "blocks": 0, "rows": 0})
            print("Nothing is sealed yet.")
            return 0
        whole = log.head().position
        with progress(whole, "rows") as more:
            summary = _judged(log, lambda: checking.verify(log, keys, trusted, kept, more), options)
        waiting = service.sealer_of(database).unsealed()
        open_alarms = alarms.reconcile(log, service.alarm_file())
        copies = _verified_copies(options, log, trusted, kept)
    if options.json:
        shown = [{"id": each.id, "at": each.at, "problem": each.problem} for each in open_alarms]
        print_json(
            {
                "ok": not open_alarms,
                "alarms": shown,
                "blocks": summary.blocks,
                "rows": summary.rows,
                "removed": summary.removed,
                "erased": summary.erased,
                "last": summary.last or None,
                "keys": summary.keys,
                "checkpoints": len(kept),
                "unsealed": waiting,
                **{name: {"blocks": each.blocks, "rows": each.rows} for name, each in copies.items()},
            }
        )
        return 1 if open_alarms else 0
    print(verifier.describe(summary))
    if kept:
        print(f"{len(kept)} published checkpoints agree.", end=" ")
    else:
        print(
            f"No checkpoint was found in {options.checkpoint or service.checkpoints()}: whether the log was cut, "
            "rewritten with its key, or rolled back, nothing shows."
        )
    print(f"Rows not sealed yet: about {waiting}." if waiting else "Every row is sealed.")
    for name, copy in copies.items():
        print(f"In the {name}: {verifier.describe(copy)}")
    for each in open_alarms:
        print(f"OPEN ALARM {each.id} since {each.at or 'an unknown time'}: {each.problem}")
    if open_alarms:
        print(
            "What is in the log agrees now, and did not before: it may have been rewritten. Compare it with copies "
            "outside; then lift the alarm with `mcphub audit lift-alarm --reason REASON`."
        )
    return 1 if open_alarms else 0


def _verified_copies(
    options: argparse.Namespace, log: Log, trusted: list[PublicKey], kept: list[Checkpoint]
) -> dict[str, Summary]:
    """Verify the copies of the log that flags name, by name. Raises Bad."""
    from django.conf import settings

    given = {copy: getattr(options, copy.name) for copy in feature_list.declared(VerifiedCopy)}
    return {
        copy.name: loaded(copy.verify)(place or getattr(settings, copy.setting), log, trusted, kept)
        for copy, place in given.items()
        if place is not None
    }


def _lift(options: argparse.Namespace) -> int:
    from invocations.chain import alarms, service, watching
    from sessions_app.history import events

    reason = options.reason.strip()
    if not reason:
        raise Stop("mcphub audit lift-alarm: --reason is empty. Write what was found, for whoever reads the record.")
    file = service.alarm_file()
    with open_log() as (log, _database):
        found = alarms.reconcile(log, file)
        chosen = [each for each in found if options.alarm in ("", each.id)]
        if not chosen:
            raise Stop("mcphub audit lift-alarm: no such alarm is open. `mcphub audit verify` lists open alarms.")
        for each in chosen:
            events.record(
                alarms.LIFTED,
                subject=each.id,
                label=each.problem,
                before={"at": each.at, "problem": each.problem},
                reason=reason,
            )
            file.lift(each, events.actor_of(None).label, reason)
        left = [each for each in found if each not in chosen]
        watching.lift(log)
        if left:
            watching.keep(log, log.size(), left[0].problem)
    print(f"{len(chosen)} lifted, {len(left)} open. The history records who did it, when and why.")
    return 0


def _judged(log: Log, verify: Callable[[], Summary], options: argparse.Namespace) -> Summary:
    """Verify; keep the verdict, unless a comparison was chosen."""
    from invocations.chain import service, watching
    from invocations.chain.verifier import Bad

    is_ours = not options.key and not options.checkpoint
    began = time.monotonic()
    try:
        summary = verify()
    except Bad as bad:
        if is_ours:
            watching.keep(log, log.size(), str(bad))
            service.alarm_file().sound(str(bad))
            watching.record(log, "whole", log.size(), 0, time.monotonic() - began, str(bad))
        raise
    if is_ours:
        watching.keep(log, summary.blocks)
        watching.record(log, "whole", summary.blocks, summary.blocks, time.monotonic() - began)
    return summary


# Export ------------------------------------------------------------------------------------------------


def _export(options: argparse.Namespace) -> int:
    from invocations.chain import exporting, service
    from invocations.chain.records import RowSelection

    selection = RowSelection(
        tool=options.tool,
        principal=options.principal,
        session=options.session,
        status=options.status,
        received_from=options.since or "",
        received_until=options.until or "",
    )
    if options.resume and options.output is None:
        raise Stop("mcphub audit export: --resume needs --output, the file to go on with.", status=2)
    resume = options.output if options.resume else None
    if resume is not None and not resume.is_file():
        raise Stop(f"mcphub audit export: there is no {resume} to go on with; leave --resume out.", status=2)
    with contextlib.ExitStack() as stack:
        log, database = stack.enter_context(open_log())
        try:
            exporting.need_block(log, options.first_block)
            out = stack.enter_context(_output(options))
            _tell(options, selection)
            if options.format == "csv":
                with progress(log.highest()["invocation"], "calls") as more:
                    count = exporting.write_csv(out, log, selection, resume=resume, written=more)
                print(f"{count} calls", file=sys.stderr)
                return 0
            with progress(log.head().position, "rows") as more:
                blocks, rows = exporting.write_jsonl(
                    out,
                    log,
                    service.keys(),
                    selection,
                    options.first_block,
                    options.last_block,
                    resume=resume,
                    sealed=more,
                )
        except exporting.CannotExport as why:
            raise Stop(f"mcphub audit export: {why}", status=2) from why
        waiting = service.sealer_of(database).unsealed()
    print(f"{rows} rows in {blocks} blocks", file=sys.stderr)
    if waiting and options.last_block is None:
        print(f"Rows not sealed yet, which the export lacks: about {waiting}.", file=sys.stderr)
    return 0


def _tell(options: argparse.Namespace, selection: RowSelection) -> None:
    """Record the export before its first row is read."""
    from sessions_app.history import events

    after = {"format": options.format, "filters": selection.words(), "first_block": options.first_block}
    if options.last_block is not None:
        after["last_block"] = options.last_block
    events.record("audit.exported", actor=events.on_the_machine(), after=after)


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
    from invocations.chain import places, service
    from invocations.chain.keys import KeyProblem

    with open_log() as (log, database):
        sealer = _trusted_sealer(log, database)
        try:
            sealer.seal()
        except KeyProblem as problem:
            print(f"No row was sealed: {problem}", file=sys.stderr)
        service.publisher().publish(sealer)
        found = sealer.checkpoint()
    if found is None:
        raise Stop("mcphub audit checkpoint: the audit is empty; there is nothing to sign.")
    print(found[1], end="")
    failed = 0
    for place in map(places.place_of, service.places()):
        try:
            place.put(found[1])
        except (places.Undelivered, OSError) as error:
            failed = 1
            print(f"The checkpoint did not arrive at {place.name}: {error}.", file=sys.stderr)
    return failed


def _trusted_sealer(log: Log, database: Dedicated) -> Sealer:
    """Return a sealer for a log that agrees with the checkpoints outside; raise Rewritten where it does not.

    A checkpoint of a rewritten log would be the file's next memory, and cover up the rewriting.
    """
    from invocations.chain import service
    from invocations.chain.watching import Outside

    Outside(service.checkpoints(), service.keys().publics).compare(log)
    return service.sealer_of(database)


def _new_key() -> int:
    from invocations.chain import service
    from invocations.chain.keys import Signer, new_name

    known = service.keys().publics()
    signer = Signer.make(known[-1].name if known else new_name())
    print(signer)
    print(f"{signer.public}\nThis is its public key.", file=sys.stderr)
    return 0


def _next_public(given: str, name: str) -> PublicKey:
    from invocations.chain.commanding import CommandFailed, read_public_key

    try:
        public = read_public_key(given, name)
    except CommandFailed as failure:
        raise Stop(f"mcphub audit rotate-key: --to: {failure}.", status=2) from failure
    if public.name != name:
        raise Stop(f"mcphub audit rotate-key: --to names the log {public.name}, and this one is {name}.", status=2)
    return public


def _rotate(options: argparse.Namespace) -> int:
    from invocations.chain import service
    from invocations.chain.keys import KeyProblem, Signer
    from sessions_app.history import events

    keys = service.keys()
    publics = keys.publics()
    if not publics:
        raise KeyProblem("the audit has no key yet; it gets one when its first rows are sealed.")
    if keys.given is not None and not options.to:
        raise Stop(
            f"mcphub audit rotate-key: the hub is given its key by {keys.given.source}. Make the next key there, or "
            "with `mcphub audit new-key`, and introduce it with --to PUBLIC-KEY.",
            status=2,
        )
    if options.lost:
        if keys.given is None and keys.private.exists():
            raise Stop(f"mcphub audit rotate-key: {keys.private} is there; leave --lost out.", status=2)
        old, kind = publics[-1], "audit.key_lost"
    else:
        old, kind = keys.signer().public, "audit.key_rotated"
    new = None if options.to else Signer.make(old.name)
    public = new.public if new is not None else _next_public(options.to, old.name)
    with open_log() as (log, database):
        sealer = _trusted_sealer(log, database)
        event = events.record(
            kind,
            actor=events.on_the_machine(),
            before={"key": str(old)},
            after={"key": str(public)},
            label=public.key_id,
        )
        deadline = time.monotonic() + _SEALING_SECONDS
        while not options.lost and log.head().through["event"] < event.pk:
            sealer.seal()  # with the old key, which so introduces the new one
            if time.monotonic() > deadline:
                raise Stop("mcphub audit rotate-key: a long transaction delays the sealing; try again later.")
        if new is not None:
            keys.keep(new)
            sealer.seal()
        else:
            keys.announce(public)
    print(f"{public}")
    print("Give this public key to those who keep the old one.", file=sys.stderr)
    if new is None:
        print("Give the hub the new key, start it again, and then destroy the old private key.", file=sys.stderr)
    return 0


# What the verbs share ----------------------------------------------------------------------------------


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
