"""`mcphub profile`: launch profiles, the commands that the hub may run as children."""

from __future__ import annotations

import argparse
import json
import shlex
import sys

from mcphub.commands.stop import migrated_database, start_django


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list", required=True, title="verbs", dest="verb")
    listed = verbs.add_parser("list", help="name the profiles, and what each runs")
    listed.add_argument("--json", action="store_true", help="as JSON, as /api/launch-profiles/ gives it")


def run(options: argparse.Namespace) -> int:
    start_django()
    from tools_catalog.models import LaunchProfile
    from tools_catalog.rest.launch import LaunchProfileSerializer

    with migrated_database():
        rows = list(LaunchProfile.objects.order_by("name"))
    if options.json:
        print(json.dumps([LaunchProfileSerializer(row).data for row in rows], indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        held = "unconfined" if row.is_unconfined else "confined"
        print(f"{row.name}\t{held}\tnetwork {row.network}\t{shlex.join([row.command, *row.arguments])}")
    if not rows:
        print(
            "There is no launch profile. `mcphub connection add` makes one of a known server, `mcphub catalog load "
            "--with-programs FILE` takes those of a bundle.",
            file=sys.stderr,
        )
    return 0
