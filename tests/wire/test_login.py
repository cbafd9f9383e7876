"""Guesses at the login of the console: bounded by name and address, on record, and no burden for anybody else."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.cookies import cookie_of, name_of
from tests.servers import Hub, postgres_database, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker
from tests.wire.toolbox import text_of

pytestmark = pytest.mark.program
NAME, PASSWORD = "guarded", "a long password"
GUESSES, AT_ONCE = 200, 40
LIMIT, EVENT = "sessions_app.LoginLimit", "sessions_app.AuditEvent"


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.rig)])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub behind a proxy, so that a test chooses the address that it comes from; two workers on PostgreSQL."""
    environment, flags = {"MCPHUB_BEHIND_PROXY": "1"}, []
    with contextlib.ExitStack() as stack:
        if request.param == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
            flags = ["--workers", "2"]
        folder = tmp_path_factory.mktemp("guarded")
        hub = stack.enter_context(Hub(folder, packs=["starter"], flags=flags, environment=environment))
        hub.operate(operations.create_superuser, NAME, PASSWORD)
        yield hub


class Browser:
    """Somebody at the login page, who comes from `address`."""

    def __init__(self, hub: Hub, address: str) -> None:
        self.http = httpx2.Client(base_url=hub.url, timeout=PATIENCE_SECONDS, headers={"X-Forwarded-For": address})
        self.http.get("/admin/login/")

    def guess(self, name: str, password: str = "wrong and long") -> httpx2.Response:
        fields = {
            "csrfmiddlewaretoken": cookie_of(self.http.cookies, "mcphub_csrf"),
            "username": name,
            "password": password,
            "next": "/admin/",
        }
        return self.http.post("/admin/login/", data=fields, headers={"referer": str(self.http.base_url)})


Come = Callable[[str], Browser]


@pytest.fixture
def come(guarded: Hub) -> Iterator[Come]:
    """Return a new browser at an address. All earlier failures are forgotten."""
    guarded.operate(operations.delete, LIMIT)
    with contextlib.ExitStack() as stack:

        def from_address(address: str) -> Browser:
            made = Browser(guarded, address)
            stack.callback(made.http.close)
            return made

        yield from_address


def end_pauses(hub: Hub) -> None:
    """Let the pauses be over, as time does."""
    hub.operate(operations.update, LIMIT, {}, blocked_until=from_now(minutes=-1))


def from_now(**time: float) -> str:
    return (datetime.now(UTC) + timedelta(**time)).isoformat()


def event_rows(hub: Hub, kind: str, address: str) -> list[dict[str, Any]]:
    found = hub.operate(operations.values, EVENT, "after", kind=kind)
    return [after for after in found if after.get("address") == address]


def statuses(browsers: list[Browser], names: list[str]) -> Counter[int]:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        pairs = [(browsers[number % len(browsers)], name) for number, name in enumerate(names)]
        return Counter(answer.status_code for answer in threads.map(lambda pair: pair[0].guess(pair[1]), pairs))


def test_guesses_at_one_name_are_refused_before_a_hash_and_the_others_are_served_meanwhile(
    guarded: Hub, come: Come
) -> None:
    browsers = [come("203.0.113.1") for _ in range(8)]
    with Speaker(guarded.url, guarded.key) as speaker, ThreadPoolExecutor(1) as beside:
        session = speaker.open_session()
        flood = beside.submit(statuses, browsers, [NAME] * GUESSES)
        rounds = 0
        while not flood.done() or rounds == 0:
            assert httpx2.get(f"{guarded.url}/live", timeout=PATIENCE_SECONDS).status_code == 200
            assert httpx2.get(f"{guarded.url}/ready", timeout=PATIENCE_SECONDS).status_code == 200
            assert text_of(speaker.call(session, "echo", {"text": str(rounds)}, id=rounds)) == str(rounds)
            assert httpx2.get(f"{guarded.url}/admin/login/", timeout=PATIENCE_SECONDS).status_code == 200
            rounds += 1
        seen = flood.result()
    assert seen[429] >= GUESSES - 10
    pauses = [after for after in event_rows(guarded, "login.locked", "203.0.113.1") if after["by"] == "name"]
    # Django's page with an error: five times, and after each pause that the flood outlasts once more.
    assert 1 <= seen[200] <= 4 + len(pauses)
    assert set(seen) <= {200, 429, 503}
    assert len(event_rows(guarded, "login.failed", "203.0.113.1")) == seen[200]
    assert pauses


def test_a_refused_guess_says_when_to_try_again_and_the_right_password_waits_too(guarded: Hub, come: Come) -> None:
    browser = come("203.0.113.2")
    for _ in range(5):
        assert browser.guess(NAME).status_code == 200
    refused = browser.guess(NAME, PASSWORD)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 15
    assert f"in {refused.headers['Retry-After']} second" in refused.text
    end_pauses(guarded)
    assert browser.guess(NAME).status_code == 200
    assert 16 <= int(browser.guess(NAME).headers["Retry-After"]) <= 30, "the second pause is longer"
    end_pauses(guarded)
    entered = browser.guess(NAME, PASSWORD)
    assert (entered.status_code, entered.headers["Location"]) == (302, "/admin/")
    assert browser.http.get("/admin/").status_code == 200


