"""`mcphub account`: accounts that the hub has at upstreams and APIs. Connecting one needs a browser."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from tools_catalog.models import UpstreamAccount


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|disconnect", required=True, title="verbs", dest="verb")
    listed = verbs.add_parser("list", help="name the accounts, with where and whose each is and how it stands")
    listed.add_argument("--json", action="store_true", help="as JSON")
    end = verbs.add_parser("disconnect", help="forget the tokens of an account, and take them back at the issuer")
    end.add_argument("number", metavar="NUMBER", type=int, help="of the account, as `list` gives it")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        return _list(options.json) if options.verb == "list" else _disconnect(options.number)


def _list(as_json: bool) -> int:
    from tools_catalog.models import UpstreamAccount

    rows = list(UpstreamAccount.objects.select_related("connection", "service", "registration").order_by("pk"))
    if as_json:
        print(json.dumps([_told(row) for row in rows], indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        told = _told(row)
        names = f"{told['of']} {told['name']}\t{told['principal'] or 'for all'}\t{told['account_name'] or '-'}"
        print(f"{row.pk}\t{row.state}\t{names}\t{told['failure']}".rstrip())
    if not rows:
        print("There is no account. People connect accounts in a browser, on the page of the connection or service.")
    return 0


def _disconnect(number: int) -> int:
    from asgiref.sync import async_to_sync

    from sessions_app.history.events import Actor
    from tools_catalog.accounts import signing_in
    from tools_catalog.models import UpstreamAccount

    row = UpstreamAccount.objects.select_related("connection", "service", "registration").filter(pk=number).first()
    if row is None:
        raise Stop(f"mcphub account: there is no account {number}. `mcphub account list` names them.", status=2)
    said = async_to_sync(signing_in.disconnect)(row, Actor("command", "mcphub account"))
    print(f"The account {number} is disconnected{'.' if not said else f' here. {said}'}")
    return 0


def _told(row: UpstreamAccount) -> dict[str, object]:
    return {
        "id": row.pk,
        "of": row.place.of,
        "name": row.place.slug,
        "principal": row.principal,
        "state": row.state,
        "account_name": row.account_name,
        "issuer": row.registration.issuer if row.registration is not None else "",
        "scopes": row.scopes,
        "expires_at": row.expires_at.isoformat() if row.expires_at is not None else None,
        "failure": row.failure,
    }
