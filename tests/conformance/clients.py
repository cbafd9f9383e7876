"""The suite's scenarios for clients, against the hub's upstream side; those about OAuth with its accounts.

    python -m tests.conformance.clients [WORD]

With a word only those run that hold it in their name. The exit status is 0 only if each was run, with at least one
success, no failure and no warning.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.clients import install
from tests.conformance.run import OF_A_SCENARIO, Scenario
from tests.servers import ROOT
from tests.waiting import PATIENCE_SECONDS

REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
ACCOUNTS = "auth/"
"""What the names of scenarios about OAuth begin with; of 2025-03-26 there are no others."""
EXTENSION = "extension"
_LINE = re.compile(r"^  - (\S+) \[([^\]]+)\]", re.MULTILINE)
_SEEN_BY_OTHERS = {"http-standard-headers": "Client did not send a"}
"""What a scenario skips of a client that has no reason to send it, such as a handshake."""


def main() -> int:
    word = "".join(sys.argv[1:2])
    folder = install.node()
    assert folder is not None
    program = str(folder / "node_modules/.bin/conformance")
    environment = {**install.node_environment(folder), "PYTHONPATH": str(ROOT)}
    told = subprocess.run([program, "list"], env=environment, capture_output=True, text=True, check=True).stdout
    listed = _LINE.findall(told.partition("Client scenarios")[2].partition("Authorization server")[0])
    runs = [
        (name, revision)
        for name, where in listed
        for revision in where.split(",")
        if revision in _revisions_of(name) and word in name
    ]
    complaints = [] if word or len(runs) >= 61 else [f"the suite lists only {len(runs)} scenarios for clients"]
    with tempfile.TemporaryDirectory(prefix="mcphub-clients-") as work:
        environment["MCPHUB_DATA_DIR"] = os.path.join(work, "data")
        for name, revision in runs:
            out = Path(work) / f"{name.replace('/', '-')}-{revision}"
            complaints += _run(program, environment, name, revision, out)
    for complaint in complaints:
        print(f"✗ {complaint}", file=sys.stderr)
    return 1 if complaints else 0


def _revisions_of(name: str) -> tuple[str, ...]:
    return ("2025-03-26", *REVISIONS, EXTENSION) if name.startswith(ACCOUNTS) else REVISIONS


def _run(program: str, environment: dict[str, str], name: str, revision: str, out: Path) -> list[str]:
    client = "signing" if name.startswith(ACCOUNTS) else "upstream"
    command = f"{sys.executable} -m tests.conformance.{client}"
    of_revision = [] if revision == EXTENSION else ["--spec-version", revision]
    done = subprocess.run(
        [program, "client", "--command", command, "--scenario", name, *of_revision, *OF_A_SCENARIO, "-o", str(out)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
    )
    found = list(out.rglob("checks.json"))
    if len(found) != 1:
        return [f"{name} {revision}: the suite wrote no result: {done.stdout[-500:]}{done.stderr[-500:]}"]
    checks = json.loads(found[0].read_text())
    excused = _SEEN_BY_OTHERS.get(name)
    scenario = Scenario(
        name,
        [
            check
            for check in checks
            if not (check["status"] == "SKIPPED" and excused and str(check.get("errorMessage")).startswith(excused))
            and not (check["status"] == "SKIPPED" and "applies from" in str(check.get("errorMessage")))
        ],
    )
    problems = scenario.problems()
    print(f"  {'✗' if problems else '✓'} {name + ' ' + revision:54}{scenario.counts['SUCCESS']:6}")
    if problems:
        print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
    return [f"{name} {revision}: {problem}" for problem in problems]


if __name__ == "__main__":
    sys.exit(main())
