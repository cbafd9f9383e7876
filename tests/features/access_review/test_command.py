"""`mcphub access-review` as an operator types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.contrib.auth.models import Permission, User

from sessions_app.models import ApiKey
from tests import template
from tests.in_process import inside, run

pytestmark = pytest.mark.program
DUE = ["--due", "2099-01-01"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    template.copy_to(folder / "hub.sqlite3")
    with inside(folder):
        rita = User.objects.create_user("rita", is_staff=True)
        rita.user_permissions.add(Permission.objects.get(codename="decide_accessreview"))
        User.objects.create_user("bob")
        ApiKey.issue("robot", scopes=["tools:call"])
    return folder


def test_a_review_is_started_shown_decided_and_closed(home: Path) -> None:
    made = json.loads(run(home, "access-review", "start", "Q3", *DUE, "--reviewer", "rita", "--json").stdout)
    number = str(made["id"])
    assert (made["state"], made["reviewers"], made["undecided"]) == ("open", ["rita"], made["grants"])
    shown = json.loads(run(home, "access-review", "show", "Q3", "--undecided", "--json").stdout)
    assert str(shown["id"]) == number
    (key,) = [row for row in shown["rows"] if row["kind"] == "key"]
    (bob,) = [row for row in shown["rows"] if row["label"] == "bob"]
    needed = run(home, "access-review", "decide", number, "take-away", str(key["id"]))
    assert (needed.returncode, "--reason: Enter the reason" in needed.stderr) == (2, True)
    taken = run(home, "access-review", "decide", number, "take-away", str(key["id"]), "--reason", "unused")
    assert (taken.returncode, "take_away" in taken.stdout) == (0, True), taken.stderr
    assert run(home, "access-review", "decide", number, "keep", str(bob["id"])).returncode == 0
    with inside(home):
        assert ApiKey.objects.get(name="robot").revoked_at is not None
    assert "2 of 3 decided" in run(home, "access-review", "list").stdout
    assert "bob" not in run(home, "access-review", "show", number, "--undecided").stdout.partition("closed_at")[2]
    assert "closed" in run(home, "access-review", "close", number).stdout
    assert "closed already" in run(home, "access-review", "close", number).stderr


@pytest.mark.parametrize(
    ("words", "status", "answer"),
    [
        (["show", "nothing"], 1, "there is no access review 'nothing'"),
        (["start", "Q", *DUE, "--reviewer", "nobody"], 1, "there is no person 'nobody'"),
        (["start", "Q", *DUE, "--reviewer", "bob"], 2, "bob can't decide about access"),
        (["start", "Q", *DUE, "--reviewer", "rita", "--group", "none"], 1, "there is no group 'none'"),
        (["start", "Q", *DUE, "--reviewer", "rita", "--tools", "no.*"], 2, "No tool has such a name"),
        (["start", "Q", "--due", "2020-01-01", "--reviewer", "rita"], 2, "Enter a time in the future"),
        (["start", "Q", "--due", "soon", "--reviewer", "rita"], 2, "'soon' is not a time such as"),
    ],
)
def test_what_cannot_be_done_is_named(home: Path, words: list[str], status: int, answer: str) -> None:
    done = run(home, "access-review", *words)
    assert done.returncode == status
    assert answer in done.stderr
