"""A session's page tells what it did in order, page by page, and ends it after a question."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from invocations.admin import sessions as admin_sessions
from invocations.rest import live
from sessions_app.history.models import AuditEvent
from sessions_app.models import BusEvent, McpSession
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory


@pytest.fixture(autouse=True)
def _all_is_visible(monkeypatch):
    """Another test of this process may have looked a moment ago; the first look of all decides here."""
    monkeypatch.setattr(live, "settling", live.SettlingCalls())


@pytest.fixture
def session(db):
    return McpSessionFactory(client_name="editor", protocol_version="2025-11-25")


def calls(session, count):
    process = ServerProcessFactory()
    made = [McpToolInvocationFactory(session=session, process=process, tool_name=f"t{n}") for n in range(count)]
    return [row.pk for row in made]


def page(client, session, **query):
    answer = client.get(reverse("admin:sessions_app_mcpsession_change", args=[session.pk]), query)
    assert answer.status_code == 200
    return answer


def told(answer):
    return [line.tool or line.what for line in answer.context["transcript"].lines]


def test_a_session_is_told_from_its_beginning_to_its_end(log_in, session):
    calls(session, 2)
    calls(McpSessionFactory(), 1)
    client = log_in("Viewer")
    assert told(page(client, session))[-2:] == ["t0", "t1"]
    assert told(page(client, session))[0] == "initialize"
    McpSession.objects.filter(pk=session.pk).close("closed by somebody")
    last = page(client, session).context["transcript"].lines[-1]
    assert (last.what, last.note) == ("session ended", "closed by somebody")
    links = [line.link for line in page(client, session).context["transcript"].lines if line.tool]
    assert client.get(links[0]).status_code == 200


def test_pages_follow_each_other_without_gap_or_double(log_in, session, monkeypatch):
    monkeypatch.setattr(admin_sessions, "PAGE", 2)
    calls(session, 5)
    client = log_in("Viewer")
    newest = page(client, session)
    assert told(newest) == ["t3", "t4"]
    middle = page(client, session, before=newest.context["transcript"].first)
    assert told(middle) == ["t1", "t2"]
    first = page(client, session, before=middle.context["transcript"].first)
    assert told(first)[-1:] == ["t0"]
    assert told(first)[0] == "initialize"
    begun = page(client, session, after=0)
    assert told(begun)[-2:] == ["t0", "t1"]
    assert told(page(client, session, after=begun.context["transcript"].last)) == ["t2", "t3"]
    assert told(page(client, session, after="nonsense")) == ["t3", "t4"]


def test_what_came_since_is_given_once(log_in, session):
    first, second = calls(session, 2)
    client = log_in("Viewer")

    def since(after):
        answer = client.get(reverse("admin:session_transcript", args=[session.pk, after]))
        return [line.tool for line in answer.context["lines"]], answer

    assert since(0)[0] == ["t0", "t1"]
    assert since(first)[0] == ["t1"]
    rows, answer = since(second)
    assert (rows, answer["X-Last"], answer["X-Ended"]) == ([], str(second), "0")
    McpSession.objects.filter(pk=session.pk).close("over")
    assert since(second)[1]["X-Ended"] == "1"
    assert client.get(reverse("admin:session_transcript", args=["none", 0])).status_code == 404


def test_a_session_is_killed_once_its_id_is_written(log_in, session):
    client = log_in("Operator")
    address = reverse("admin:sessions_app_mcpsession_change", args=[session.pk])
    kill = reverse("admin:sessions_app_mcpsession_kill", args=[session.pk])
    assert kill in client.get(address).content.decode()
    client.post(kill, {"confirmed": "yes", "typed": "no"})
    assert McpSession.objects.live().filter(pk=session.pk).exists()
    client.post(kill, {"confirmed": "yes", "typed": session.pk[:8], "reason": "loops"})
    session.refresh_from_db()
    assert session.state == "closed"
    event = AuditEvent.objects.get(kind="session.ended")
    assert (event.actor, event.subject_id) == (f"user:{client.user.pk}", session.pk)
    assert "loops" in event.reason
    assert session.end_reason == f"killed by {client.user.get_username()}: loops"
    assert BusEvent.objects.filter(subject="session_ended", payload=session.pk).exists()
    assert kill not in client.get(address).content.decode()


def test_who_may_not_close_sessions_finds_no_way_to_kill_one(log_in, session):
    kill = reverse("admin:sessions_app_mcpsession_kill", args=[session.pk])
    client = log_in("Viewer")
    assert kill not in page(client, session).content.decode()
    assert client.post(kill, {"confirmed": "yes", "typed": session.pk[:8]}).status_code == 403
    implicit = McpSessionFactory(is_implicit=True, state="created", initialized_at=None)
    assert "End session" not in page(log_in("Operator"), implicit).content.decode()
    assert told(page(client, implicit)) == ["first request"]


def test_a_session_that_is_due_reads_expired_in_the_list_and_on_its_page(log_in, session):
    client = log_in("Viewer")
    McpSession.objects.filter(pk=session.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    listed = client.get(reverse("admin:sessions_app_mcpsession_changelist"))
    assert [row.state for row in listed.context["cl"].result_list] == ["expired"]
    McpSession.objects.filter(pk=(other := McpSessionFactory()).pk).update(expires_at=timezone.now() - timedelta(1))
    assert page(client, other).context["original"].state == "expired"
