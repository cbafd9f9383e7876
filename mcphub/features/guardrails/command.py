"""`mcphub guardrail`: guardrails, listed and switched; `check`, `try` and `detectors` need no database."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, start_django

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from sessions_app.protocol.json import Json


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="list|show|enable|disable|check|try|detectors", required=True, title="verbs", dest="verb"
    )
    rows.declare_list(verbs, KIND)
    rows.declare_show(verbs, KIND)
    rows.declare_deed(verbs, KIND, "enable", "let guardrails look at calls again")
    rows.declare_deed(verbs, KIND, "disable", "let guardrails look at no call")
    check = verbs.add_parser("check", help="say what is wrong with the guardrails of a bundle; status 1 if anything is")
    check.add_argument("file", metavar="FILE", help="a bundle with guardrails, - for standard input")
    tried = verbs.add_parser("try", help="say what detectors find in a text or in JSON; status 1 if they find anything")
    tried.add_argument("file", metavar="FILE", help="a text or JSON, - for standard input")
    tried.add_argument("--detectors", metavar="NAMES", default="", help="groups or kinds with commas between (all)")
    tried.add_argument("--max-bytes", type=int, metavar="N", help="for the detector of bytes")
    tried.add_argument("--max-depth", type=int, metavar="N", help="for the detector of depth")
    tried.add_argument("--masked", action="store_true", help="print what would be left")
    listed = verbs.add_parser("detectors", help="list the detectors by group")
    for verb in (check, tried, listed):
        verb.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    start_django()
    if options.verb in rows.VERBS:
        return rows.do(KIND, options)
    return {"check": _check, "try": _try, "detectors": _list}[options.verb](options)


def _check(options: argparse.Namespace) -> int:
    from mcphub.features.guardrails import files

    try:
        document = json.loads(_read(options.file))
    except ValueError as error:
        raise Stop(f"mcphub guardrail: {options.file} is not valid JSON: {error}") from error
    count, problems = files.read(document)
    if options.json:
        return _print({"ok": not problems, "guardrails": count, "problems": problems}, not problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{count} guardrails are fine.")
    return 1 if problems else 0


def _try(options: argparse.Namespace) -> int:
    from mcphub.features.guardrails import trying

    value: Json = trying.read(_read(options.file))
    try:
        found = trying.tried(value, options.detectors.replace(",", " ").split(), options.max_bytes, options.max_depth)
    except ValueError as error:
        raise Stop(f"mcphub guardrail: {error}", status=2) from error
    if options.json:
        return _print({"ok": not found.scan, **found.shown()}, not found.scan)
    for kind, count in found.kinds:
        print(f"{kind}: {count}")
    if options.masked:
        print(found.masked)
    if not found.scan:
        print(f"Nothing was found, in {found.milliseconds:.2f} ms.")
    return 1 if found.scan else 0


def _list(options: argparse.Namespace) -> int:
    from tools_catalog.detectors.scanning import GROUPS

    if options.json:
        return _print({"groups": {group: list(kinds) for group, kinds in GROUPS.items()}}, True)
    for group, kinds in GROUPS.items():
        print(f"{group}: {', '.join(kinds)}")
    return 0


def _print(found: dict[str, Any], is_good: bool) -> int:
    print(json.dumps(found, ensure_ascii=False, indent=1))
    return 0 if is_good else 1


def _read(source: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise Stop(f"mcphub guardrail: {source} cannot be read: {error.strerror}.", status=2) from error
    return raw.decode("utf-8", "replace")


# What stands in the hub ----------------------------------------------------------------------------------


def _guardrails() -> QuerySet[Any]:
    from mcphub.features.guardrails.models import McpGuardrail

    return McpGuardrail.objects.order_by("name")


def _told(row: Any) -> Mapping[str, Any]:
    from mcphub.features.guardrails.rest import GuardrailSerializer

    return dict(GuardrailSerializer(row).data)


def _line(told: Mapping[str, Any]) -> list[object]:
    state = "disabled" if not told["enabled"] else "watches" if told["watching"] else "enabled"
    about = f"{told['applies_to']} {told['target']}".strip()
    return [told["name"], state, told["action"], told["direction"], about, told["detectors"] or told["checked_by"]]


KIND = RowKind(
    command="guardrail",
    noun="guardrail",
    nouns="guardrails",
    key="name",
    rows=_guardrails,
    told=_told,
    line=_line,
    none="There is no guardrail. The console has them under Rules, and `mcphub catalog load FILE` brings some.",
)
