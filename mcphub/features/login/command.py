"""`mcphub second-factor forget`: a person without phone and recovery codes logs in without them, and adds new ones."""

from __future__ import annotations

import argparse

from mcphub.commands import rows
from mcphub.commands.person import KIND as PEOPLE
from mcphub.commands.stop import migrated_database, start_django


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="forget", required=True, title="verbs", dest="verb")
    forget = verbs.add_parser("forget", help="take away all second factors of a person")
    forget.add_argument("name", metavar="NAME", help="the person's name in the hub")
    forget.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")


def run(options: argparse.Namespace) -> int:
    start_django()
    from django.db import transaction

    from mcphub.features.login.factors import holding
    from mcphub.features.login.models import SecondFactor

    with migrated_database():
        (user,) = rows.named(PEOPLE, [options.name], by="second-factor forget")
        with transaction.atomic():
            factors = SecondFactor.objects.filter(user=user).select_related("user")
            count = holding.take_away_all(list(factors), options.reason)
    print(f"{options.name}: {count} taken away." if count else f"{options.name} has none.")
    return 0
