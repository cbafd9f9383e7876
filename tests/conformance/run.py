"""`make conformance`: MCP's official suite against a hub that this starts itself.

    python -m tests.conformance.run [--only RUN]... [--prefix PATH]

Seven runs of the suite: its two frozen sets of requirements, everything that it has for three revisions, and the
scenarios of the skills extension, of skills of the hub and of those of an upstream. With a prefix, the hub is mounted
there in a Django project of somebody else, which has no skills: five runs. The exit status is 0 only if each scenario
that the suite lists was run, with at least one success and no failure, warning or skipped check.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import operations
from tests.clients import install
from tests.features.skills import operations as skills
from tests.host_project import HostProject
from tests.servers import FIXTURES, Hub, until
from tests.upstreams.conftest import Operator, Peer
from tests.waiting import PATIENCE_SECONDS

RUNS: dict[str, list[str]] = {
    "required 2025-11-25": ["--requirements", "2025-11-25"],
    "required 2026-07-28": ["--requirements", "2026-07-28"],
    "all 2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
    "all 2025-11-25": ["--suite", "all", "--spec-version", "2025-11-25"],
    "all 2026-07-28": ["--suite", "all", "--spec-version", "2026-07-28"],
}
SKILLS = "extension skills"
"""The run of the scenarios of the skills extension, which no set of the suite has."""
RELAYED = "extension skills relayed"
"""The same, of skills of an upstream alone."""
OF_SKILLS = ("sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest")
TASKS = "required 2026-07-28"
"""The run that includes the scenarios of the tasks extension."""

WITHOUT_A_TEST = {"tasks-status-notifications"}
"""The suite skips these for every server, whatever its options, in each of its versions that has them (0.2.0-alpha.7 to
alpha.12: the scenario's body is one skipped check). What it describes is shown by
`tests/wire/test_tasks.py::test_a_subscription_tells_of_its_tasks`. It is complained of once the suite tests it."""

_BUNDLE = Path(__file__).parent / "fixtures" / "bundle.json"
_TIMEOUT_SECONDS = 1200
"""Of a run of the suite, which is some dozens of scenarios."""
OF_A_SCENARIO = ("--timeout", str(PATIENCE_SECONDS * 1000))
"""The suite's own bound is what an idle machine needs."""
_FIRST_TOOL = """

@tool
def about() -> str:
    \"\"\"Return the name of the shop.\"\"\"
    return "shop"
"""
"""Of a host project: the suite calls the first tool of the list, which must be no task."""
_UNMET = ("FAILURE", "WARNING", "SKIPPED")


@dataclass(slots=True)
class Scenario:
    name: str
    checks: list[dict[str, str]]

    @property
    def counts(self) -> Counter[str]:
        return Counter(check["status"] for check in self.checks)

    def problems(self) -> list[str]:
        if self.name in WITHOUT_A_TEST:
            return [] if set(self.counts) <= {"SKIPPED", "INFO"} else ["the suite tests it now: judge it"]
        found = [] if self.counts["SUCCESS"] else ["no check succeeded"]
        return found + [
            f"{check['status']} {check['id']}: {check.get('errorMessage') or 'no message'}"
            for check in self.checks
            if check["status"] in _UNMET
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run MCP's conformance suite against this hub.")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*RUNS, SKILLS, RELAYED],
        metavar="RUN",
        help=" | ".join([*RUNS, SKILLS, RELAYED]),
    )
    parser.add_argument("--prefix", default="", metavar="PATH", help="mount it in a host project, such as at /x/y")
    options = parser.parse_args()
    folder = install.node()
    assert folder is not None
    if options.prefix:
        return _mounted(folder, options.prefix, options.only or list(RUNS))
    complaints: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="mcphub-conformance-") as work,
        Hub(
            Path(work) / "hub",
            flags=["--allow-anonymous"],
            packs=[FIXTURES],
            environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1"},
        ) as hub,
    ):
        for run in options.only or [*RUNS, SKILLS, RELAYED]:
            out = Path(work) / run.replace(" ", "-")
            if run in (SKILLS, RELAYED):
                with own_skills(hub) if run == SKILLS else relayed_skills(hub, Path(work) / "there"):
                    complaints += report(run, of_skills(folder, hub, out), set(OF_SKILLS))
                continue
            scenarios = results(folder, hub.port, RUNS[run], out)
            complaints += report(run, scenarios, listed(folder, RUNS[run]))
        log = hub.log()
    return _ended(complaints, log)


