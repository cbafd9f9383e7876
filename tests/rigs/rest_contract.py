"""Schemathesis over the whole REST schema, in all its phases and with all its checks, against a hub that runs.

    python -m tests.rigs.rest_contract [--examples 100] [--workers 1] [--seed N] [--include REGEX]

The hub has tools, a provider that answers, calls of every kind, and a key of every scope. One address is left out: the
live stream, which has no end; tests/wire/test_audit_streams.py has it. Exit status 0, or that of Schemathesis.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import operations
from tests.features.chat.conftest import ENVIRONMENT, KEYS, TOOLBOX, set_up
from tests.features.chat.running import ScriptedProvider
from tests.servers import ROOT, Hub
from tests.wire.speech import Speaker

_ENDLESS = "/api/invocations/stream/"


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="rest-contract-") as name:
        folder = Path(name)
        with (
            ScriptedProvider(KEYS["openai"]) as provider,
            Hub(folder, packs=["starter"], bundle=TOOLBOX, environment=ENVIRONMENT) as hub,
        ):
            key = hub.operate(operations.issue_key, "contract", calls_per_minute=None)
            set_up(hub, {"openai": provider})  # waits until the hub knows a key that is made after ours
            _seed(hub, key)
            return _schemathesis(hub, key, options)


def _seed(hub: Hub, key: str) -> None:
    """Make calls of every kind: good, refused, repeated, failed, in and out of sessions."""
    with Speaker(hub.url, key) as speaker:
        session = speaker.open_session()
        for number in range(3):
            speaker.call(session, "echo", {"text": "a"}, id=number % 2)
        speaker.call(session, "add", {"a": "not a number"})
        speaker.call(session, "nowhere", {})
        speaker.modern_call("echo", {"text": "b"})


def _schemathesis(hub: Hub, key: str, options: argparse.Namespace) -> int:
    words = [
        str(Path(sys.executable).with_name("schemathesis")),
        "--config-file",
        str(Path(__file__).with_name("schemathesis.toml")),
        "run",
        f"{hub.url}/api/schema",
        "-H",
        f"Authorization: Bearer {key}",
        "--phases",
        "examples,coverage,fuzzing,stateful",
        "--checks",
        "all",
        "--mode",
        "all",
        "--exclude-path",
        _ENDLESS,
        "--max-examples",
        str(options.examples),
        "--workers",
        str(options.workers),
        "--seed",
        str(options.seed),
        "--generation-database",
        "none",
        "--continue-on-failure",
        "--no-color",
        "--request-timeout",
        "120",
        "--wait-for-schema",
        "120",
    ]
    if options.include:
        words += ["--include-path-regex", options.include]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.rigs.rest_hooks", "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, cwd=hub.folder, env=environment, check=False).returncode


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100, help="for each operation and phase")
    # Threads of Schemathesis may stumble over each other in Python 3.11 ("AST constructor recursion depth mismatch").
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--include", default="", help="a regular expression: these addresses only")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
