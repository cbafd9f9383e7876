"""`mcphub token create`: a new API key, printed once. A running hub knows it within 250 ms."""

from __future__ import annotations

import argparse
import re
import sys

from mcphub.commands.stop import Stop, database_or_stop, start_django

_SCOPES = ("tools:list", "tools:call", "audit:read", "chat", "catalog:write", "calls:replay")
_DEFAULT = _SCOPES[:2]


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="create", required=True, title="verbs")
    create = verbs.add_parser("create", help="make a key and print it on the last line")
    create.add_argument("name", metavar="NAME", help="who or what will hold the key")
    create.add_argument(
        "--scope",
        action="append",
        type=_scope,
        metavar="SCOPE",
        help=f"what the key may do, repeated for more: {', '.join(_SCOPES)} (default: {', '.join(_DEFAULT)})",
    )
    create.add_argument("--expires", type=_days, metavar="DAYS", help="days until it stops working (never)")


def run(options: argparse.Namespace) -> int:
    start_django()
    from datetime import timedelta

    from django.core.exceptions import ValidationError
    from django.utils import timezone

    from mcphub.process import first_run
    from sessions_app.models import ApiKey

    until = timezone.now() + timedelta(days=options.expires) if options.expires else None
    scopes = list(dict.fromkeys(options.scope or _DEFAULT))
    try:
        with database_or_stop():
            first_run.migrate()
            key, token = ApiKey.issue(options.name.strip(), scopes=scopes, expires_at=until)
    except ValidationError as error:
        reasons = [f"{field}: {' '.join(words)}" for field, words in error.message_dict.items()]
        raise Stop(f"mcphub token create: {' '.join(reasons)}", status=2) from error
    print(f"{key.name}: {', '.join(key.scopes)}, {_until(until)}. It is shown only now:", file=sys.stderr)
    print(token)
    return 0


def _until(moment: object) -> str:
    return f"until {moment:%Y-%m-%d %H:%M} UTC" if moment else "without an expiry date"


def _scope(text: str) -> str:
    if text not in _SCOPES:
        raise argparse.ArgumentTypeError(f"there is no scope {text!r}; the scopes are {', '.join(_SCOPES)}")
    return text


def _days(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days, 1 or more")
    return int(text)