def _mounted(folder: Path, prefix: str, runs: list[str]) -> int:
    """Run the suite against a hub within a host project."""
    complaints: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mcphub-conformance-") as work:
        project = HostProject(Path(work) / "project", prefix)
        project.environment |= {"MCPHUB_ALLOW_ANONYMOUS": "1", "MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
        project.follow()
        with (project.folder / "shop" / "settings.py").open("a") as settings:
            settings.write(f'INSTALLED_APPS += ["{FIXTURES}"]\n')
        with (project.folder / "shop" / "tools.py").open("a") as tools:
            tools.write(_FIRST_TOOL)
        project.run(f"python manage.py mcphub catalog load {_BUNDLE}")
        with project.served():
            for run in runs:
                out = Path(work) / run.replace(" ", "-")
                scenarios = results(folder, project.port, RUNS[run], out, prefix)
                complaints += report(run, scenarios, listed(folder, RUNS[run]))
        log = (project.folder / "server.log").read_text()
    return _ended(complaints, log)


def _ended(complaints: list[str], log: str) -> int:
    """Print what must not be; return the exit status."""
    if complaints:
        print(f"\nThe hub's log ends with:\n{log[-2000:]}", file=sys.stderr)
    for complaint in complaints:
        print(f"✗ {complaint}", file=sys.stderr)
    return 1 if complaints else 0


def listed(folder: Path, which: list[str]) -> set[str]:
    """Ask the suite which scenarios for servers a run has."""
    flags = which if "--requirements" in which else ["--server", *which[2:]]
    told = _suite(folder, "list", *flags).stdout.partition("Client scenarios")[0]
    return set(re.findall(r"^  - (\S+)", told, re.MULTILINE))


def results(folder: Path, port: int, which: list[str], out: Path, prefix: str = "") -> list[Scenario]:
    """Let the suite run against a server on this machine, and read what it wrote."""
    _suite(folder, "server", "--url", f"http://localhost:{port}{prefix}/mcp", *which, *OF_A_SCENARIO, "-o", str(out))
    scenarios = []
    for file in out.glob("server-*/checks.json"):
        # The folder is called server-<scenario>-2026-01-31T12-00-00-000Z.
        name = file.parent.name.removeprefix("server-").rsplit("-", 6)[0]
        scenarios.append(Scenario(name, json.loads(file.read_text())))
    return sorted(scenarios, key=lambda scenario: scenario.name)


@contextmanager
def own_skills(hub: Hub) -> Iterator[None]:
    """Add skills to the hub, one within another."""
    hub.operate(skills.add, "acme/refunds", skills.FILES, ["partial"])
    hub.operate(skills.add, "greeting", {"SKILL.md": skills.ENTRY.format(name="greeting")})
    hub.settle()
    yield
    for path in ("acme/refunds", "greeting"):
        hub.operate(skills.remove, path)
    hub.settle()


@contextmanager
def relayed_skills(hub: Hub, there: Path) -> Iterator[None]:
    """Connect an upstream with the same skills."""
    # The suite reads the first skill's directory, and wants another one in it.
    files = {f"acme/refunds/{path}": text for path, text in {**skills.FILES, "partial/more/x.txt": "x"}.items()}
    for path, text in {**files, "greeting/SKILL.md": skills.ENTRY.format(name="greeting")}.items():
        (there / path).parent.mkdir(parents=True, exist_ok=True)
        (there / path).write_bytes(text.encode())
    with Peer("skilled.py", str(there)) as peer:
        Operator(hub).connect("shelf", url=peer.url, policy="trust")
        until(lambda: hub.operate(operations.count, "skills.Skill") == 3)
        hub.settle()
        yield


def of_skills(folder: Path, hub: Hub, out: Path) -> list[Scenario]:
    """Return the results of the suite's scenarios."""
    found = []
    for name in OF_SKILLS:
        found += results(folder, hub.port, ["--scenario", name, "--spec-version", "2026-07-28", "--force"], out / name)
    return found


def report(run: str, scenarios: list[Scenario], expected: set[str]) -> list[str]:
    """Print the table; give what must not be."""
    names = {scenario.name for scenario in scenarios}
    complaints = [f"{run}, {name}: the suite did not run it" for name in sorted(expected - names)]
    if not expected:
        complaints.append(f"{run}: the suite lists no scenario")
    if run == TASKS and len([name for name in names if name.startswith("tasks-")]) < 10:
        complaints.append(f"{run}: the ten scenarios of the tasks extension did not run")
    print(f"\n{run:58}    ok  fail  warn  skip")
    for scenario in scenarios:
        problems = scenario.problems()
        complaints += [f"{run}, {scenario.name}: {problem}" for problem in problems]
        figures = "".join(f"{scenario.counts[status]:6}" for status in ("SUCCESS", *_UNMET))
        untested = scenario.name in WITHOUT_A_TEST
        mark = "✗" if problems else "–" if untested else "✓"
        remark = "   the suite skips it for every server" if untested else ""
        print(f"  {mark} {scenario.name:54}{figures}{remark}")
    met = sum(not scenario.problems() and scenario.name not in WITHOUT_A_TEST for scenario in scenarios)
    checks = sum(scenario.counts["SUCCESS"] for scenario in scenarios)
    print(f"  {met} of {len(scenarios)} scenarios, {checks} checks")
    return complaints


def _suite(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(folder / "node_modules/.bin/conformance"), *words],
        env=install.node_environment(folder),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
    )


if __name__ == "__main__":
    sys.exit(main())
