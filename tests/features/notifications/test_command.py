"""`mcphub notice` as an operator types it: who is notified of what."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User

from mcphub.features.notifications.models import Subscription
from sessions_app.history.models import AuditEvent
from tests import template
from tests.in_process import inside, run

pytestmark = pytest.mark.program
HOOK = "https://127.0.0.1:9/hook/secret-path"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notices")
    template.copy_to(folder / "hub.sqlite3")
    with inside(folder):
        User.objects.create_user("ada")
        User.objects.create_user("eve")
    return folder


def test_a_person_is_subscribed_to_a_webhook_switched_and_unsubscribed(home: Path) -> None:
    allow = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    words = ["notice", "subscribe", "ada", "pager", "webhook", "--kind", "alert.errors", "--quiet", "22:00", "07:00"]
    added = run(home, *words, "--reason", "rota", stdin=f"{HOOK}\n", **allow)
    assert (added.returncode, added.stdout[:6]) == (0, "whsec_"), added.stderr
    assert "secret-path" not in added.stdout + added.stderr
    [told] = json.loads(run(home, "notice", "subscriptions", "ada", "--json").stdout)
    assert (told["kinds"], told["quiet_from"], told["address"]) == (
        ["alert.errors"],
        "22:00:00",
        "https://127.0.0.1:9/…",
    )
    assert json.loads(run(home, "notice", "subscriptions", "eve", "--json").stdout) == []
    with inside(home):
        row = Subscription.objects.get()
        assert (row.address(), row.secret()) == (HOOK, added.stdout.strip())
    assert run(home, "notice", "disable", "ada", "pager").stdout == "pager is disabled.\n"
    assert "`mcphub notice subscribe` adds one" in run(home, "notice", "test", "ada").stderr
    assert run(home, "notice", "enable", "ada", "pager").stdout == "pager is enabled.\n"
    assert run(home, "notice", "unsubscribe", "ada", "pager", "--reason", "left").stdout == "pager is removed.\n"
    with inside(home):
        rows = AuditEvent.objects.filter(kind__startswith="subscription.").order_by("id")
        events = list(rows.values_list("kind", "via", "reason"))
        assert events[0] == ("subscription.created", "cli", "rota")
        assert events[-1] == ("subscription.deleted", "cli", "left")


def test_a_group_is_an_owner_as_a_person_is(home: Path) -> None:
    with inside(home):
        Group.objects.create(name="on call")
    words = ["group:on call", "mail"]
    added = run(home, "notice", "subscribe", *words, "email", "--email", "calls@example.org")
    assert added.stdout == "group:on call/mail is subscribed: calls@example.org.\n", added.stderr
    [told] = json.loads(run(home, "notice", "subscriptions", "group:on call", "--json").stdout)
    assert (told["person"], told["group"]) == (None, "on call")
    assert "group:on call\tmail\ton" in run(home, "notice", "subscriptions").stdout
    assert run(home, "notice", "subscriptions", "ada").stdout == ""
    assert run(home, "notice", "unsubscribe", *words).stdout == "mail is removed.\n"


@pytest.mark.parametrize(
    ("words", "status", "answer"),
    [
        (["subscribe", "group:nobody", "x", "email"], 1, "there is no group 'nobody'"),
        (["subscribe", "nobody", "x", "console"], 1, "there is no person 'nobody'"),
        (["subscribe", "ada", "x", "email"], 2, "name the address with --email"),
        (["subscribe", "ada", "x", "email", "--email", "ada"], 2, "--email: Enter a valid email address"),
        (["subscribe", "ada", "x", "slack"], 2, "--address-file: Enter the destination address"),
        (["subscribe", "ada", "x", "console", "--kind", "nothing"], 2, "--kind: Choose from the list: "),
        (["subscribe", "ada", "x", "console", "--quiet", "10", "late"], 2, "--quiet: "),
        (["subscribe", "ada", "x", "console", "--zone", "Mars"], 2, "--zone: Unknown time zone"),
        (["unsubscribe", "ada", "x"], 1, "no subscription of ada named 'x'. `mcphub notice subscriptions` names"),
    ],
)
def test_a_mistake_is_named_and_subscribes_nobody(words: list[str], status: int, answer: str, home: Path) -> None:
    ended = run(home, "notice", *words)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert answer in ended.stderr
    with inside(home):
        assert not Subscription.objects.exists()
