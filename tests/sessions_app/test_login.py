"""The console's login in one process: when it ends, how it is stored, and how many hash at once."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from sessions_app.login import hashing, sweeping
from sessions_app.login.session_store import OPENED_AT, SessionStore, digest
from tests.factories import UserFactory
from tests.servers import until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db


@pytest.fixture
def person() -> User:
    return UserFactory(is_staff=True, is_superuser=True)


@pytest.fixture
def client(person: User) -> Client:
    made = Client()
    made.force_login(person)
    return made


def is_in(client: Client) -> bool:
    return client.get("/admin/password_change/").status_code == 200


def end_of(client: Client) -> float:
    """Return the seconds until the row of the login ends."""
    row = Session.objects.get(session_key=digest(client.cookies[settings.SESSION_COOKIE_NAME].value))
    return (row.expire_date - timezone.now()).total_seconds()


def set_begin(client: Client, seconds_ago: float) -> None:
    store = client.session
    store[OPENED_AT] = time.time() - seconds_ago
    store.save()


def test_a_login_ends_when_it_is_idle(client: Client) -> None:
    assert settings.SESSION_COOKIE_AGE == 2 * 3600
    assert is_in(client)
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert not is_in(client)


def test_use_moves_the_end_and_writes_seldom(client: Client) -> None:
    Session.objects.update(expire_date=timezone.now() + timedelta(minutes=5))
    assert is_in(client)
    assert end_of(client) > 7000
    row = Session.objects.get()
    assert is_in(client)
    assert Session.objects.get().expire_date == row.expire_date


def test_a_login_ends_absolutely_however_busy(client: Client) -> None:
    set_begin(client, 12 * 3600 - 60)
    assert is_in(client)
    assert end_of(client) <= 60
    set_begin(client, 12 * 3600)
    assert not is_in(client)


def test_a_login_of_the_old_form_is_logged_out(person: User) -> None:
    donor = Client()
    donor.force_login(person)
    row = Session.objects.get()
    old = "a" * 32
    Session.objects.create(session_key=old, session_data=row.session_data, expire_date=row.expire_date)
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = old
    assert not is_in(client)


def test_a_login_that_does_not_say_when_it_began_is_over(client: Client) -> None:
    store = client.session
    del store[OPENED_AT]
    store.save()
    assert not is_in(client)


def test_logging_out_removes_the_row(client: Client) -> None:
    client.logout()
    assert not Session.objects.exists()


def test_logins_that_are_over_are_removed(client: Client) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    sweeping.sweep()
    assert not Session.objects.exists()


def test_a_new_key_replaces_the_old_one(client: Client) -> None:
    store = client.session
    old = store.session_key
    store.cycle_key()
    assert not SessionStore().exists(old)
    assert SessionStore().exists(store.session_key)


def test_one_password_is_hashed_at_a_time_and_few_wait() -> None:
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with hashing.place():
            inside.set()
            leave.wait(PATIENCE_SECONDS)

    def wait() -> None:
        with hashing.place():
            pass

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(PATIENCE_SECONDS)
    others = [threading.Thread(target=wait) for _ in range(8)]
    for other in others:
        other.start()
    until(lambda: not hashing._places._value)  # type: ignore[attr-defined]
    with pytest.raises(hashing.HubIsBusy), hashing.place():
        pass
    leave.set()
    for each in (holder, *others):
        each.join(PATIENCE_SECONDS)
    with hashing.place():
        pass
