"""The second factor: asked for after the password, counted like a password, never skipped, taken away on record."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client, override_settings
from django.utils import timezone

from mcphub.features.login import entering
from mcphub.features.login.factors import holding, totp
from mcphub.features.login.models import LoginProvider, SecondFactor
from sessions_app.login import limits
from sessions_app.login.models import LoginLimit
from sessions_app.models import AuditEvent
from tests.mcphub.admin.conftest import _ground, log_in  # noqa: F401

pytestmark = pytest.mark.django_db

PASSWORD = "a long password"
SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"


@pytest.fixture
def anna() -> User:
    return User.objects.create_user("anna", password=PASSWORD, is_staff=True)


def give_app(user: User) -> None:
    assert holding.add_app(user, SECRET, code(0))


def code(steps: int = 1) -> str:
    """Return a code that is good for at least half a minute; that of the last step may be over before it is sent."""
    return totp.code_at(SECRET, int(time.time()) // 30 + steps)


def logs_in(client: Client, name: str = "anna", where: str = "/admin/login/?next=/admin/") -> Any:
    return client.post(where, {"username": name, "password": PASSWORD})


def is_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def test_a_password_alone_does_not_log_in_who_has_an_app(anna: User) -> None:
    give_app(anna)
    client = Client()
    assert logs_in(client)["location"] == "/login/second/"
    assert not is_in(client)
    assert client.get("/admin/").status_code == 302
    assert client.get("/login/own/").status_code == 302
    assert "One more step" in client.get("/login/second/").content.decode()
    assert client.post("/login/second/", {"code": "000000"}).status_code == 200
    assert not is_in(client)
    used = code()
    answer = client.post("/login/second/", {"code": used})
    assert (answer.status_code, answer["location"]) == (302, "/admin/")
    assert is_in(client)
    event = AuditEvent.objects.get(kind="login.succeeded")
    assert event.after == {"address": "127.0.0.1", "by": "password", "second_factor": "app"}
    assert AuditEvent.objects.get(kind="login.failed").after["by"] == "second factor"
    again = Client()
    logs_in(again)
    assert again.post("/login/second/", {"code": used}).status_code == 200
    assert not is_in(again)


@pytest.mark.parametrize("where", ["/admin/login/", "/login/", "/oauth/login/?next=/oauth/authorize/"])
def test_every_login_asks(anna: User, where: str) -> None:
    give_app(anna)
    client = Client()
    assert logs_in(client, where=where)["location"] == "/login/second/"
    assert not is_in(client)


def test_a_recovery_code_is_good_once(anna: User) -> None:
    give_app(anna)
    codes = holding.make_codes(anna)
    for given, is_good in [(codes[0].upper().replace("-", " "), True), (codes[0], False), (codes[1], True)]:
        client = Client()
        logs_in(client)
        client.post("/login/second/", {"code": given})
        assert is_in(client) is is_good
    assert holding.codes_left(anna) == 8
    stored = SecondFactor.objects.get(kind="codes")
    assert codes[2] not in stored.ciphertext
    assert SECRET not in SecondFactor.objects.get(kind="app").ciphertext


def test_guesses_at_codes_are_bounded_although_the_password_is_known(anna: User) -> None:
    give_app(anna)

    def guess(code: str) -> int:
        client = Client()
        logs_in(client)
        return client.post("/login/second/", {"code": code}).status_code

    assert [guess(f"{number:06}") for number in range(5)] == [200] * 5
    # The pause of 15 s has begun; it is made longer than a busy machine may take for the next guess.
    later = timezone.now() + timedelta(hours=1)
    assert LoginLimit.objects.exclude(blocked_until=None).update(blocked_until=later) == 1
    assert guess("000005") == 429
    assert AuditEvent.objects.filter(kind="login.locked").exists()
    client = Client()
    assert logs_in(client)["location"] == "/login/second/"  # the password itself is not locked
    with pytest.raises(limits.TooManyGuesses):
        limits.admit(f"\x00second {anna.pk}", "10.1.1.1")


@pytest.mark.parametrize("change", ["password", "inactive", "late", "gone"])
def test_what_changes_meanwhile_ends_the_wait(anna: User, change: str) -> None:
    give_app(anna)
    client = Client()
    logs_in(client)
    if change == "password":
        anna.set_password("another long password")
        anna.save()
    elif change == "inactive":
        User.objects.update(is_active=False)
    elif change == "gone":
        anna.delete()
    else:
        store = client.session
        store["login_pending"] = {**store["login_pending"], "at": time.time() - entering.PENDING_SECONDS - 1}
        store.save()
    answer = client.post("/login/second/", {"code": code()})
    assert answer["location"] == "/login/"
    assert not is_in(client)


def _must_have_one(by: str, anna: User) -> Any:
    needed = Permission.objects.get(codename="needs_secondfactor")
    if by == "group":
        group = Group.objects.create(name="careful")
        group.permissions.add(needed)
        anna.groups.add(group)
    return override_settings(MCPHUB_SECOND_FACTOR="console" if by == "console" else "optional")


@pytest.mark.parametrize("by", ["console", "group"])
def test_who_must_have_one_adds_it_before_the_login(anna: User, by: str) -> None:
    with _must_have_one(by, anna):
        client = Client()
        assert logs_in(client)["location"] == "/login/own/app/"
        assert not is_in(client)
        page = client.get("/login/own/app/").content.decode()
        secret = re.search(r"<code>([A-Z2-7 ]+)</code>", page)[1].replace(" ", "")  # type: ignore[index]
        assert client.post("/login/own/app/", {"code": "000000"}).status_code == 200
        assert not is_in(client)
        answer = client.post("/login/own/app/", {"code": totp.code_at(secret, int(time.time()) // 30)})
        assert is_in(client)
        assert len(re.findall(r"<code>[a-z2-9]{5}-[a-z2-9]{5}</code>", answer.content.decode())) == holding.CODES
        made = AuditEvent.objects.filter(kind="second_factor.created")
        assert {event.actor for event in made} == {f"user:{anna.pk}"}
        assert secret not in str([event.after for event in made])
        [app] = anna.second_factors.filter(kind="app")  # type: ignore[attr-defined]
        client.post("/login/own/change/", {"take_away": app.pk})
        assert anna.second_factors.filter(kind="app").exists()  # type: ignore[attr-defined]


def test_a_superuser_need_not_have_one_unless_told(anna: User) -> None:
    root = User.objects.create_superuser("root", password=PASSWORD)
    client = Client()
    assert logs_in(client, "root")["location"] == "/admin/"
    assert not holding.is_required(root)


def test_who_has_a_factor_cannot_add_another_instead_of_showing_it(anna: User) -> None:
    give_app(anna)
    client = Client()
    with override_settings(MCPHUB_SECOND_FACTOR="everybody"):
        logs_in(client)
        assert client.get("/login/own/app/")["location"].startswith("/login/?next=%2Flogin%2Fown%2F")


def test_an_old_session_changes_no_factor(anna: User) -> None:
    client = Client()
    logs_in(client)
    store = client.session
    store["opened_at"] = time.time() - 3600
    store.save()
    for page in ("/login/own/app/", "/login/own/passkey/"):
        assert client.get(page)["location"].startswith("/login/?")
    assert client.post("/login/own/change/", {"codes": "1"})["location"].startswith("/login/?")
    assert client.get("/login/own/").status_code == 200


def test_a_person_takes_a_factor_away_and_the_codes_go_with_the_last(anna: User) -> None:
    other = User.objects.create_user("other")
    give_app(other)
    give_app(anna)
    holding.make_codes(anna)
    client = Client()
    client.force_login(anna)
    foreign = other.second_factors.get(kind="app")  # type: ignore[attr-defined]
    for chosen in (foreign.pk, "9" * 30, "x", ""):
        client.post("/login/own/change/", {"take_away": chosen})
    assert SecondFactor.objects.count() == 3
    client.post("/login/own/change/", {"take_away": anna.second_factors.get(kind="app").pk})  # type: ignore[attr-defined]
    assert not anna.second_factors.exists()  # type: ignore[attr-defined]
    assert AuditEvent.objects.filter(kind="second_factor.deleted", actor=f"user:{anna.pk}").count() == 2


def test_an_operator_takes_a_lost_factor_away(log_in: Any, anna: User) -> None:  # noqa: F811
    give_app(anna)
    holding.make_codes(anna)
    page = "/admin/login/secondfactor/"
    [app] = SecondFactor.objects.filter(kind="app")
    chosen = {"action": "take_away_selected", "_selected_action": [app.pk], "confirmed": "yes", "reason": "lost phone"}
    assert "action" not in log_in("Auditor").get(page).context["cl"].list_display
    browser = log_in("superuser")
    assert browser.post(page, chosen).status_code == 302
    assert not anna.second_factors.exists()  # type: ignore[attr-defined]
    event = AuditEvent.objects.filter(kind="second_factor.deleted").latest("pk")
    assert (event.actor, event.reason) == (f"user:{browser.user.pk}", "lost phone")


def test_factors_and_secrets_of_providers_move_to_a_new_key(anna: User, settings: Any) -> None:
    old, new = settings.MCPHUB_ENCRYPTION_KEYS[0], ("new", b"\x02" * 32)
    give_app(anna)
    provider = LoginProvider(name="F", slug="f", issuer="https://f.example", client_id="hub")
    provider.set_secret("a client secret")
    rows = [SecondFactor.objects.get(), provider]
    settings.MCPHUB_ENCRYPTION_KEYS = (new, old)
    assert [row.encrypt_anew() for row in rows] == [["ciphertext"], ["ciphertext"]]
    assert [row.encrypt_anew() for row in rows] == [[], []]
    settings.MCPHUB_ENCRYPTION_KEYS = (new,)
    assert (rows[0].content(), provider.secret()) == (SECRET, "a client secret")  # type: ignore[union-attr]
