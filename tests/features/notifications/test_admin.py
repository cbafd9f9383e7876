"""The page of subscriptions: one's own and those of one's groups, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from mcphub.features.notifications.models import Subscription
from sessions_app.history.reading import history_of

pytestmark = pytest.mark.django_db
LIST = "/admin/telling/subscription/"
ROW: dict[str, Any] = {
    "name": "rota-of-payments",
    "enabled": "on",
    "way": "email",
    "address": "calls@example.org",
    "language": "en",
    "group_seconds": "30",
    "zone": "UTC",
}


def operator(name: str, *groups: Group) -> Client:
    person = User.objects.create_user(name, is_staff=True)
    person.groups.set(groups)
    person.user_permissions.set(Permission.objects.filter(content_type__app_label="telling"))
    client = Client()
    client.force_login(person)
    return client


def test_members_of_a_group_share_its_subscription_and_others_do_not_see_it() -> None:
    group = Group.objects.create(name="Payments")
    ada, ben, eve = operator("ada", group), operator("ben", group), operator("eve")
    assert ada.post(f"{LIST}add/", {**ROW, "group": group.pk}).status_code == 302
    row = Subscription.objects.get()
    assert (row.owner, row.address()) == ("group:Payments", "calls@example.org")
    assert ROW["name"] in ben.get(LIST).content.decode()
    assert ben.get(f"{LIST}{row.pk}/change/").status_code == 200
    assert ROW["name"] not in eve.get(LIST).content.decode()
    assert eve.get(f"{LIST}{row.pk}/change/").status_code == 302  # there is no such row
    assert ben.get(f"{LIST}{row.pk}/history/").status_code == 200
    assert eve.get(f"{LIST}{row.pk}/history/").status_code == 404
    event = history_of(row).get()
    assert eve.get(f"{LIST}{row.pk}/history/{event.pk}/").status_code == 404
    ben.post(f"{LIST}{row.pk}/change/", {**ROW, "name": "rota", "address": "", "group": ""})
    row.refresh_from_db()
    assert (row.name, row.owner) == ("rota", "group:Payments")


def test_a_subscription_is_for_no_group_of_others_and_of_one_s_own_without_a_group() -> None:
    group, eve = Group.objects.create(name="Payments"), operator("eve")
    refused = eve.post(f"{LIST}add/", {**ROW, "group": group.pk})
    assert "Select a valid choice" in refused.content.decode()
    assert eve.post(f"{LIST}add/", ROW).status_code == 302
    assert Subscription.objects.get().owner == "eve"
    twice = eve.post(f"{LIST}add/", ROW)
    assert "already a subscription with this name" in twice.content.decode()


def test_what_a_deleted_subscription_held_is_for_those_who_may_read_all_history() -> None:
    ada, eve = operator("ada"), operator("eve")
    assert ada.post(f"{LIST}add/", ROW).status_code == 302
    row = Subscription.objects.get()
    event, place = history_of(row).get(), f"{LIST}{row.pk}/history/"
    row.delete()
    pages = place, f"{place}{event.pk}/"
    assert [eve.get(page).status_code for page in pages] == [404, 404]
    User.objects.get(username="eve").user_permissions.add(Permission.objects.get(codename="view_auditevent"))
    assert [eve.get(page).status_code for page in pages] == [200, 200]
