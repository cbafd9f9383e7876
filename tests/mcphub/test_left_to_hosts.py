"""A host project has OAuth clients, staff and a secret key of its own, and the hub in it leaves them alone."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from mcphub.console_access import keep_console
from tests.factories import ApiKeyFactory, GroupFactory, UserFactory
from tests.servers import ROOT


@pytest.fixture(params=[True, False], ids=["in a host", "on its own"])
def is_left(request: pytest.FixtureRequest, db: None, settings: Any) -> bool:
    settings.MCPHUB_EMBEDDED = request.param
    return bool(request.param)


def give_tokens(person: User, *, expires: Any) -> None:
    """Make a token and a code for the person, by a client that registered itself two days ago."""
    itself = Application.RegistrationSource.DCR
    client = Application.objects.create(name="desk", client_type="public", registration_source=itself)
    Application.objects.update(created=timezone.now() - timedelta(days=2))
    AccessToken.objects.create(user=person, application=client, token="a", expires=expires)
    Grant.objects.create(user=person, application=client, code="c", expires=expires)


def test_a_disabled_person_loses_keys_and_in_a_host_no_tokens(is_left: bool) -> None:
    ann = UserFactory()
    key = ApiKeyFactory(owner=ann)
    give_tokens(ann, expires=timezone.now() + timedelta(days=1))
    RefreshToken.objects.create(user=ann, application=Application.objects.get(), token="r")
    ann.is_active = False
    ann.save()
    key.refresh_from_db()
    assert key.revoked_at is not None
    left = RefreshToken.objects.filter(revoked=None), AccessToken.objects, Grant.objects
    assert [rows.exists() for rows in left] == [is_left] * 3


def test_the_sweep_leaves_clients_and_tokens_of_a_host(is_left: bool) -> None:
    give_tokens(UserFactory(), expires=timezone.now() - timedelta(days=1))
    runpy.run_module("mcphub.features.signin.sweeping")["sweep"]()  # a copy, which has not swept just now
    assert [rows.objects.exists() for rows in (AccessToken, Grant, Application)] == [is_left] * 3


@pytest.mark.parametrize("is_given", [True, False], ids=["given", "lost"])
def test_a_group_does_not_change_who_is_staff_of_a_host(is_left: bool, is_given: bool) -> None:
    group, person = GroupFactory(), UserFactory(is_staff=not is_given)
    group.permissions.add(Permission.objects.earliest("pk"))
    keep_console(person, given=[group] if is_given else [], lost=[] if is_given else [group])
    person.refresh_from_db()
    assert person.is_staff == (is_given is not is_left)


@pytest.mark.program
def test_a_host_that_sets_its_secret_key_later_gets_no_file_of_one(tmp_path: Path) -> None:
    code = f"from mcphub.embedding import add_hub; add_hub({{'BASE_DIR': {str(tmp_path)!r}}})"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MCPHUB_", "DJANGO_"))}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)
    made = {each.name for each in (tmp_path / "mcphub-data").iterdir()}
    assert "encryption_keys" in made
    assert "secret_key" not in made
