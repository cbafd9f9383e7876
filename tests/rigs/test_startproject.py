"""The project that `mcphub startproject` writes passes its own tests, and answers a client."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mcphub.cli import main
from tests.host_project import HostProject
from tests.servers import POSTGRES
from tests.waiting import until

pytestmark = pytest.mark.rig


PEOPLE = """from django.contrib.auth.models import AbstractUser


class Person(AbstractUser):
    class Meta:
        db_table = "staff"
"""
BLOCKED = (
    "from django.contrib.auth import get_user_model as of; of().objects.filter(username='ann').update(is_active=False)"
)


def use_own_people(project: HostProject) -> None:
    """Add a user model of the project's own, as if it had been there before the hub."""
    (project.folder / "people" / "migrations").mkdir(parents=True)
    for file, text in (("__init__.py", ""), ("migrations/__init__.py", ""), ("models.py", PEOPLE)):
        (project.folder / "people" / file).write_text(text)
    settings = project.folder / "shop" / "settings.py"
    text = settings.read_text().replace('    "notes",', '    "notes",\n    "people",')
    settings.write_text(text.replace("MCPHUB =", 'AUTH_USER_MODEL = "people.Person"\nMCPHUB ='))
    project.run("python manage.py makemigrations people")


FLUSHED = """from django.contrib.auth import get_user_model
from django.test import TransactionTestCase

from invocations.models import McpToolInvocation
from mcphub.testing import Client


class Calls(TransactionTestCase):
    def call(self):
        assert not McpToolInvocation.objects.exists()
        ann = get_user_model().objects.create_user("ann")
        assert Client(ann).call("count_words", text="a b").data == {"result": 2}

    test_one = test_another = call
"""


@pytest.mark.parametrize("has_own_people", [False, True], ids=["auth.User", "its own user model"])
def test_a_new_project_passes_its_tests_and_answers_a_client(tmp_path: Path, has_own_people: bool) -> None:
    folder = tmp_path / "shop"
    assert main(["startproject", "shop", str(folder)]) == 0
    project = HostProject(folder)
    if has_own_people:
        use_own_people(project)
    assert "no issues" in project.run("python manage.py check")
    assert "No changes detected" in project.run("python manage.py makemigrations --check --dry-run")
    tried = project.attempt("python manage.py test")
    assert tried.returncode == 0, tried.stderr
    assert "Ran 2 tests" in tried.stderr
    project.run("python manage.py migrate -v 0")
    project.run("python manage.py createsuperuser --noinput --username ann --email ann@shop.example")
    project.key = project.run("python manage.py mcphub token create laptop --owner ann").splitlines()[-1]
    with project.served():
        assert project.call("count_words", text="a b")["structuredContent"] == {"result": 2}
        made = project.call("note_create", text="Buy milk.")["structuredContent"]
        assert project.call("note_list")["structuredContent"]["results"] == [made]
        assert "No Note matches" in project.call("note_retrieve", id=made["id"] + 1)["content"][0]["text"]
        project.run(f'python manage.py shell -v 0 -c "{BLOCKED}"')
        asyncio.run(until(lambda: "error" in project.ask("tools/list")))
        assert project.ask("tools/list")["error"]["data"]["errorCode"] == "unauthorized"


@pytest.mark.parametrize("server", ["", f"{POSTGRES}/mcphub_flushed_{os.getpid()}"], ids=["sqlite", "postgresql"])
def test_tables_of_records_are_emptied_after_a_test_that_commits(tmp_path: Path, server: str) -> None:
    """Django flushes the test database then; the rule that records never change must not fail tests of a host."""
    folder = tmp_path / "shop"
    assert main(["startproject", "shop", str(folder)]) == 0
    (folder / "notes" / "tests.py").write_text(FLUSHED)
    project = HostProject(folder)
    if server:
        project.environment["DATABASE_URL"] = server
    tried = project.attempt("python manage.py test")
    assert tried.returncode == 0, tried.stderr
    assert "Ran 2 tests" in tried.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [("my-shop", "no name of a Python package"), ("json", "module json already"), ("notes", "module notes already")],
)
def test_a_name_that_makes_no_project_is_refused(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["startproject", name, str(tmp_path / "new")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_files_that_are_there_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README").write_text("mine")
    assert main(["startproject", "shop", str(tmp_path)]) == 1
    assert "has files already" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["README"]
