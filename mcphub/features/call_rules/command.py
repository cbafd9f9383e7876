"""`mcphub policy`: rules about calls, listed and switched; `check` and `test` look at a file, without a database."""

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
        metavar="list|show|enable|disable|check|test", required=True, title="verbs", dest="verb"
    )
    rows.declare_list(verbs, KIND)
    rows.declare_show(verbs, KIND)
    rows.declare_deed(verbs, KIND, "enable", "let rules decide about calls again")
    rows.declare_deed(verbs, KIND, "disable", "let rules decide about no call")
    check = verbs.add_parser("check", help="say what is wrong with the rules of a bundle; status 1 if anything is")
    test = verbs.add_parser("test", help="try the rules of a bundle on the calls of its member cases; status 1 if not")
    for verb in (check, test):
        verb.add_argument("file", metavar="FILE", help="a bundle with policy_rules, - for standard input")
        verb.add_argument("--json", action="store_true", help="print the findings as one JSON object")
    test.add_argument("--cases", type=Path, metavar="FILE", help="the calls, where they are in a file of their own")


def run(options: argparse.Namespace) -> int:
    start_django()
    if options.verb in rows.VERBS:
        return rows.do(KIND, options)
    from mcphub.features.call_rules import files

    document = _read(options.file)
    rules, problems = files.read(document)
    if options.verb == "check":
        return _tell({"ok": not problems, "rules": len(rules), "problems": problems}, options.json)
    return _test(options, document, rules, problems)


def _test(options: argparse.Namespace, document: Json, rules: list[Any], problems: list[str]) -> int:
    from mcphub.features.call_rules import trying

    given = _read(str(options.cases)) if options.cases else document
    cases, wrong = trying.read_cases(given.get("cases") if isinstance(given, dict) else given)
    problems = problems + wrong
    results = []
    for case in [] if problems else cases:
        found = trying.tried(rules, case.call)
        effect, rule = found.ruling.effect or "none", found.ruling.rule or ""
        is_met = effect == case.expect and (not case.rule or rule == case.rule)
        results.append(
            {
                "case": case.name,
                "ok": is_met,
                "expected": case.expect,
                "effect": effect,
                "rule": rule,
                "said": found.ruling.said or "",
                "watched": found.ruling.watched or "",
                "findings": trying.shown(found.findings),
            }
        )
    is_good = not problems and all(result["ok"] for result in results)
    return _tell({"ok": is_good, "rules": len(rules), "problems": problems, "cases": results}, options.json)


def _tell(found: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
        return 0 if found["ok"] else 1
    for problem in found["problems"]:
        print(problem, file=sys.stderr)
    failed = [case for case in found.get("cases", []) if not case["ok"]]
    for case in failed:
        by = f" by {case['rule']} ({case['said']})" if case["rule"] else ""
        print(f"{case['case']}: expected {case['expected']}, got {case['effect']}{by}.", file=sys.stderr)
    if "cases" in found and not found["problems"]:
        print(f"{found['rules']} rules, {len(found['cases'])} cases, {len(failed)} failed.")
    elif not found["problems"]:
        print(f"{found['rules']} rules are fine.")
    return 0 if found["ok"] else 1


def _read(source: str) -> Json:
    from sessions_app.protocol import json as strict
    from sessions_app.protocol.errors import ParseError

    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise Stop(f"mcphub policy: {source} cannot be read: {error.strerror}.", status=2) from error
    try:
        return strict.loads(raw)
    except ParseError as error:
        raise Stop(f"mcphub policy: {source} is not valid JSON: {error}") from error


# What stands in the hub ----------------------------------------------------------------------------------


def _rules() -> QuerySet[Any]:
    from mcphub.features.call_rules.models import McpPolicyRule

    return McpPolicyRule.objects.order_by("name")


def _told(row: Any) -> Mapping[str, Any]:
    from mcphub.features.call_rules.rest import PolicyRuleSerializer

    return dict(PolicyRuleSerializer(row).data)


def _line(told: Mapping[str, Any]) -> list[object]:
    state = "disabled" if not told["enabled"] else "watches" if told["watching"] else "enabled"
    about = f"{told['applies_to']} {told['target']}".strip()
    return [told["name"], state, told["effect"], about, told["condition"]]


KIND = RowKind(
    command="policy",
    noun="rule about calls",
    nouns="rules about calls",
    key="name",
    rows=_rules,
    told=_told,
    line=_line,
    none="There is no rule about calls. The console has them under Rules, and `mcphub catalog load FILE` brings some.",
)
