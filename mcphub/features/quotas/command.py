"""`mcphub quota`: quotas, listed and switched, their usage, and whether a call or chat turn would be refused now."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.person import KIND as PEOPLE
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, migrated_database
from mcphub.commands.tool import KIND as TOOLS

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from mcphub.features.quotas.quota import Charge
    from sessions_app.caller import Caller

_LISTED = ("name", "enabled", "per", "unit", "period", "soft_limit", "hard_limit", "applies_to", "target", "provider")


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="list|show|enable|disable|usage|test", required=True, title="verbs", dest="verb"
    )
    listed = verbs.add_parser("list", help="name the quotas")
    rows.declare_show(verbs, KIND)
    rows.declare_deed(verbs, KIND, "enable", "let quotas count and refuse again; what they counted stands")
    rows.declare_deed(verbs, KIND, "disable", "let quotas count and refuse nothing")
    used = verbs.add_parser("usage", help="say who has used how much, the fullest first")
    rows.completes(used.add_argument("quota", nargs="?", default="", metavar="NAME", help="of this quota only"), KIND)
    tested = verbs.add_parser(
        "test", help="say what a call, or a turn of the chat, would count in; status 1 where it would be refused now"
    )
    rows.completes(
        tested.add_argument("tool", nargs="?", metavar="TOOL", help="name of the tool that is called"), TOOLS
    )
    tested.add_argument("--model", metavar="MODEL", help="the model that answers, such as openai/gpt-5")
    tested.add_argument(
        "--person", metavar="NAME", help="as this person, or account of a service; without either as nobody"
    )
    tested.add_argument("--key", metavar="PREFIX", help="with the key of this prefix")
    for verb in (listed, used, tested):
        verb.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        if options.verb == "show":
            return rows.show_row(KIND, options)
        if options.verb in ("enable", "disable"):
            return rows.switch(KIND, options)
        return {"list": _list, "usage": _usage, "test": _test}[options.verb](options)


def _list(options: argparse.Namespace) -> int:
    from mcphub.features.quotas import amounts
    from mcphub.features.quotas.models import McpQuota
    from mcphub.features.quotas.quota import OF_MODELS

    found = list(McpQuota.objects.select_related("person", "key", "group"))
    if options.json:
        return _print({"quotas": [{name: getattr(row, name) for name in _LISTED} for row in found]})
    for row in found:
        soft, hard = (
            "-" if limit is None else amounts.said(limit, row.unit) for limit in (row.soft_limit, row.hard_limit)
        )
        limits = f"warns from {soft}, refuses from {hard} a {row.period}"
        is_of_models = row.unit in OF_MODELS
        where = (
            f"provider: {row.provider or 'all'}" if is_of_models else f"tools: {row.applies_to} {row.target}".strip()
        )
        state = "" if row.enabled else " (off)"
        print(f"{row.name}{state}: {limits}, per {row.per}, {where}{f', of {row.about}' if row.about else ''}")
    if not found:
        print("There are no quotas.")
    return 0


def _usage(options: argparse.Namespace) -> int:
    from mcphub.features.quotas import amounts, usage
    from mcphub.features.quotas.models import McpQuota

    if options.quota and not McpQuota.objects.filter(name=options.quota).exists():
        raise rows.missing(KIND, options.quota)
    found = usage.uses(quota=options.quota)
    if options.json:
        return _print({"uses": [use.told() for use in found]})
    for use in found:
        who = f"{use.subject} ({use.label})" if use.label else use.subject
        used, limit = (amounts.said(number, use.unit) for number in (use.used, use.limit))
        remarks = "".join(f"; {remark}" for remark in amounts.remarks(use.estimated, use.unpriced, use.unit))
        print(f"{use.share:>3} %  {use.quota}  {who}  {used} of {limit}, until {use.window.resets_at}{remarks}")
    if not found:
        print("Nothing was counted in the windows that are open now.")
    return 0


def _test(options: argparse.Namespace) -> int:
    from mcphub.features.quotas import amounts, usage

    if bool(options.tool) == bool(options.model):
        raise Stop("mcphub quota: name a tool, or with --model the model of a turn of the chat.")
    used = usage.used_of(_charges_of_turn(options) if options.model else _charges_of_call(options))
    found: list[dict[str, Any]] = [
        {
            "quota": charge.quota.name,
            "subject": charge.subject,
            "unit": charge.quota.unit,
            "used": amount,
            "soft_limit": charge.quota.soft,
            "hard_limit": charge.quota.hard,
            "is_full": charge.quota.hard is not None and amount >= charge.quota.hard,
        }
        for charge, amount in used.items()
    ]
    is_refused = any(each["is_full"] for each in found)
    if options.json:
        return _print({"ok": not is_refused, "quotas": found}, not is_refused)
    for each in found:
        limit = each["hard_limit"] or each["soft_limit"]
        full = ", used up" if each["is_full"] else ""
        words, most = (amounts.said(number, each["unit"]) for number in (each["used"], limit))
        print(f"{each['quota']}: {each['subject']} has used {words} of {most}{full}.")
    what = "turn" if options.model else "call"
    if not found:
        print(f"No quota is about such a {what}.")
    print(f"The {what} would be refused now." if is_refused else f"The {what} would be made.")
    return 1 if is_refused else 0


def _charges_of_call(options: argparse.Namespace) -> Iterable[Charge]:
    from mcphub.features.quotas.models import McpQuota
    from mcphub.features.quotas.quota import Quotas, charges_of
    from tools_catalog.models import McpToolDefinition, McpToolset
    from tools_catalog.models.ruled import ruled

    tool = McpToolDefinition.objects.filter(name=options.tool).first()
    if tool is None:
        raise rows.missing(TOOLS, options.tool, by="quota")
    toolsets = {row.slug: frozenset(row.names()) for row in McpToolset.objects.filter(enabled=True)}
    quotas = Quotas([row.compiled() for row in McpQuota.objects.filter(enabled=True)], toolsets)
    return charges_of(quotas.concerning(ruled(tool)), _caller(options), "{}")


def _charges_of_turn(options: argparse.Namespace) -> Iterable[Charge]:
    from mcphub.features.quotas.apps import CountedModels
    from mcphub.features.quotas.models import McpQuota
    from mcphub.features.quotas.quota import Quotas, charges_of_round
    from sessions_app.kit.features import declared, loaded

    found = (loaded(part.provider)(options.model) for part in declared(CountedModels))
    provider = next((each for each in found if each is not None), None)
    if provider is None:
        raise Stop(f"mcphub quota: there is no model {options.model!r}. `mcphub quota prices` names them.")
    quotas = Quotas([row.compiled() for row in McpQuota.objects.filter(enabled=True)])
    return charges_of_round(quotas.of_provider(provider), _caller(options))


def _caller(options: argparse.Namespace) -> Caller:

    from sessions_app.caller import ANONYMOUS, caller_of, caller_of_key
    from sessions_app.models import ApiKey

    if options.key:
        key = ApiKey.objects.select_related("owner").filter(prefix=options.key.rstrip("…")).first()
        if key is None:
            raise Stop(
                f"mcphub quota: there is no key with the prefix {options.key!r}. `mcphub token list` names them."
            )
        return caller_of_key(key)
    if options.person:
        return caller_of(rows.named(PEOPLE, [options.person], by="quota")[0])
    return ANONYMOUS


def _print(found: dict[str, Any], is_good: bool = True) -> int:
    print(json.dumps(found, ensure_ascii=False, indent=1))
    return 0 if is_good else 1


def _quotas() -> QuerySet[Any]:
    from mcphub.features.quotas.models import McpQuota

    return McpQuota.objects.select_related("person", "key", "group").order_by("name")


def _told(row: Any) -> Mapping[str, Any]:
    from mcphub.features.quotas.rest import QuotaSerializer

    return dict(QuotaSerializer(row).data)


KIND = RowKind(
    command="quota",
    noun="quota",
    nouns="quotas",
    key="name",
    rows=_quotas,
    told=_told,
    line=lambda told: [told["name"]],
    none="There are no quotas.",
)
"""Of `show` and the switches; `list` has lines and JSON of its own."""