def test_a_name_that_does_not_exist_behaves_alike(guarded: Hub, come: Come) -> None:
    answers = {}
    for number, name in enumerate((NAME, "nobody")):
        browser = come(f"203.0.113.{30 + number}")
        answers[name] = [browser.guess(name).status_code for _ in range(7)]
    assert answers[NAME] == answers["nobody"] == [200] * 5 + [429] * 2


def test_an_address_is_bounded_over_all_names_and_its_neighbour_is_not(guarded: Hub, come: Come) -> None:
    browser = come("203.0.113.4")
    assert [browser.guess(f"name {number}").status_code for number in range(12)] == [200] * 10 + [429] * 2
    assert browser.guess(NAME, PASSWORD).status_code == 429
    assert come("203.0.113.5").guess(NAME, PASSWORD).status_code == 302


def test_strangers_do_not_shut_a_person_out_where_he_has_logged_in_before(guarded: Hub, come: Come) -> None:
    assert come("203.0.113.6").guess(NAME, PASSWORD).status_code == 302
    stranger = come("203.0.113.7")
    assert [stranger.guess(NAME).status_code for _ in range(6)] == [200] * 5 + [429]
    assert come("203.0.113.8").guess(NAME, PASSWORD).status_code == 429
    assert come("203.0.113.6").guess(NAME, PASSWORD).status_code == 302


def test_the_addresses_of_one_ipv6_network_are_one(guarded: Hub, come: Come) -> None:
    seen = [come(f"2001:db8::{number + 1:x}").guess(f"name {number}").status_code for number in range(12)]
    assert seen == [200] * 10 + [429] * 2


def test_logins_are_on_record_and_what_was_typed_is_not(guarded: Hub, come: Come) -> None:
    browser = come("203.0.113.9")
    typed = "my secret, in the wrong field"
    browser.guess(typed, "another secret")
    browser.guess(NAME)
    browser.guess(NAME, PASSWORD)
    token = cookie_of(browser.http.cookies, "mcphub_csrf")
    left = browser.http.post("/admin/logout/", data={"csrfmiddlewaretoken": token}, headers={"referer": guarded.url})
    assert left.status_code in (200, 302)
    rows = event_rows(guarded, "login.failed", "203.0.113.9")
    assert [row["account_exists"] for row in rows] == [False, True]
    assert event_rows(guarded, "login.succeeded", "203.0.113.9")
    assert event_rows(guarded, "login.ended", "203.0.113.9")
    for model, fields in ((EVENT, ("after", "subject_label", "reason")), (LIMIT, ("name", "address", "id"))):
        stored = [str(guarded.operate(operations.values, model, field)) for field in fields]
        assert not [text for text in stored for word in (typed, "another secret", PASSWORD) if word in text]
    assert typed not in guarded.log()


def test_failures_beyond_the_bound_of_a_minute_share_an_event(guarded: Hub, come: Come) -> None:
    def events() -> list[dict[str, Any]]:
        return guarded.operate(operations.values, EVENT, "after", kind="login.failed")  # type: ignore[no-any-return]

    def set_minute(begins_in: timedelta, **fields: Any) -> None:
        guarded.operate(
            operations.update, LIMIT, {"kind": "all"}, failed_at=(datetime.now(UTC) + begins_in).isoformat(), **fields
        )

    come("198.51.100.1").guess("name 1")
    set_minute(timedelta(hours=1), failures=29)  # it lasts as long as the test
    before = len(events())
    assert [come(f"198.51.100.{number}").guess(f"name {number}").status_code for number in (2, 3, 4)] == [200] * 3
    assert len(events()) - before == 1
    set_minute(-timedelta(minutes=2))
    come("198.51.100.5").guess("name 5")
    assert sum(after.get("occurrences", 0) for after in events()[before:]) == 2


def test_the_number_of_refused_guesses_is_on_record_when_their_pause_is_over(guarded: Hub, come: Come) -> None:
    browser = come("203.0.113.10")
    for _ in range(8):
        browser.guess("counted")  # a name of its own: refusals of the tests before may be written only now
    guarded.operate(operations.update, LIMIT, {"blocked_until__isnull": False}, blocked_until=from_now(hours=1))
    until(lambda: sum(guarded.operate(operations.values, LIMIT, "refused")) == 3)
    end_pauses(guarded)

    def told() -> bool:
        rows = guarded.operate(operations.values, EVENT, "after", kind="login.locked")
        return [row["refused"] for row in rows if "refused" in row][-1:] == [3]

    until(told)


def test_a_login_is_stored_under_a_digest(guarded: Hub, come: Come) -> None:
    browser = come("203.0.113.11")
    assert browser.guess(NAME, PASSWORD).status_code == 302
    key = cookie_of(browser.http.cookies, "mcphub_admin")
    stored = guarded.operate(operations.values, "sessions.Session", "session_key")
    assert stored
    assert key not in stored
    thief = come("203.0.113.12").http
    thief.cookies.set(name_of(browser.http.cookies, "mcphub_admin"), stored[-1])
    assert thief.get("/admin/").status_code == 302
    assert browser.http.get("/admin/").status_code == 200
