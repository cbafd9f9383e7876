"""Attacks of an insider, a hostile upstream and a flood on a running hub, each with what it saw.

    python -m tests.rigs.attacks [--database postgresql --workers 2] [--only 4 9]

A line of each begins with `held` or `NOT HELD`. Exit status 0 where all held except those that docs/secure/security.md
lists as open (`OPEN`). What is tried has the numbers of that page; an attack that could not be tried did not hold, and
one that is open and holds is a failure too, so that page and list stay true.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.rigs.attacks import deciders, floods, insiders, records, teams, upstreams
from tests.rigs.attacks.target import Attack, NotHeld, Target
from tests.servers import postgres_database

OPEN: set[str] = set()
"""Attacks against which nothing stands yet."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], metavar="NUMBER", help="numbers such as 4, or 4b")
    options = parser.parse_args()
    attacks = [
        *insiders.ATTACKS,
        *records.ATTACKS,
        *upstreams.ATTACKS,
        *floods.ATTACKS,
        *teams.ATTACKS,
        *deciders.ATTACKS,
    ]
    chosen = [each for each in attacks if not options.only or each.is_one_of(options.only)]
    lost, wrong = 0, 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-attacks-")))
        address = stack.enter_context(postgres_database()) if options.database == "postgresql" else ""
        target = stack.enter_context(Target(folder, address, options.workers))
        for attack in sorted(chosen, key=Attack.order):
            held = tried(attack, target)
            lost += not held
            wrong += held == (attack.number in OPEN)
    print(f"{len(chosen) - lost} of {len(chosen)} attacks held ({options.database}, {options.workers} workers)")
    return 1 if wrong else 0


def tried(attack: Attack, target: Target) -> bool:
    began = time.monotonic()
    try:
        saw, held = attack.run(target), True
    except NotHeld as breach:
        saw, held = str(breach), False
    except Exception:
        saw, held = f"could not be tried: {traceback.format_exc(limit=-2)}", False
    seconds = time.monotonic() - began
    print(f"{'held    ' if held else 'NOT HELD'} {attack.number:3} {attack.name}: {saw} ({seconds:.1f} s)", flush=True)
    return held


if __name__ == "__main__":
    sys.exit(main())
