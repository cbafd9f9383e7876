"""The admin's list of calls answers any filter in bounded time, and says where it stopped."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone

import mcphub.urls  # noqa: F401 - registers the pages of the admin
from invocations.models import McpToolInvocation
from sessions_app.kit.lists.walking import WalkedKeyset
from sessions_app.models import McpSession
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory, UserFactory
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.django_db

LIST = "admin:invocations_mcptoolinvocation_changelist"


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(UserFactory(is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def calls(db):
    common = {"process": ServerProcessFactory(), "session": McpSessionFactory()}
    begin = timezone.now() - timedelta(days=2)
    for hour in range(40):
        McpToolInvocationFactory(
            **common, received_at=begin + timedelta(hours=hour), client_name="rare" if hour < 3 else "usual"
        )
    return list(McpToolInvocation.objects.order_by("id"))


def test_a_page_whose_time_is_over_leads_on_until_every_call_was_found(client, calls):
    """Each page is given the time for 8 calls."""

    class Hurried(WalkedKeyset):
        stretch, seconds = 8, 0.0

    first = timezone.localtime(calls[0].started_at)  # below lie the numbers that other tests used up
    query = {"client": "rare", "started_at_from_0": f"{first:%Y-%m-%d}", "started_at_from_1": f"{first:%H:%M:%S.%f}"}
    page = admin.site._registry[McpToolInvocation]
    usual, page.keyset = page.keyset, Hurried
    try:
        where, found, pages = f"{reverse(LIST)}?{urlencode(query)}", [], 0
        while where:
            answer = client.get(where)
            shown = answer.context_data["cl"]
            found += [row.pk for row in shown.result_list]
            pages += 1
            assert pages <= len(calls)
            assert ("Search further" in answer.content.decode()) is bool(shown.further)
            where = shown.further and reverse(LIST) + shown.further
    finally:
        page.keyset = usual
    assert found == [row.pk for row in reversed(calls[:3])]
    assert pages > 1


@pytest.mark.parametrize("per_page", [1, 2, 50])
def test_pages_of_a_filter_follow_each_other_without_gap_or_double(client, calls, per_page, monkeypatch):
    # A page whose time is over ends early, and on a busy machine there might be more of them than rows.
    monkeypatch.setattr(WalkedKeyset, "seconds", PATIENCE_SECONDS)
    rows = McpToolInvocation.objects.order_by("-id").filter(client_name="rare")
    wanted = list(rows.values_list("pk", flat=True))

    page = admin.site._registry[McpToolInvocation]
    usual, page.list_per_page = page.list_per_page, per_page

    def followed(where: str, link: str) -> list[list[int]]:
        pages = []
        for _ in range(len(wanted) + 1):
            shown = client.get(reverse(LIST) + where).context_data["cl"]
            pages.append([row.pk for row in shown.result_list])
            where = getattr(shown, link)
            if not where:
                return pages
        raise AssertionError("the pages do not end")

    try:
        downwards = followed("?client=rare", "older")
        assert [key for page in downwards for key in page] == wanted
        upwards = followed(f"?client=rare&after={calls[0].pk}", "newer")
    finally:
        page.list_per_page = usual
    assert [key for page in reversed(upwards) for key in page] == wanted[:-1]


def test_a_page_is_not_moved_by_calls_that_arrive_meanwhile(client, calls):
    where = f"{reverse(LIST)}?before={calls[20].pk}"
    before = [row.pk for row in client.get(where).context_data["cl"].result_list]
    McpToolInvocationFactory(session=calls[0].session, process=calls[0].process)
    assert before == [row.pk for row in reversed(calls[:20])]
    assert [row.pk for row in client.get(where).context_data["cl"].result_list] == before


@pytest.mark.parametrize("query", ["before=0", "after=999999999999", "before=5&after=4"])
def test_beyond_the_ends_there_is_an_empty_page_that_leads_back(client, calls, query):
    shown = client.get(f"{reverse(LIST)}?{query}").context_data["cl"]
    assert list(shown.result_list) == []
    assert shown.newer or shown.older


@pytest.mark.parametrize(
    "wrong",
    [
        "foo=1",
        "before=x",
        "p=3",
        "tool__foo=1",
        "started_at_from_0=yesterday",
        "duplicate=maybe",
        "duration_ms_to=-1",
        "code=none",
    ],
)
def test_what_the_list_does_not_know_is_left_out_and_said_and_the_rest_kept(client, calls, wrong):
    answer = client.get(f"{reverse(LIST)}?client=rare&{wrong}&columns=time,tool", follow=True)
    assert answer.redirect_chain == [(f"{reverse(LIST)}?client=rare&columns=time,tool", 302)]
    assert f"Ignored: {wrong}." in answer.content.decode()
    assert len(answer.context_data["cl"].result_list) == 3


def test_a_null_character_is_left_out_and_said_once(client, calls):
    answer = client.get(f"{reverse(LIST)}?client=rare&q=a%00b", follow=True)
    assert answer.redirect_chain == [(f"{reverse(LIST)}?client=rare", 302)]
    assert answer.content.decode().count("Ignored: q=") == 1


def test_a_range_of_time_shows_the_calls_that_started_in_it(client, calls):
    begin, end = (timezone.localtime(calls[at].started_at) for at in (10, 19))
    query = {"started_at_from_0": f"{begin:%Y-%m-%d}", "started_at_from_1": f"{begin:%H:%M:%S.%f}"}
    shown = client.get(reverse(LIST), query).context_data["cl"].result_list
    assert [row.pk for row in shown] == [row.pk for row in reversed(calls[10:])]
    query |= {"started_at_to_0": f"{end:%Y-%m-%d}", "started_at_to_1": f"{end:%H:%M:%S.%f}"}
    shown = client.get(reverse(LIST), query).context_data["cl"].result_list
    assert [row.pk for row in shown] == [row.pk for row in reversed(calls[10:20])]
    query = {"started_at_from_0": "2001-01-01", "started_at_to_0": "2001-01-02"}
    assert list(client.get(reverse(LIST), query).context_data["cl"].result_list) == []


class TestWindow:
    """What no index finds is looked for among so many rows, and the page says so and leads on."""

    @pytest.fixture
    def window(self):
        page = admin.site._registry[McpSession]
        usual, page.window = page.window, 5
        yield
        page.window = usual

    def test_a_list_says_among_how_many_it_looked(self, client, window):
        now = timezone.now()
        made = [McpSessionFactory(created_at=now - timedelta(hours=hour), caller_label="ann") for hour in range(8)]
        where = reverse("admin:sessions_app_mcpsession_changelist")
        fifth = f"searched back to {timezone.localtime(made[4].created_at):%Y-%m-%d %H:%M:%S %Z}."
        for query, count in (("?q=ann", 5), ("?transport__exact=streamable-http", 5), ("", 8)):
            answer = client.get(where + query)
            assert len(answer.context_data["cl"].result_list) == count, query
            assert (fifth in answer.content.decode()) is (count == 5), query
        for query, count in (("?state__exact=initialized", 8), (f"?q={made[-1].pk}", 1)):
            assert len(client.get(where + query).context_data["cl"].result_list) == count, query
