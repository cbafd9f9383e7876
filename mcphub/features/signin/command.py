"""`mcphub service`: services that come in with client credentials, each with an account and a client of its own."""

from __future__ import annotations

import argparse
import sys

from mcphub.commands import rows
from mcphub.commands.person import KIND as PEOPLE
from mcphub.commands.stop import Stop, migrated_database, start_django

_SCOPES = ("tools:list", "tools:call", "chat")


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="create", required=True, title="verbs", dest="verb")
    create = verbs.add_parser("create", help="make a service, and print its client's id and secret on the last lines")
    create.add_argument("name", metavar="NAME", help="the name of its account")
    create.add_argument("--endpoint", default="/mcp", metavar="PATH", help="what it may use (/mcp)")
    create.add_argument(
        "--scope",
        action="append",
        choices=_SCOPES,
        metavar="SCOPE",
        help=f"what it may do, repeated for more: {', '.join(_SCOPES)} (default: tools:call)",
    )
    create.add_argument(
        "--group", action="append", default=[], metavar="GROUP", help="whose tools it sees, repeated for more"
    )
    create.add_argument(
        "--accountable",
        metavar="PERSON",
        help="user name of who answers for the service, and so approves none of its calls",
    )


def run(options: argparse.Namespace) -> int:
    start_django()
    from django.contrib.auth.models import Group

    from mcphub.features.signin.grants import services
    from sessions_app import endpoints

    if endpoints.of_path(options.endpoint) != options.endpoint:
        raise Stop(f"mcphub service: {options.endpoint} is no endpoint of the hub; /mcp is one.", status=2)
    with migrated_database():
        groups = list(Group.objects.filter(name__in=options.group))
        if missing := set(options.group) - {group.name for group in groups}:
            raise Stop(f"mcphub service: there is no group {min(missing)}.", status=2)
        named = [options.accountable] if options.accountable else []
        person = next(iter(rows.named(PEOPLE, named, status=2, by="service")), None)
        scopes = options.scope or ["tools:call"]
        made = services.make(options.name, options.endpoint, scopes, groups, answers=person)
    print("The secret is shown only now.", file=sys.stderr)
    print(f"client_id      {made.client.client_id}\nclient_secret  {made.secret}")
    return 0
