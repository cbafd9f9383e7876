"""Who comes by a provider: found by issuer and subject, grouped as the provider says, on record."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User

from mcphub.features.login.models import LinkedIdentity, LoginProvider
from mcphub.features.login.providers import people
from mcphub.features.login.providers.oidc import LoginRefused
from sessions_app.models import AuditEvent

pytestmark = pytest.mark.django_db

ADA: dict[str, Any] = {"sub": "1", "preferred_username": "ada", "email": "ada@firm.example", "groups": ["ops", "x"]}


@pytest.fixture
def provider() -> LoginProvider:
    Group.objects.get_or_create(name="readers")
    return LoginProvider.objects.create(
        name="Firm",
        slug="firm",
        issuer="https://login.firm.example",
        client_id="hub",
        groups={"ops": ["Operator", "readers"], "read": ["readers"]},
        admits="everybody",
    )


def names(user: User) -> set[str]:
    return set(user.groups.values_list("name", flat=True))


def test_who_comes_first_gets_an_account_with_the_groups_of_the_claim(provider: LoginProvider) -> None:
    user = people.arrived(provider, ADA, "n1")
    assert (user.username, user.email, user.is_staff, user.is_superuser) == ("ada", "ada@firm.example", True, False)
    assert names(user) == {"Operator", "readers"}
    assert not user.has_usable_password()
    assert people.arrived(provider, ADA, "n2") == user
    made = AuditEvent.objects.get(kind="user.created", subject_id=str(user.pk))
    assert made.actor == "provider:firm"
    assert AuditEvent.objects.get(kind="identity.linked").after["subject"] == "1"
    assert AuditEvent.objects.filter(kind="user.changed", actor="provider:firm").exists()


def test_groups_follow_the_claim_and_others_stay(provider: LoginProvider) -> None:
    user = people.arrived(provider, ADA, "n1")
    user.groups.add(Group.objects.create(name="by hand"))
    people.arrived(provider, {**ADA, "groups": ["read"]}, "n2")
    user.refresh_from_db()
    assert names(user) == {"readers", "by hand"}
    assert not user.is_staff
    people.arrived(provider, {**ADA, "groups": "ops"}, "n3")
    user.refresh_from_db()
    assert user.is_staff


def test_rights_that_were_given_by_hand_stay(provider: LoginProvider) -> None:
    user = people.arrived(provider, ADA, "n1")
    user.groups.add(Group.objects.get(name="Viewer"))
    people.arrived(provider, {**ADA, "groups": []}, "n2")
    user.refresh_from_db()
    assert user.is_staff
    assert names(user) == {"Viewer"}


def test_an_account_is_never_found_by_name_or_address(provider: LoginProvider) -> None:
    own = User.objects.create_superuser("ada", "ada@firm.example", "a long password")
    user = people.arrived(provider, ADA, "n1")
    assert user != own
    assert user.username == "ada.2"
    again = people.arrived(provider, {**ADA, "sub": "2", "preferred_username": "ADA"}, "n2")
    assert again.username == "ADA.3"


def test_another_issuer_with_the_same_subject_is_somebody_else(provider: LoginProvider) -> None:
    user = people.arrived(provider, ADA, "n1")
    provider.issuer = "https://login.other.example"
    assert people.arrived(provider, ADA, "n2") != user


@pytest.mark.parametrize(
    "said", ["", "\x00", "../..", "a" * 500, "имя", "<b>", "ada lovelace", "@", "-", {"a": 1}, 7, ["x", "y"]]
)
def test_any_name_makes_an_account(provider: LoginProvider, said: object) -> None:
    claims = {"sub": "9/..\\<x>", "preferred_username": said, "email": "no address", "given_name": "\x00A"}
    user = people.arrived(provider, claims, "n1")
    user.full_clean(exclude=["password"])
    assert user.email == ""
    assert user.first_name == "A"


def test_who_may_come_is_said_by_the_provider(provider: LoginProvider) -> None:
    provider.admits = "mapped"
    with pytest.raises(LoginRefused, match="groups"):
        people.arrived(provider, {**ADA, "groups": ["x"]}, "n1")
    provider.admits = "invited"
    with pytest.raises(LoginRefused, match="invited"):
        people.arrived(provider, ADA, "n1")
    assert not User.objects.exists()


def test_who_is_switched_off_stays_out(provider: LoginProvider) -> None:
    user = people.arrived(provider, ADA, "n1")
    user.is_active = False
    user.save()
    with pytest.raises(LoginRefused, match="inactive"):
        people.arrived(provider, ADA, "n2")


def test_one_answer_logs_in_once(provider: LoginProvider) -> None:
    people.arrived(provider, ADA, "n1")
    with pytest.raises(LoginRefused, match="state"):
        people.arrived(provider, ADA, "n1")


def test_a_person_links_an_account_that_is_nobody_elses(provider: LoginProvider) -> None:
    own, other = User.objects.create_user("own"), User.objects.create_user("other")
    provider.admits = "invited"
    people.link(own, provider, ADA, "n1")
    assert people.arrived(provider, ADA, "n2") == own
    with pytest.raises(LoginRefused, match="taken"):
        people.link(other, provider, ADA, "n3")
    LinkedIdentity.objects.get().unlink(reason="left")
    assert AuditEvent.objects.get(kind="identity.unlinked").reason == "left"
    with pytest.raises(LoginRefused, match="invited"):
        people.arrived(provider, ADA, "n4")


def test_a_link_that_a_name_in_a_token_made_opens_no_login_before_it_is_confirmed(provider: LoginProvider) -> None:
    known = User.objects.create_user("ada")
    identity = LinkedIdentity.make(known, provider.issuer, ADA["sub"], "firm", by_name=True)
    with pytest.raises(LoginRefused, match="unconfirmed"):
        people.arrived(provider, ADA, "n1")
    people.link(known, provider, ADA, "n2")  # who is logged in and comes back from the provider is both
    assert AuditEvent.objects.get(kind="identity.confirmed").after["by_name"] is False
    assert people.arrived(provider, ADA, "n3") == known
    identity.refresh_from_db()
    assert not identity.by_name


def test_whom_a_token_made_an_account_comes_to_it_by_login_too(provider: LoginProvider) -> None:
    LinkedIdentity.make(User.objects.create_user("of-a-token"), provider.issuer, ADA["sub"], "firm")
    assert people.arrived(provider, ADA, "n1").username == "of-a-token"
