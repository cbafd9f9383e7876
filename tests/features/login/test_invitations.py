"""Invitations: a link that makes one account, once, with what the operator may hand out, and on record."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client, override_settings
from django.utils import timezone

from mcphub.features.login import invitations
from mcphub.features.login.models import Invitation, LoginProvider
from mcphub.features.login.providers import people
from mcphub.features.login.providers.oidc import LoginRefused
from sessions_app.models import AuditEvent
from tests.mcphub.admin.conftest import _ground, log_in  # noqa: F401

pytestmark = pytest.mark.django_db

PASSWORD = "a rather long one"
PAGE = "/admin/login/invitation/add/"


def link_of(answer: Any) -> str:
    found = re.search(r"https?://[^/]+(/login/invited/[\w-]{43}/)", answer.content.decode())
    assert found is not None, answer.content.decode()
    return found[1]


def accepts(link: str, password: str = PASSWORD, again: str = PASSWORD) -> tuple[Client, Any]:
    client = Client()
    return client, client.post(link, {"password": password, "again": again})


def test_an_operator_invites_and_the_person_has_the_account(log_in: Any) -> None:  # noqa: F811
    browser = log_in("superuser")
    group = Group.objects.get(name="Operator")
    form = {"username": "newcomer", "email": "new@firm.example", "chosen": [group.pk], "days": 7}
    link = link_of(browser.post(PAGE, form))
    [row] = Invitation.objects.all()
    assert link.split("/")[3] not in str(vars(row))
    assert link not in browser.get("/admin/login/invitation/").content.decode()
    page = Client().get(link)
    assert "newcomer" in page.content.decode()
    assert page["Referrer-Policy"] == "same-origin"
    client, answer = accepts(link)
    assert (answer.status_code, answer["location"]) == (302, "/admin/")
    user = User.objects.get(username="newcomer")
    assert client.session["_auth_user_id"] == str(user.pk)
    assert (user.is_staff, user.is_superuser, user.email) == (True, False, "new@firm.example")
    assert set(user.groups.all()) == {group}
    assert user.check_password(PASSWORD)
    made, created = (AuditEvent.objects.get(kind=kind) for kind in ("invitation.created", "login.succeeded"))
    assert made.actor == f"user:{browser.user.pk}"
    assert created.after["by"] == "invitation"
    assert AuditEvent.objects.get(kind="user.created", actor=f"invitation:{row.pk}").subject_id == str(user.pk)
    for word in (link.split("/")[3], row.digest, PASSWORD):
        assert not [each for each in AuditEvent.objects.all() if word in f"{each.before}{each.after}"]
    for answer in (accepts(link)[1], Client().get(link)):
        assert answer.status_code == 403


@pytest.mark.parametrize("why", ["late", "taken back", "name taken", "unknown"])
def test_an_invitation_that_is_over_makes_nothing(why: str) -> None:
    row, address = invitations.invite("newcomer", "", [], 1)
    link = "/login" + address.partition("/login")[2]
    if why == "late":
        Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    elif why == "taken back":
        row.delete()
    elif why == "name taken":
        User.objects.create_user("Newcomer")
    else:
        link = "/login/invited/nothing/"
    count = User.objects.count()
    assert accepts(link)[1].status_code == 403
    assert User.objects.count() == count


@pytest.mark.parametrize(
    ("password", "again"), [("short", "short"), (PASSWORD, "another"), ("1234567890", "1234567890")]
)
def test_a_bad_password_is_refused_and_the_link_stays_good(password: str, again: str) -> None:
    link = "/login" + invitations.invite("newcomer", "", [], 1)[1].partition("/login")[2]
    answer = accepts(link, password, again)[1]
    assert answer.status_code == 200
    assert 'role="alert"' in answer.content.decode()
    assert accepts(link)[1].status_code == 302


def test_nobody_invites_into_groups_beyond_their_own(log_in: Any) -> None:  # noqa: F811
    browser = log_in("Viewer")
    browser.user.user_permissions.add(Permission.objects.get(codename="add_invitation"))
    operator, viewer = (Group.objects.get(name=name) for name in ("Operator", "Viewer"))
    form = {"username": "newcomer", "chosen": [operator.pk], "days": 7}
    assert "You can&#x27;t assign Operator" in browser.post(PAGE, form).content.decode()
    assert not Invitation.objects.exists()
    link_of(browser.post(PAGE, {**form, "chosen": [viewer.pk]}))
    for days in (0, 31, "x"):
        browser.post(PAGE, {**form, "username": "other", "chosen": [], "days": days})
    assert Invitation.objects.count() == 1


def test_who_must_have_a_second_factor_adds_it_at_once() -> None:
    link = "/login" + invitations.invite("newcomer", "", [], 1)[1].partition("/login")[2]
    with override_settings(MCPHUB_SECOND_FACTOR="everybody"):
        client, answer = accepts(link)
    assert answer["location"] == "/login/own/app/"
    assert "_auth_user_id" not in client.session


def test_an_invitation_is_accepted_by_a_provider_too() -> None:
    group = Group.objects.create(name="readers")
    provider = LoginProvider.objects.create(
        name="Firm", slug="firm", issuer="https://login.firm.example", client_id="hub", admits="invited"
    )
    row, _link = invitations.invite("newcomer", "", [group], 1)
    claims = {"sub": "1", "preferred_username": "anything"}
    user = people.accepted(row.digest, provider, claims, "n1")
    assert (user.username, user.has_usable_password()) == ("newcomer", False)
    assert set(user.groups.all()) == {group}
    assert people.arrived(provider, claims, "n2") == user
    with pytest.raises(invitations.InvitationOver):
        people.accepted(row.digest, provider, {"sub": "2"}, "n3")
    other, _link = invitations.invite("other", "", [], 1)
    with pytest.raises(LoginRefused, match="taken"):
        people.accepted(other.digest, provider, claims, "n4")
    assert Invitation.objects.get(pk=other.pk).is_open
