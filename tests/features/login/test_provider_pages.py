"""The console's page of login providers: what it takes, what it never shows, what needs a second person."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission

from mcphub.features.login.models import LoginProvider
from sessions_app.models import AuditEvent, WaitingChange
from tests.mcphub.admin.conftest import _ground, log_in  # noqa: F401

pytestmark = pytest.mark.django_db

ADD = "/admin/login/loginprovider/add/"
SECRET = "a client secret of some length"
FORM = {
    "name": "Firm",
    "slug": "firm",
    "kind": "oidc",
    "enabled": "on",
    "issuer": "https://login.firm.example",
    "client_id": "hub",
    "secret": SECRET,
    "scopes": "openid profile",
    "admits": "mapped",
    "groups_claim": "groups",
    "groups": '{"ops": ["Operator"]}',
    "username_claim": "preferred_username",
    "email_claim": "email",
}


def change_page(row: LoginProvider) -> str:
    return f"/admin/login/loginprovider/{row.pk}/change/"


def test_a_secret_goes_in_and_never_comes_out(log_in: Any) -> None:  # noqa: F811
    browser = log_in("superuser")
    assert browser.post(ADD, FORM).status_code == 302
    row = LoginProvider.objects.get()
    assert row.secret() == SECRET
    assert row.groups == {"ops": ["Operator"]}
    assert SECRET not in row.ciphertext
    page = browser.get(change_page(row)).content.decode()
    assert SECRET not in page
    assert 'data-copy="hub-copy-redirect"' in page
    assert not [event for event in AuditEvent.objects.all() if SECRET in f"{event.before}{event.after}"]
    kept = {**FORM, "secret": "", "issuer": "https://evil.example"}
    assert "Enter the secret again" in browser.post(change_page(row), kept).content.decode()
    assert browser.post(change_page(row), {**kept, "issuer": FORM["issuer"]}).status_code == 302
    assert LoginProvider.objects.get().secret() == SECRET
    assert browser.post(change_page(row), {**kept, "forget_secret": "on"}).status_code == 302
    assert LoginProvider.objects.get().secret() == ""


@pytest.mark.parametrize(
    ("kind", "shown", "left_out"),
    [
        ("oidc", {"scopes", "secret"}, {"certificates", "login_address"}),
        ("saml", {"certificates", "login_address"}, {"scopes", "secret", "forget_secret"}),
    ],
)
def test_the_page_shows_what_its_kind_has_a_use_for(
    log_in: Any,  # noqa: F811
    kind: str,
    shown: set[str],
    left_out: set[str],
) -> None:
    whole = {"login_address": "https://f.example/sso", "certificates": "PEM"} if kind == "saml" else {}
    fields = {"name": "Firm", "slug": "firm", "issuer": "https://f.example", "client_id": "hub", **whole}
    row = LoginProvider.objects.create(kind=kind, **fields)
    page = log_in("superuser").get(change_page(row)).content.decode()
    assert {name for name in shown | left_out if f'name="{name}"' in page} == shown


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"issuer": "http://login.firm.example"}, "https address"),
        ({"issuer": "https://login.firm.example/?x=1"}, "without ?"),
        ({"issuer": "https://a@login.firm.example"}, ""),
        ({"issuer": "https://10.0.0.1"}, "not on the public internet"),
        ({"issuer": "nonsense"}, ""),
        ({"scopes": "profile"}, "Add `openid`"),
        ({"groups": '{"ops": ["No such group"]}'}, "No group named No such group"),
        ({"groups": '{"ops": "Operator"}'}, "object of lists"),
        ({"groups": "[]"}, "object of lists"),
        ({"groups": "{}"}, "nobody can log in"),
        ({"slug": "Up/.."}, "lowercase letters"),
        ({"groups_claim": "two words"}, "one claim"),
    ],
)
def test_what_cannot_work_is_refused_with_advice(log_in: Any, changed: dict[str, str], words: str) -> None:  # noqa: F811
    page = log_in("superuser").post(ADD, {**FORM, **changed})
    assert page.status_code == 200
    assert words in page.content.decode().replace("&#x27;", "'")
    assert not LoginProvider.objects.exists()


def test_who_is_no_superuser_maps_own_groups_and_a_second_person_confirms(log_in: Any) -> None:  # noqa: F811
    browser = log_in("Operator")
    for verb in ("view", "add", "change"):
        browser.user.user_permissions.add(Permission.objects.get(codename=f"{verb}_loginprovider"))
    beyond = browser.post(ADD, {**FORM, "groups": '{"x": ["Auditor"]}'})
    assert "You can&#x27;t assign Auditor" in beyond.content.decode()
    assert browser.post(ADD, FORM).status_code == 302
    row = LoginProvider.objects.get()
    assert (row.groups, row.admits) == ({}, "invited")
    change = WaitingChange.objects.get()
    assert change.after == {"groups": {"ops": ["Operator"]}, "admits": "mapped"}
    second = log_in("superuser")
    assert (
        second.post(f"/admin/sessions_app/waitingchange/{change.pk}/confirm/", {"confirmed": "yes"}).status_code == 302
    )
    row.refresh_from_db()
    assert (row.groups, row.admits) == ({"ops": ["Operator"]}, "mapped")


def test_a_mapped_group_that_is_gone_gives_nothing(log_in: Any) -> None:  # noqa: F811
    group = Group.objects.create(name="short lived")
    row = LoginProvider.objects.create(
        name="F",
        slug="f",
        issuer="https://f.example",
        client_id="hub",
        groups={"x": ["short lived"]},
        admits="everybody",
    )
    group.delete()
    from mcphub.features.login.providers import people

    assert not people.arrived(row, {"sub": "1", "groups": ["x"]}, "n").groups.exists()
