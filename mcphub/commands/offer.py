"""`mcphub offer`: upstream offers, listed, shown, approved and rejected."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from tools_catalog.models import McpUpstreamTool

_AUTHOR = "mcphub offer"
_STATES = ("new", "changed", "refused", "approved", "rejected", "gone")
_WAITING = _STATES[:3]


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|show|approve|reject", required=True, title="verbs", dest="verb")
    listed = verbs.add_parser("list", help="name the offers that wait for a decision")
    listed.add_argument("--connection", metavar="NAME", help="those of one connection")
    listed.add_argument(
        "--state", action="append", choices=_STATES, help=f"in this state; repeated for more ({', '.join(_WAITING)})"
    )
    listed.add_argument("--json", action="store_true", help="as JSON, as /api/offers/ gives it")
    show = verbs.add_parser("show", help="print one offer: as it is now, and as it was approved")
    show.add_argument("id", metavar="ID", type=int, help="its number in the list")
    for verb, does in (
        ("approve", "serve what is offered now"),
        ("reject", "do not serve it; what was approved stays"),
    ):
        decide = verbs.add_parser(verb, help=does)
        decide.add_argument("id", metavar="ID", type=int, nargs="*", help="its number in the list")
        decide.add_argument("--connection", metavar="NAME", help="all that wait of one connection")
        decide.add_argument("--digest", metavar="DIGEST", help="refuse if it is another definition than this by now")
        decide.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        if options.verb == "list":
            return _list(options)
        if options.verb == "show":
            return _show(_rows([options.id])[0])
        return _decide(options)


def _show(row: McpUpstreamTool) -> int:
    """Print an offer, and on standard error, where lines are lines, the difference of its texts."""
    from tools_catalog.rest.offers import OfferSerializer

    shown = OfferSerializer(row).data
    print(json.dumps(shown, indent=2, ensure_ascii=False))
    if shown["difference"]:
        print(shown["difference"], file=sys.stderr)
    return 0


def _list(options: argparse.Namespace) -> int:
    from tools_catalog.detectors.definitions import sentence
    from tools_catalog.discovery import proposals
    from tools_catalog.models import McpUpstreamTool

    rows = McpUpstreamTool.objects.filter(state__in=options.state or _WAITING).select_related("connection")
    if options.connection is not None:
        _check_connection(options.connection)
        rows = rows.filter(connection__slug=options.connection)
    rows = rows.order_by("connection__slug", "kind", "upstream_name")
    if options.json:
        print("[" + ",\n".join(_json(row) for row in rows.iterator(chunk_size=200)) + "]")
        return 0
    has_any = False
    for row in rows.iterator(chunk_size=200):
        has_any = True
        name = json.dumps(row.upstream_name, ensure_ascii=True)[1:-1]  # it is the upstream's: no line of the terminal
        found = f"look closely: {sentence(row.warnings)}" if row.warnings else ""
        noted = row.refusal or found or "; ".join(json.dumps(each)[1:-1] for each in proposals.remarks_of(row))
        remark = f"\t{noted}" if noted else ""
        print(f"{row.pk}\t{row.connection.slug}\t{row.kind}\t{row.state}\t{name}\t{row.seen_digest[:12]}{remark}")
    if not has_any:
        print("There is no such offer.", file=sys.stderr)
    return 0


def _decide(options: argparse.Namespace) -> int:
    from tools_catalog.discovery import reconcile

    if bool(options.id) == (options.connection is not None):
        raise Stop(f"mcphub offer {options.verb}: name offers by their numbers, or one --connection.", status=2)
    rows = _rows(options.id) if options.id else _waiting_of(options.connection)
    if options.digest and len(rows) > 1:
        raise Stop(f"mcphub offer {options.verb}: --digest is of one offer; name one.", status=2)
    if not rows:
        print(_nothing_waits(options.connection), file=sys.stderr)
    refused = 0
    for row in rows:
        name = f"{row.connection.slug}: {json.dumps(row.upstream_name)[1:-1]}"
        if row.is_gone or (options.digest and not row.seen_digest.startswith(options.digest)):
            refused += 1
            print(f"{name} is another definition by now, or gone: `mcphub offer show {row.pk}`.", file=sys.stderr)
            continue
        if options.verb == "reject":
            row.change_reason = options.reason[:300]
            reconcile.reject(row, author=_AUTHOR)
            print(f"{name} is rejected.")
            continue
        try:
            reconcile.approve(row, author=_AUTHOR, reason=options.reason[:300] or "approved on the command line")
        except reconcile.ApprovalRefused as error:
            refused += 1
            print(f"{name} is not served: {error}", file=sys.stderr)
        else:
            print(f"{name} is served.")
    return 1 if refused else 0


def _check_connection(slug: str) -> None:
    from tools_catalog.models import McpConnection

    if not McpConnection.objects.filter(slug=slug).exists():
        raise Stop(f"mcphub offer: there is no connection {slug!r}; `mcphub connection list` names them.", status=2)


def _waiting_of(slug: str) -> list[McpUpstreamTool]:
    """Return the offers of a connection that wait for a decision, those that cannot be served among them."""
    from tools_catalog.models import McpUpstreamTool

    _check_connection(slug)
    found = McpUpstreamTool.objects.filter(connection__slug=slug, state__in=_WAITING).select_related("connection")
    return list(found.order_by("kind", "upstream_name"))


def _nothing_waits(slug: str) -> str:
    """Return why a connection has nothing to decide: it was never listed, or all is decided."""
    from tools_catalog.models import McpConnection

    row = McpConnection.objects.get(slug=slug)
    if not row.tools.exists():
        return (
            f"{slug} was never listed: `mcphub connection test --approve {slug}` connects to it and lists its offers."
        )
    return f"No offer of {slug} waits for a decision."


def _rows(ids: list[int]) -> list[McpUpstreamTool]:
    from tools_catalog.models import McpUpstreamTool

    found = McpUpstreamTool.objects.select_related("connection").in_bulk([pk for pk in ids if 0 < pk < 2**63])
    if missing := [pk for pk in ids if pk not in found]:
        raise Stop(f"mcphub offer: there is no offer {missing[0]}; `mcphub offer list` names them.", status=2)
    return [found[pk] for pk in dict.fromkeys(ids)]


def _json(row: McpUpstreamTool) -> str:
    from tools_catalog.rest.offers import OfferSerializer

    return json.dumps(OfferSerializer(row, context={"is_list": True}).data, indent=2, ensure_ascii=False)
