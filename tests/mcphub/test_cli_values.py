"""Values that a model rejects: each command names the flag that was given, and no column of a table."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from mcphub.commands.stop import fills, values_rejected
from tests import template
from tests.factories import McpConnectionFactory
from tests.in_process import inside, run


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("values")
    template.copy_to(folder / "hub.sqlite3")
    (folder / "value").write_text("a secret")
    with inside(folder):
        McpConnectionFactory(slug="nowhere", url="http://10.1.2.3/mcp", enabled=False)
    return folder


@pytest.mark.program
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("provider add x ftp://host --model m", "mcphub provider add: URL: "),
        ("provider add x https://host.example/v1 --model " + "m" * 300, "mcphub provider add: --model: "),
        ("alert add x quiet --minutes 7", "mcphub alert add: --minutes: "),
        ("alert add x errors", "mcphub alert add: --limit: "),
        ("workspace make Not-a-slug!", "mcphub workspace make: NAME: "),
        ("group create " + "g" * 200, "mcphub group create: NAME: "),
        ("secrets set git --origins ftp://x --file VALUE", "mcphub secrets set: --origins: "),
        ("audit policy --rows-days 20 --bodies-days 30", "mcphub audit policy: "),
        ("audit hold set " + "h" * 300 + " --reason r", "mcphub audit hold set: name: "),
        ("audit ship add x webhook http://host.example/", "mcphub audit ship add: ADDRESS: "),
        ("audit ship add x s3 https://host.example/b --access-id a", "mcphub audit ship add: --secret-file: "),
        ("writes stop --reason ''", "mcphub writes stop: --reason: "),
        ("connection enable nowhere", "mcphub connection enable: url: "),
    ],
)
def test_the_flag_of_a_rejected_value_is_named(home: Path, words: str, answer: str) -> None:
    ended = run(home, *shlex.split(words.replace("VALUE", str(home / "value"))))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(answer), ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ValidationError("Not now."), 1, "hub add: Not now."),
        (ValidationError({"__all__": "Choose one."}), 2, "hub add: Choose one."),
        (ValidationError({"name": ["Too long.", "Taken."]}), 2, "hub add: NAME: Too long. Taken."),
        (ValidationError({"limit": "Too low."}), 2, "hub add: --limit: Too low."),
        (ValidationError({"begins_at": "Late.", "ends_at": "Early."}), 2, "hub add: --within: Late. --within: Early."),
        (ValidationError({"owner": "Unknown."}), 2, "hub add: owner: Unknown."),
    ],
)
def test_a_flag_stands_before_each_reason(error: ValidationError, status: int, said: str) -> None:
    parser = argparse.ArgumentParser(prog="hub add")
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("-l", "--limit")
    fills(parser.add_argument("--within", nargs=2, metavar=("FROM", "TO")), "begins_at", "ends_at")
    stop = values_rejected(error, parser)
    assert (str(stop), stop.status) == (said, status)
