"""A hostile child tries to own its hub, which root runs, and which a user without rights runs: what it got.

    python -m tests.rigs.attacking_child

Each attack of `tests/upstreams/peers/attacker.py` says *held* with what the child saw, or what it got.
"""

from __future__ import annotations

import sys

from tests.upstreams.attacking import attacked, hostile_hub, users


def main() -> int:
    breaches = 0
    for user in users():
        with hostile_hub(user) as hub:
            found = attacked(hub, "attacker")["attacks"]
        got = {name: what for name, what in found.items() if not what.startswith("held")}
        breaches += len(got)
        print(f"{user}: {len(found) - len(got)} of {len(found)} attacks held")
        for name, what in got.items():
            print(f"✗ {user}: {name}: {what}", file=sys.stderr)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
