"""Rows that were made past the application are found by comparison with the history."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from mcphub.process import doctor
from sessions_app.history import comparing, events
from sessions_app.models import ApiKey
from tests.factories import LaunchProfileFactory, McpConnectionFactory, UserFactory
from tools_catalog.models import LaunchProfile

pytestmark = pytest.mark.django_db


def test_what_the_application_made_is_no_stranger() -> None:
    McpConnectionFactory()
    LaunchProfileFactory()
    UserFactory()
    ApiKey.objects.create(name="mine", prefix="mcp_abcd", secret_hash="0" * 64)
    assert comparing.unrecorded_rows() == []


def test_rows_that_no_event_tells_of_are_named() -> None:
    ApiKey.objects.bulk_create([ApiKey(name="stranger", prefix="mcp_abcd", secret_hash="0" * 64)])
    LaunchProfile.objects.bulk_create([LaunchProfile(name="stranger", command="sh")])
    get_user_model().objects.bulk_create([get_user_model()(username="stranger", is_superuser=True)])
    found = comparing.unrecorded_rows()
    assert sorted(row.split()[0] for row in found) == ["key", "launchprofile", "user"]
    (told,) = doctor._history()
    assert (told.level, found[0] in told.what) == ("wrong", True)


def test_a_row_that_takes_the_place_of_a_deleted_one_is_a_stranger() -> None:
    profile = LaunchProfileFactory()
    pk = profile.pk
    profile.delete()
    assert comparing.unrecorded_rows() == []
    LaunchProfile.objects.bulk_create([LaunchProfile(pk=pk, name="stranger", command="sh")])
    assert comparing.unrecorded_rows() == [f"launchprofile {pk}"]


def test_rows_whose_events_retention_removed_are_no_strangers() -> None:
    old = LaunchProfile.objects.bulk_create([LaunchProfile(name="old", command="sh")])[0]
    LaunchProfileFactory()
    assert comparing.unrecorded_rows() == [f"launchprofile {old.pk}"]
    events.record("audit.rows_removed")
    assert comparing.unrecorded_rows() == []
    later = LaunchProfile.objects.bulk_create([LaunchProfile(name="later", command="sh")])[0]
    assert comparing.unrecorded_rows() == [f"launchprofile {later.pk}"]
