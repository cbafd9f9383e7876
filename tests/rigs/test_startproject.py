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
BY_MAIL = """import uuid

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import Group, PermissionsMixin
from django.db import models


class Manager(BaseUserManager):
    def create_user(self, email, password=None, **more):
        made = self.model(email=email, **more)
        made.set_password(password)
        made.save()
        return made

    def create_superuser(self, email, password=None, **more):
        return self.create_user(email, password, is_staff=True, is_superuser=True, **more)


class Person(AbstractBaseUser, PermissionsMixin):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    email = models.EmailField(unique=True)
    is_staff = models.BooleanField(default=False)
    is_active = models.BooleanField(default=True)
    objects = Manager()
    USERNAME_FIELD = "email"

    def __str__(self):
        return None


class Colleague(Person):
    class Meta:
        proxy = True


class Team(Group):
    class Meta:
        proxy = True
"""
BY_PROXIES = """from people.models import Colleague, Team
from sessions_app.history.models import AuditEvent
from sessions_app.models import ApiKey

ann = Colleague.objects.get()
ann.groups.add(Team.objects.create(name="sales"))
ann.is_active = False
ann.save()
print(*AuditEvent.objects.order_by("pk").values_list("kind", "subject_model", "subject_label"))
print("keys left:", ApiKey.objects.filter(revoked_at=None).count())
"""
BLOCKED = "from django.contrib.auth import get_user_model as of; of().objects.update(is_active=False)"


def use_own_people(project: HostProject, models: str) -> None:
    """Add a user model of the project's own, as if it had been there before the hub."""
    (project.folder / "people" / "migrations").mkdir(parents=True)
    for file, text in (("__init__.py", ""), ("migrations/__init__.py", ""), ("models.py", models)):
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


@pytest.mark.parametrize("people", ["", PEOPLE, BY_MAIL], ids=["auth.User", "its own user model", "without user names"])
def test_a_new_project_passes_its_tests_and_answers_a_client(tmp_path: Path, people: str) -> None:
    folder = tmp_path / "shop"
    assert main(["startproject", "shop", str(folder)]) == 0
    project = HostProject(folder)
    if people:
        use_own_people(project, people)
    assert "no issues" in project.run("python manage.py check")
    assert "No changes detected" in project.run("python manage.py makemigrations --check --dry-run")
    tried = project.attempt("python manage.py test")
    assert tried.returncode == 0, tried.stderr
    assert "Ran 2 tests" in tried.stderr
    project.run("python manage.py migrate -v 0")
    ann = "ann@shop.example" if people == BY_MAIL else "ann"
    named = f"--email {ann}" if people == BY_MAIL else f"--username {ann} --email ann@shop.example"
    project.run(f"python manage.py createsuperuser --noinput {named}")
    project.key = project.run(f"python manage.py mcphub token create laptop --owner {ann}").splitlines()[-1]
    assert ann in project.run("python manage.py mcphub person list")
    with project.served():
        assert project.call("count_words", text="a b")["structuredContent"] == {"result": 2}
        made = project.call("note_create", text="Buy milk.")["structuredContent"]
        assert project.call("note_list")["structuredContent"]["results"] == [made]
        assert "No Note matches" in project.call("note_retrieve", id=made["id"] + 1)["content"][0]["text"]
        if people == BY_MAIL:
            events = project.run(f"python manage.py shell -v 0 -c '{BY_PROXIES}'")
            assert "('group.created', 'auth.group', 'sales')" in events
            assert events.count("('user.changed', 'people.person', 'ann@shop.example')") == 2  # a group, and disabled
            assert events.count("('user.ended', 'people.person', 'ann@shop.example')") == 1
            assert "keys left: 0" in events
        else:
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
