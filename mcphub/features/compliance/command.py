"""`mcphub audit evidence`: the record of a period as one signed archive, and the check of such an archive."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcphub.commands.stop import Stop, migrated_database, start_django


def declare(verbs: Any) -> None:
    parser = verbs.add_parser("evidence", help="write the evidence of a period as a signed archive, or check one")
    parser.add_argument(
        "--from", dest="since", type=_moment, metavar="TIME", help="the first moment, such as 2026-10-01"
    )
    parser.add_argument("--until", type=_moment, metavar="TIME", help="the moment after the last (now)")
    parser.add_argument("--workspace", default="", metavar="NAME", help="of this workspace alone")
    parser.add_argument("--language", choices=["en", "ru"], default="en", help="of the report (en)")
    parser.add_argument("--output", "-o", type=Path, metavar="FILE", help="the archive, a .zip that does not exist yet")
    parser.add_argument("--check", type=Path, metavar="FILE", help="check this archive; needs no database")
    parser.add_argument("--key", type=Path, metavar="FILE", help="public keys to trust (public.keys of this hub)")


def run(options: argparse.Namespace) -> int:
    if options.check is not None:
        return _check(options)
    if options.since is None or options.output is None:
        raise Stop("mcphub audit evidence: write --from TIME and --output FILE, or --check FILE.", status=2)
    until = options.until or datetime.now(UTC)
    if options.since >= until:
        raise Stop("mcphub audit evidence: --from is not before --until.", status=2)
    with migrated_database():
        return _write(options, until)


def _write(options: argparse.Namespace, until: datetime) -> int:
    from invocations.chain import service
    from invocations.chain.keys import KeyProblem
    from mcphub.features.compliance import evidence
    from sessions_app.history import events

    period = evidence.Period(options.since, until, _scope(options.workspace))
    after = {"from": period.since.isoformat(), "until": until.isoformat(), "workspace": options.workspace or None}
    try:
        signer = service.keys().signer()
        events.record("audit.evidence", actor=events.on_the_machine(), after=after)
        manifest = evidence.write(options.output, period, signer, options.language)
    except KeyProblem as problem:
        raise Stop(f"mcphub audit evidence: {problem}") from problem
    except OSError as error:
        raise Stop(f"mcphub audit evidence: {error.filename}: {error.strerror}.", status=2) from error
    print(f"{options.output}: {_words(manifest)}, signed with {manifest['key']}", file=sys.stderr)
    return 0


def _scope(name: str) -> Any:
    if not name:
        return None
    from sessions_app.models import McpWorkspace
    from sessions_app.workspaces.scope import Scope

    found = McpWorkspace.objects.filter(slug=name).first()
    if found is None:
        raise Stop(
            f"mcphub audit evidence: there is no workspace {name!r}; `mcphub workspace list` lists them.", status=2
        )
    return Scope(found.pk, found.slug)


def _check(options: argparse.Namespace) -> int:
    start_django()
    from invocations.chain import service
    from invocations.chain.verifier import Bad, read_keys
    from mcphub.features.compliance import evidence

    keys = options.key or service.keys().public
    try:
        manifest = evidence.check(options.check, read_keys(keys.read_text()))
    except Bad as bad:
        raise Stop(f"BAD: {bad}") from bad
    except OSError as error:
        raise Stop(f"mcphub audit evidence: {error.filename}: {error.strerror}.", status=2) from error
    print(f"{_words(manifest)}: as signed by {manifest['log']} with {manifest['key']}.")
    for name, about in manifest["files"].items():
        if about.get("words") and about["lines"]:
            print(f"{name}: {about['lines']} lines. {about['words']}")
    return 0


def _words(manifest: dict[str, Any]) -> str:
    where = f" in {manifest['workspace']}" if manifest["workspace"] else ""
    return f"{len(manifest['files'])} files of {manifest['from'][:10]} to {manifest['until'][:10]}{where}"


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-21 or 2026-11-21T08:30:00Z") from None
