"""`make conformance`: MCP's official suite against a hub that this starts itself.

    python -m tests.conformance.run [--revision REVISION]... [--everything]

Per scenario one line of figures. The exit status is 0 only if each scenario of this stage has at least one
success and no failure, warning or skipped check. What belongs to later stages is named below with its reason,
and must leave the list when it passes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.clients import install
from tests.servers import Hub

LEGACY, MODERN = "2025-11-25", "2026-07-28"

_PLAIN_TOOLS = [
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
]

REQUIRED: dict[str, list[str]] = {
    LEGACY: [
        "server-initialize",
        "ping",
        *_PLAIN_TOOLS,
        "tools-call-with-logging",
        "logging-set-level",
        "server-session-lifecycle",
        "dns-rebinding-protection",
        "server-sse-multiple-streams",
        "json-schema-2020-12",
    ],
    MODERN: [
        "server-stateless",
        *_PLAIN_TOOLS,
        "caching",
        "http-header-validation",
        "http-custom-header-server-validation",
        "json-schema-2020-12",
        "dns-rebinding-protection",
        "server-sse-multiple-streams",
    ],
}

_NO_PROMPTS = "the hub has no prompts yet and does not advertise them"
_NO_RESOURCES = "the hub has no resources yet and does not advertise them"
LATER: dict[tuple[str, str], str] = {
    ("server-stateless", "sep-2575-server-sends-prompts-list-changed-on-subscription"): _NO_PROMPTS,
    ("caching", "sep-2549-prompts-list-caching-hints"): _NO_PROMPTS,
    ("caching", "sep-2549-resources-list-caching-hints"): _NO_RESOURCES,
    ("caching", "sep-2549-resources-templates-list-caching-hints"): _NO_RESOURCES,
    ("caching", "sep-2549-resources-read-caching-hints"): _NO_RESOURCES,
}
"""Checks inside required scenarios that wait for later stages."""

_TIMEOUT_SECONDS = 300
_UNMET = ("FAILURE", "WARNING", "SKIPPED")


@dataclass(slots=True)
class Scenario:
    name: str
    checks: list[dict[str, str]]

    @property
    def counts(self) -> Counter[str]:
        return Counter(check["status"] for check in self.checks)

    @property
    def passed(self) -> bool:
        """As strictly as the hub wants it; the suite itself counts failures only."""
        return self.counts["SUCCESS"] > 0 and not any(self.counts[status] for status in _UNMET)

    def problems(self) -> list[str]:
        """What keeps a required scenario from its end."""
        found = [] if self.counts["SUCCESS"] else ["no check succeeded"]
        for check in self.checks:
            reason = LATER.get((self.name, check["id"]))
            unmet = check["status"] in _UNMET
            if unmet and reason is None:
                found.append(f"{check['status']} {check['id']}: {check.get('errorMessage') or 'no message'}")
            elif check["status"] == "SUCCESS" and reason is not None:
                found.append(f"{check['id']} passes now: take it from LATER")
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Run MCP's conformance suite against this hub.")
    parser.add_argument("--revision", action="append", choices=list(REQUIRED), help="only this revision")
    parser.add_argument("--everything", action="store_true", help="require every scenario, not this stage's")
    options = parser.parse_args()
    folder = install.node()
    assert folder is not None
    complaints: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mcphub-conformance-") as work:
        flags = ["--allow-anonymous"]
        with Hub(Path(work) / "hub", flags=flags, packs=["conformance"]) as hub:
            for revision in options.revision or REQUIRED:
                results = run(folder, hub, revision, Path(work) / revision)
                complaints += report(revision, results, everything=options.everything)
            log = hub.log()
    if complaints:
        print(f"\nThe hub's log ends with:\n{log[-2000:]}", file=sys.stderr)
    for complaint in complaints:
        print(f"✗ {complaint}", file=sys.stderr)
    return 1 if complaints else 0


def run(folder: Path, hub: Hub, revision: str, results: Path) -> list[Scenario]:
    """Let the suite run its whole set for a revision, and read what it wrote."""
    subprocess.run(
        [
            str(folder / "node_modules/.bin/conformance"), "server", "--url", f"http://localhost:{hub.port}/mcp",
            "--requirements", revision, "-o", str(results),
        ],
        env=install.node_environment(folder), capture_output=True, timeout=_TIMEOUT_SECONDS,
    )  # fmt: skip
    scenarios = []
    for file in results.glob("server-*/checks.json"):
        # The folder is called server-<scenario>-2026-01-31T12-00-00-000Z.
        name = file.parent.name.removeprefix("server-").rsplit("-", 6)[0]
        scenarios.append(Scenario(name, json.loads(file.read_text())))
    return sorted(scenarios, key=lambda scenario: scenario.name)


def report(revision: str, scenarios: list[Scenario], *, everything: bool) -> list[str]:
    """Print the table; give what must not be."""
    required = {scenario.name for scenario in scenarios} if everything else set(REQUIRED[revision])
    complaints = [f"{revision} {name}: the suite did not run it" for name in sorted(required - _names(scenarios))]
    print(f"\n{revision:62}    ok  fail  warn  skip")
    for scenario in scenarios:
        counts = scenario.counts
        if scenario.name in required:
            problems = scenario.problems()
            complaints += [f"{revision} {scenario.name}: {problem}" for problem in problems]
            mark = "✗" if problems else "✓"
        else:
            mark = "+" if scenario.passed else "·"
        figures = "".join(f"{counts[status]:6}" for status in ("SUCCESS", *_UNMET))
        waiting = {LATER[key] for check in scenario.checks if (key := (scenario.name, check["id"])) in LATER}
        remark = f"   later: {'; '.join(sorted(waiting))}" if scenario.name in required and waiting else ""
        print(f"  {mark} {scenario.name:58}{figures}{remark}")
    met = sum(scenario.passed for scenario in scenarios)
    print(
        f"  ✓ {sum(s.name in required and not s.problems() for s in scenarios)} of {len(required)} required here; "
        f"of the whole set {met} of {len(scenarios)} pass (+), the rest (·) belongs to later stages"
    )
    return complaints


def _names(scenarios: list[Scenario]) -> set[str]:
    return {scenario.name for scenario in scenarios}


if __name__ == "__main__":
    sys.exit(main())
