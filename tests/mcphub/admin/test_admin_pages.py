"""Every page opens for who may see it, and is absent for who may not."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from invocations.models import McpErrorMapping, McpRedactionRule
from sessions_app.history.reading import history_of
from sessions_app.models import ApiKey
from tests.factories import (
    LaunchProfileFactory,
    McpConnectionFactory,
    McpRequestEnvelopeFactory,
    McpSessionFactory,
    McpTaskFactory,
    McpToolInvocationFactory,
    ServerProcessFactory,
)
from tests.tools_catalog.proposals import proposal
from tools_catalog.models import Secret

pytestmark = pytest.mark.slow

EVIDENCE = [
    "sessions_app_auditevent",
    "invocations_auditblock",
    "invocations_audittombstone",
    "invocations_audithold",
    "invocations_auditpolicy",
]
LISTS = [
    "sessions_app_mcpsession",
    "sessions_app_serverprocess",
    "sessions_app_apikey",
    "tools_catalog_mcptooldefinition",
    "tools_catalog_secret",
    "invocations_mcptoolinvocation",
    "invocations_mcprequestenvelope",
    "invocations_mcptask",
    "invocations_mcperrormapping",
    "auth_user",
    "auth_group",
    "tools_catalog_mcpconnection",
    "tools_catalog_mcpupstreamtool",
    "tools_catalog_launchprofile",
    "invocations_mcprequestenvelope",
    "invocations_mcperrormapping",
    "auth_user",
    "auth_group",
    "tools_catalog_mcpconnection",
    "tools_catalog_mcpupstreamtool",
    "tools_catalog_launchprofile",
    *EVIDENCE,
    "invocations_mcpredactionrule",
    "tools_catalog_allowedhost",
]
CLOSED = {
    "Viewer": {
        "sessions_app_apikey",
        "tools_catalog_secret",
        "tools_catalog_launchprofile",
        "auth_user",
        "auth_group",
        *EVIDENCE,
    },
    "Auditor": {"tools_catalog_secret", "tools_catalog_launchprofile", "auth_user", "auth_group"},
    "Operator": {"auth_user", "tools_catalog_launchprofile", *EVIDENCE},
    "Upstream manager": {"sessions_app_apikey", "auth_user", *EVIDENCE},
    "superuser": set(),
}


@pytest.fixture
def rows(echo):
    key, _text = ApiKey.issue("laptop", scopes=["tools:call"])
    secret = Secret(name="TOKEN", origins="api.example.org")
    secret.set_value("a secret of some length")
    secret.save()
    session = McpSessionFactory()
    process = ServerProcessFactory()
    return {
        "sessions_app_mcpsession": session,
        "sessions_app_serverprocess": process,
        "sessions_app_apikey": key,
        "tools_catalog_mcptooldefinition": echo,
        "tools_catalog_secret": secret,
        "tools_catalog_mcpconnection": McpConnectionFactory(),
        "tools_catalog_mcpupstreamtool": proposal(),
        "tools_catalog_launchprofile": LaunchProfileFactory(),
        "invocations_mcptoolinvocation": McpToolInvocationFactory(session=session, process=process, failed=True),
        "invocations_mcprequestenvelope": McpRequestEnvelopeFactory(session=session, process=process),
        "invocations_mcpredactionrule": McpRedactionRule.objects.create(place="$.a"),
        "invocations_mcptask": McpTaskFactory(session=session, process=process, over=True),
        "invocations_mcperrormapping": McpErrorMapping.objects.get(internal_code="timeout"),
    }


@pytest.mark.parametrize("role", CLOSED)
def test_each_role_opens_its_pages_and_no_others(role, log_in, rows):
    client = log_in(role)
    overview = client.get(reverse("admin:index"))
    assert overview.status_code == 200
    for page in LISTS:
        allowed = page not in CLOSED[role]
        address = reverse(f"admin:{page}_changelist")
        assert client.get(address).status_code == (200 if allowed else 403), page
        # Permission-less controls are absent: the map names only what opens.
        assert (address in {tab.link for area in overview.context["hub_areas"] for tab in area.tabs}) is allowed, page
        if page in rows:
            change = reverse(f"admin:{page}_change", args=[rows[page].pk])
            assert client.get(change).status_code == (200 if allowed else 403), page


@pytest.mark.parametrize("page", ["tools_catalog_mcptooldefinition", "sessions_app_apikey", "tools_catalog_secret"])
def test_pages_to_add_open(page, log_in):
    assert log_in("superuser").get(reverse(f"admin:{page}_add")).status_code == 200


@pytest.mark.parametrize(
    "row", ["sessions_app_apikey", "tools_catalog_mcptooldefinition", "invocations_mcperrormapping"]
)
def test_history_opens_and_nothing_is_written_back_from_it(row, log_in, rows):
    """What was is read; it is written back through the forms alone, and their checks."""
    record = rows[row]
    field = (
        "name" if hasattr(record, "prefix") else "description" if hasattr(record, "description") else "message_template"
    )
    setattr(record, field, f"{getattr(record, field)} more")
    record.save()
    for role in ("superuser", "Operator"):
        client = log_in(role)
        assert client.get(reverse(f"admin:{row}_history", args=[record.pk])).status_code == 200
        past = reverse(f"admin:{row}_history_entry", args=[record.pk, history_of(record).first().pk])
        assert client.get(past).status_code == 200
        assert client.post(past, {"name": "changed"}).status_code == 405


@pytest.mark.parametrize(
    "row",
    [
        "tools_catalog_mcptooldefinition",
        "sessions_app_apikey",
        "invocations_mcptoolinvocation",
        "invocations_mcprequestenvelope",
        "invocations_mcptask",
        "sessions_app_mcpsession",
        "invocations_mcperrormapping",
    ],
)
def test_nothing_on_record_is_deleted(row, log_in, rows):
    address = reverse(f"admin:{row}_delete", args=[rows[row].pk])
    assert log_in("superuser").post(address, {"post": "yes"}).status_code == 403


def test_overview_says_what_to_do_while_nothing_was_called(log_in):
    page = log_in("Operator").get(reverse("admin:index")).content.decode()
    assert reverse("connect") in page
    McpToolInvocationFactory(failed=True)
    page = log_in("Operator").get(reverse("admin:index")).content.decode()
    assert "Recent calls" in page
    assert "Next steps" not in page


def test_overview_costs_few_statements(log_in, django_assert_max_num_queries):
    for _ in range(15):
        McpToolInvocationFactory()
    client = log_in("superuser")
    with django_assert_max_num_queries(27):
        client.get(reverse("admin:index"))


def test_somebody_without_a_group_is_told_so(log_in, client):
    from tests.factories import UserFactory

    client.force_login(UserFactory(is_staff=True))
    page = client.get(reverse("admin:index"))
    assert page.status_code == 200
    assert "no permissions yet" in page.content.decode()


@pytest.mark.parametrize("chosen", ["15m", "1h", "24h", "7d", "custom", "no"])
def test_tiles_and_charts_count_what_their_lists_show(log_in, chosen):
    if chosen == "custom":
        begin, end = (timezone.localtime() + timedelta(days=days) for days in (-300, 60))
        chosen = f"custom&from={begin:%Y-%m-%dT%H:%M}&to={end:%Y-%m-%dT%H:%M}"
    session = McpSessionFactory(client_name="cursor")
    McpSessionFactory(state="created", initialized_at=None)
    long_ago = timezone.now() - timedelta(hours=2)
    McpSessionFactory(created_at=long_ago, initialized_at=long_ago, last_activity_at=long_ago)
    for failed in (False, True):
        McpToolInvocationFactory(session=session, client_name="cursor", failed=failed)
    client = log_in("superuser")
    shown = client.get(reverse("admin:index") + f"?range={chosen}").context

    def listed(link: str) -> int:
        return len(client.get(link).context["cl"].result_list)

    words = {tile["title"]: tile["words"] for tile in shown["tiles"]}
    assert (words["Calls"], words["Errors"], words["Active sessions"]) == ("2", "50.0\N{NO-BREAK SPACE}%", "2")
    counted = {"Calls": 2, "Errors": 1, "Active sessions": 2, "Enabled tools": 0, "Offers waiting for approval": 0}
    assert {tile["title"]: listed(tile["link"]) for tile in shown["tiles"] if tile["title"] in counted} == counted
    for row in shown["charts"][0]["rows"]:
        assert listed(row["link"]) == row["cells"][1]
        assert [listed(link) for _cell, link in row["linked"][2:]] == row["cells"][2:]
    drawn = json.loads(shown["charts"][0]["drawing"])
    for series in drawn["series"]:
        assert sum(series["values"]) == 1
        assert all(
            listed(link) == value for value, link in zip(series["values"], series["links"], strict=True) if value
        )
    assert sum(listed(link) for link in drawn["links"] if link) == 2
    for table in shown["tables"]:
        for row in table["rows"]:
            assert listed(row["link"]) == int(row["calls"]), table["title"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("range=never", "Choose a range"),
        ("range=custom&from=x", "Choose a range"),
        ("range=custom&from=2026-02-31T00:00&to=2026-03-01T00:00", "Choose a range"),
        ("range=custom&from=2026-03-01T00:00&to=2026-03-01T00:00", "before the end"),
        ("range=custom&from=2001-03-01T00:00&to=2026-03-01T00:00", "at most a year"),
    ],
)
def test_a_range_that_cannot_be_shown_says_why(log_in, asked, said):
    McpToolInvocationFactory()  # before the first call the page says what to do instead
    page = log_in("superuser").get(reverse("admin:index") + f"?{asked}")
    assert page.status_code == 200
    assert said in page.content.decode()


def test_spans_of_time_are_in_the_language_of_the_reader(log_in):
    McpToolInvocationFactory(duration_ms=42)
    McpToolInvocationFactory(duration_ms=12_345)
    client = log_in("superuser")
    for language, words in (("en", ["42 ms", "12.3 s"]), ("ru", ["42 мс", "12,3 с"])):
        for address in ("admin:index", "admin:invocations_mcptoolinvocation_changelist"):
            page = client.get(reverse(address), headers={"accept-language": language}).content.decode()
            assert [word for word in words if word not in page] == []


@pytest.mark.parametrize(("language", "words"), [("en", "Back to the list"), ("ru", "Назад к списку")])
def test_the_way_out_of_a_page_that_only_shows_a_row_says_where_it_leads(log_in, language, words):
    page = reverse("admin:tools_catalog_mcpconnection_change", args=[McpConnectionFactory().pk])
    shown = log_in("Viewer").get(page, headers={"accept-language": language}).content.decode()
    row = shown[shown.index('id="submit-row"') :]
    assert words in row
    assert not re.search(r"(Close|Закрыть)\s*</a>", row)
    assert reverse("admin:tools_catalog_mcpconnection_changelist") in row
    editor = log_in("Operator").get(page, headers={"accept-language": language}).content.decode()
    assert words not in editor[editor.index('id="submit-row"') :]
