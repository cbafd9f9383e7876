"""Who reads bodies in the admin is on record, as over REST; whoever may not read them leaves no such record."""

from __future__ import annotations

import pytest
from django.urls import reverse

from invocations.redaction.hiding import tag
from sessions_app.history.models import AuditEvent
from sessions_app.kit.lists.walking import WalkedKeyset
from tests.factories import McpRequestEnvelopeFactory, McpTaskFactory, McpToolInvocationFactory

pytestmark = pytest.mark.django_db


def read():
    return AuditEvent.objects.filter(kind="bodies.read")


@pytest.mark.parametrize(
    ("make", "page"),
    [
        (McpToolInvocationFactory, "invocations_mcptoolinvocation"),
        (McpRequestEnvelopeFactory, "invocations_mcprequestenvelope"),
        (McpTaskFactory, "invocations_mcptask"),
    ],
)
def test_a_page_with_bodies_is_an_event_and_one_without_is_none(log_in, make, page):
    row = make()
    address = reverse(f"admin:{page}_change", args=[row.pk])
    assert log_in("Viewer").get(address).status_code == 200
    assert not read().exists()
    auditor = log_in("Auditor")
    assert auditor.get(address).status_code == 200
    event = read().get()
    assert (event.actor, event.subject_label) == (f"user:{auditor.user.pk}", address)
    assert event.after["rows"] == [row.pk]


def test_a_downloaded_body_is_an_event(log_in):
    row = McpToolInvocationFactory()
    log_in("Auditor").get(reverse("admin:invocation_body", args=[row.pk, "result"]))
    assert read().get().after["bodies"] == ["result"]


def test_replay_page_shows_why_a_call_cannot_be_made_again(log_in):
    row = McpToolInvocationFactory(left_out={"arguments": {"redacted": ["$.text"]}})
    auditor = log_in("Auditor")
    page = auditor.get(reverse("admin:invocations_mcptoolinvocation_replay", args=[row.pk]), follow=True)
    assert "arguments are redacted on record" in page.content.decode()
    shown = auditor.get(reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk])).content.decode()
    assert "redacted: $.text" in shown
    assert log_in("Viewer").get(reverse("invocation_replay", args=[row.pk])).status_code == 403


def test_replay_page_asks_before_an_effect(log_in, echo):
    echo.read_only = False
    echo.save()
    row = McpToolInvocationFactory(tool_name="echo", tool_version=echo.version, arguments={"text": "hello"})
    address = reverse("invocation_replay", args=[row.pk])
    assert "replay its calls" in log_in("Auditor").get(address).content.decode()
    assert log_in("Auditor").post(address, {"make": "yes", "agreed": "on"}).status_code == 403
    page = log_in("superuser").post(address, {"make": "yes", "version": echo.version}).content.decode()
    assert "Select the checkbox first. No call was made." in page


def test_replay_form_that_is_sent_twice_names_the_same_request(log_in, echo):
    row = McpToolInvocationFactory(tool_name="echo", tool_version=echo.version, arguments={"text": "hello"})
    address = reverse("invocation_replay", args=[row.pk])
    auditor = log_in("Auditor")
    forms = [auditor.get(address).context["once"] for _ in range(2)]
    assert forms[0] != forms[1]
    assert f'name="once" value="{forms[0]}"' in auditor.post(address, {"once": forms[0]}).content.decode()
    assert auditor.post(address, {"once": "two words"}).context["once"] not in ("two words", *forms)


def test_calls_are_found_by_an_argument_also_a_redacted_one_and_the_search_is_on_record(log_in, settings):
    mark = tag("s3cret", settings.MCPHUB_ENCRYPTION_KEYS)
    rows = [McpToolInvocationFactory(arguments={"text": text}) for text in ("hello", mark)]
    address = reverse("admin:invocations_mcptoolinvocation_changelist")

    def found(role, condition):
        page = log_in(role).get(address, {"arguments": condition})
        return [row.pk for row in page.context["cl"].result_list], page.content.decode()

    assert found("Auditor", '$.text="hello"')[0] == [rows[0].pk]
    assert found("Auditor", '$.text="s3cret"')[0] == [rows[1].pk]
    assert "s3cret" not in repr(list(read().values_list("after")))
    assert found("Auditor", "text=1")[0] == []
    assert "Searched " in found("Auditor", '$.text="hello"')[1]
    pages, words = found("Viewer", '$.text="hello"')
    assert pages == []
    assert "read bodies" in words


def test_calls_are_found_by_a_result_and_what_was_looked_through_is_told(log_in):
    rows = [McpToolInvocationFactory(result={"structuredContent": {"count": count}}) for count in (1, 3, 1)]
    McpToolInvocationFactory(failed=True)
    address = reverse("admin:invocations_mcptoolinvocation_changelist")
    answer = log_in("Auditor").get(address, {"result": "$.structuredContent.count=1"})
    assert [row.pk for row in answer.context["cl"].result_list] == [rows[2].pk, rows[0].pk]
    assert answer.context["cl"].paginator.keyset.looked_at >= 4
    assert read().get().after["searched"] == ["result"]
    assert (
        list(log_in("Viewer").get(address, {"result": "$.structuredContent.count=1"}).context["cl"].result_list) == []
    )


def test_a_search_in_bodies_goes_on_from_page_to_page_at_any_depth(log_in, monkeypatch):
    """Each page is given the time for two calls."""
    rows = [McpToolInvocationFactory(result={"n": 7 if number == 0 else 0}) for number in range(7)]
    monkeypatch.setattr(WalkedKeyset, "stretch", 2)
    monkeypatch.setattr(WalkedKeyset, "seconds", 0.0)
    client, where, found = log_in("Auditor"), "?result=$.n=7", []
    for _page in range(10):
        shown = client.get(reverse("admin:invocations_mcptoolinvocation_changelist") + where).context["cl"]
        found.append([row.pk for row in shown.result_list])
        if found[-1]:
            break
        where = shown.further
    assert found == [[], [], [], [rows[0].pk]]


def test_page_of_an_envelope_leads_to_its_session_and_shows_params_by_right(log_in):
    row = McpRequestEnvelopeFactory(params={"name": "echo", "arguments": {"text": "a word of the caller"}})
    page = reverse("admin:invocations_mcprequestenvelope_change", args=[row.pk])
    session = reverse("admin:sessions_app_mcpsession_change", args=[row.session_id])
    for role, sees in (("Viewer", False), ("Auditor", True)):
        shown = log_in(role).get(page).content.decode()
        assert session in shown
        assert ("a word of the caller" in shown) is sees
