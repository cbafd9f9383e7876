"""`make conformance`: MCP's official suite against a server on the official SDK, directly and through a hub.

    python -m tests.conformance.behind [--only RUN]...

The server is `tests.conformance.everything`; the hub has it as a connection with trust and no prefix. What the suite
finds well done directly must be well done through the hub. The server is there twice: with both eras, and with that
of the handshake alone, whose clients are then the only ones to compare.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import operations
from tests.clients import install
from tests.conformance.run import RUNS, WITHOUT_A_TEST, Scenario, listed, results
from tests.servers import ROOT, Hub, until
from tests.upstreams import connecting

HANDSHAKE = [run for run in RUNS if "2026" not in run]
AS_JSON = "the hub answers as JSON what needs no stream, so there is no stream to look at"
NOT_SEEN = {
    ("server-sse-multiple-streams", "server-sse-streams-functional"): AS_JSON,
    ("server-sse-polling", "server-sse-disconnect-resume"): AS_JSON,
    ("server-sse-polling", "server-sse-priming-event"): AS_JSON,
    ("server-sse-polling", "server-sse-retry-field"): AS_JSON,
}
"""Checks that the suite does not make through the hub, and why. It must not find them failed either."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare a server with the same server behind a hub.")
    parser.add_argument("--only", action="append", choices=list(RUNS), metavar="RUN", help=" | ".join(RUNS))
    only = parser.parse_args().only or list(RUNS)
    folder = install.node()
    assert folder is not None
    complaints: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mcphub-behind-") as work:
        for words, runs in (((), list(RUNS)), (("--handshake-only",), HANDSHAKE)):
            runs = [run for run in runs if run in only]
            if not runs:
                continue
            place = Path(work) / "-".join(["hub", *words])
            with everything(*words) as port, hub_before(port, place) as hub:
                for run in runs:
                    name = run.replace(" ", "-")
                    direct = results(folder, port, RUNS[run], place / f"direct-{name}")
                    through = results(folder, hub.port, RUNS[run], place / f"through-{name}")
                    complaints += compare(" ".join([run, *words]), direct, through, listed(folder, RUNS[run]))
    for complaint in complaints:
        print(f"✗ {complaint}", file=sys.stderr)
    return 1 if complaints else 0


@contextmanager
def everything(*words: str) -> Iterator[int]:
    """Run the server; give its port."""
    command = [sys.executable, "-m", "tests.conformance.everything.server", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline().removeprefix("ready "))
        finally:
            server.kill()


@contextmanager
def hub_before(port: int, folder: Path) -> Iterator[Hub]:
    """Run a hub that serves what the server has, under the same names."""
    with Hub(folder, flags=["--allow-anonymous"], environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}) as hub:
        row = {"slug": "every", "policy": "trust", "transport": "streamable-http", "enabled": False}
        row |= {"may_sample": True, "may_list_roots": True}
        hub.operate(connecting.connect, {**row, "url": f"http://127.0.0.1:{port}/mcp"})
        begun = {"prefix": "", "starts_eagerly": True, "enabled": True}
        hub.operate(operations.change, "tools_catalog.McpConnection", {"slug": "every"}, **begun)
        until(lambda: hub.operate(connecting.row, "every")["discovered"])
        # The suite wants it refused to clients without tasks. The hub could wait for it, so its operator has to say so.
        tool = {"name": "failing_job"}
        hub.operate(operations.change, "tools_catalog.McpToolDefinition", tool, task_support="required")
        hub.settle()
        yield hub


def compare(run: str, direct: list[Scenario], through: list[Scenario], expected: set[str]) -> list[str]:
    """Print the table; give what the hub does worse than the server alone."""
    before, behind = ({each.name: each for each in found} for found in (direct, through))
    complaints = [f"{run}, {name}: not run directly" for name in sorted(expected - before.keys())]
    print(f"\n{run:58}  direct  hub")
    for name, one in sorted(before.items()):
        other = behind.get(name, Scenario(name, []))
        worse = [f"{run}, {name}: {words}" for words in _worse(one, other)]
        complaints += worse
        skipped = name in WITHOUT_A_TEST
        mark = "✗" if worse else "–" if skipped else "✓"
        remark = "   the suite skips it for every server" if skipped else ""
        print(f"  {mark} {name:54}{one.counts['SUCCESS']:8}{other.counts['SUCCESS']:5}{remark}")
    checks = [sum(each.counts["SUCCESS"] for each in found) for found in (direct, through)]
    print(f"  {len(before)} scenarios, {checks[0]} checks directly, {checks[1]} through the hub")
    return complaints


def _worse(direct: Scenario, through: Scenario) -> Iterator[str]:
    if not direct.counts["SUCCESS"] and direct.name not in WITHOUT_A_TEST:
        said = "; ".join(f"{check['id']} {check['status']} {check.get('errorMessage', '')}" for check in direct.checks)
        yield f"nothing succeeded directly, so there is nothing to compare; the suite said: {said or 'nothing'}"
    for status in ("FAILURE", "WARNING", "SKIPPED"):
        had = Counter(check["id"] for check in direct.checks if check["status"] == status)
        for check in through.checks:
            if check["status"] == status and not had[check["id"]]:
                yield f"{status} {check['id']}: {check.get('errorMessage') or 'no message'}"
    seen = {check["id"] for check in through.checks if check["status"] != "INFO"}
    for name in sorted({check["id"] for check in direct.checks if check["status"] == "SUCCESS"} - seen):
        if (direct.name, name) not in NOT_SEEN:
            yield f"{name} succeeded directly, and was not looked at through the hub"


if __name__ == "__main__":
    sys.exit(main())
