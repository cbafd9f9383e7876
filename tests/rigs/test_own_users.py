"""The hub in a project whose users are a model of its own, with UUIDs as keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.host_project import HostProject

pytestmark = pytest.mark.rig

MODEL = """import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models


class Visitor(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
"""
_SETTING = '\nAUTH_USER_MODEL = "shop.Visitor"\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> HostProject:
    made = HostProject(tmp_path_factory.mktemp("own users") / "project")
    made.follow(lambda: _own(made.folder))
    return made


def _own(folder: Path) -> None:
    (folder / "shop" / "models.py").write_text(MODEL)
    (folder / "shop" / "migrations").mkdir()
    (folder / "shop" / "migrations" / "__init__.py").touch()
    with (folder / "shop" / "settings.py").open("a") as settings:
        settings.write(_SETTING)


def test_groups_of_own_users_have_their_commands(project: HostProject) -> None:
    said = project.run(
        'mcphub() { python manage.py mcphub "$@"; }; mcphub group create staff; mcphub group add-person staff ann; '
        "mcphub group list; mcphub group show staff; mcphub group remove-person staff ann; mcphub group remove staff"
    )
    assert "ann is in staff now." in said
    assert "people: 1" in said
    assert "staff is removed." in said


def test_a_call_is_that_of_its_own_user(project: HostProject) -> None:
    with project.served():
        assert project.call("visitor_list")["structuredContent"]["results"][0]["username"] == "ann"
        assert project.call("count_people")["structuredContent"] == {"result": 1}
        with project.browser() as browser:
            assert "count_people" in browser.get("/admin/invocations/mcptoolinvocation/").text
    assert project.run("python manage.py mcphub doctor").splitlines()[-1] == "Nothing is wrong."
