"""The pages of conversations: transcripts with their calls, usage, and the buckets of the rate limit."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from mcphub.features.approvals.models import McpApproval
from mcphub.features.chat.models import AIResponse, ChatMessage, ChatSession, Query
from sessions_app.history.models import AuditEvent
from sessions_app.models import RateLimitBucket
from tests.factories import ApiKeyFactory, McpToolInvocationFactory, UserFactory


@pytest.fixture
def turn(db):
    """One turn of a conversation, with a call that is in the audit and one that never ended."""
    now = timezone.now()
    session = ChatSession.objects.create(
        principal="key:1", caller_label="newcomer", expires_at=now + timedelta(hours=1), ends_at=now + timedelta(days=1)
    )
    query = Query.objects.create(
        session=session,
        content="a secret question",
        principal="key:1",
        caller_label="newcomer",
        entry_point="query",
        state="done",
        process_id="p",
    )
    AIResponse.objects.create(
        query=query,
        content="a secret answer",
        provider_used="openai",
        model="gpt",
        prompt_tokens=70,
        completion_tokens=8,
        duration_ms=900,
    )
    function = {"name": "weather", "arguments": '{"city":"Berlin"}'}
    calls = [{"id": id_, "type": "function", "function": function} for id_ in ("a", "b")]
    made_up = '{"error":"interrupted"}'
    for fields in (
        {"role": "user", "content": "a secret question", "left_out": "limit"},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": "<b>sunny</b>", "tool_call_id": "a"},
        {"role": "tool", "content": made_up, "tool_call_id": "b", "is_synthetic": True},
        {"role": "assistant", "content": "a secret answer \u202e"},
    ):
        ChatMessage.objects.create(session=session, query=query, **fields)
    call = McpToolInvocationFactory(
        transport="chat", turn_id=str(query.pk), tool_call_id="a", turn_round=1, tool_name="weather"
    )
    return session, query, call


def pages(session, query):
    return tuple(
        reverse(f"admin:chat_{name}_change", args=[row.pk])
        for name, row in (("chatsession", session), ("query", query))
    )


def test_a_transcript_nests_calls_and_leads_to_the_audit_and_back(turn, log_in):
    session, query, call = turn
    client = log_in("Auditor")
    invocation = reverse("admin:invocations_mcptoolinvocation_change", args=[call.pk])
    for page in pages(session, query):
        words = client.get(page).content.decode()
        assert invocation in words
        assert "a secret answer \\u202e" in words
        assert "&lt;b&gt;sunny&lt;/b&gt;" in words
        assert "not answered" in words
        assert "Over the limit" in words
        assert "70 input + 8 output tokens" in words
    back = f"{reverse('admin:chat_query_changelist')}?q={query.pk}"
    assert back in client.get(invocation).content.decode()
    assert client.get(back).headers["location"] == pages(session, query)[1]


def test_a_call_that_waits_leads_to_its_approval_and_back(turn, log_in):
    session, query, _ = turn
    now = timezone.now()
    approval = McpApproval.objects.create(
        id="mcpr_1",
        principal="key:1",
        caller_label="newcomer",
        turn_id=str(query.pk),
        call_id="b",
        tool_name="weather",
        tool_version="1",
        arguments={},
        binding="0" * 64,
        created_at=now,
        expires_at=now + timedelta(minutes=10),
    )
    client = log_in("Auditor")
    page = reverse("admin:invocations_mcpapproval_change", args=[quote(approval.pk)])
    for each in pages(session, query):
        assert page in client.get(each).content.decode()
    assert pages(session, query)[1] in client.get(page).content.decode()


def test_what_was_said_is_for_those_who_may_read_it(turn, log_in):
    session, query, _ = turn
    client = log_in("Viewer")
    for page in (*pages(session, query), reverse("admin:chat_query_changelist")):
        words = client.get(page).content.decode()
        assert "secret" not in words
    assert "secret question" in log_in("Auditor").get(reverse("admin:chat_query_changelist")).content.decode()


def test_calls_in_a_transcript_keep_their_bodies_from_who_may_not_read_them(turn, client):
    session, query, _ = turn
    user = UserFactory(is_staff=True)
    names = ("view_chatsession", "view_query", "read_conversations")
    user.user_permissions.add(*Permission.objects.filter(codename__in=names))
    client.force_login(user)
    for page in pages(session, query):
        words = client.get(page).content.decode()
        assert "secret answer" in words
        assert "read arguments, results and errors" in words
        assert ("Berlin" in words, "sunny" in words) == (False, False)


def test_who_reads_what_was_said_is_on_record(turn, log_in):
    session, query, _ = turn
    conversation, question = pages(session, query)
    questions = reverse("admin:chat_query_changelist")
    for page in (conversation, question, questions):
        assert log_in("Viewer").get(page).status_code == 200
    assert not AuditEvent.objects.filter(kind="bodies.read").exists()
    auditor = log_in("Auditor")
    for page in (conversation, question, questions):
        assert auditor.get(page).status_code == 200
    told = [
        (each.subject_label, each.after["bodies"], each.after["rows"])
        for each in AuditEvent.objects.filter(kind="bodies.read").order_by("pk")
    ]
    assert told == [
        (conversation, ["messages", "context"], [str(session.pk)]),
        (question, ["messages", "metadata"], [str(query.pk)]),
        (questions, ["content"], [str(query.pk)]),
    ]


def test_what_cannot_be_put_on_record_is_not_shown(turn, log_in):
    auditor = log_in("Auditor")
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {AuditEvent._meta.db_table} RENAME TO gone")
    for page in (*pages(*turn[:2]), reverse("admin:chat_query_changelist")):
        answer = auditor.get(page)
        assert (answer.status_code, "secret" in answer.content.decode()) == (200, False)


def test_usage_is_counted_by_caller(turn, log_in):
    Query.objects.create(
        content="?", principal="key:2", entry_point="query", state="failed", error_code="x", process_id="p"
    )
    client = log_in("Viewer")
    words = client.get(reverse("admin:chat_usage")).content.decode()
    assert "newcomer" in words
    assert "<strong>78</strong>" in words
    assert reverse("admin:chat_usage") in client.get(reverse("admin:chat_query_changelist")).content.decode()
    Query.objects.update(timestamp=timezone.now() - timedelta(days=3))
    assert "newcomer" not in client.get(reverse("admin:chat_usage")).content.decode()
    assert "newcomer" in client.get(reverse("admin:chat_usage") + "?range=7d").content.decode()


def test_buckets_show_what_is_left_now_and_are_not_filled_by_viewers(log_in):
    key = ApiKeyFactory(name="busy one")
    bucket = RateLimitBucket.objects.create(
        client_id=f"key:{key.pk} chat",
        tokens=0,
        capacity=10,
        refill_per_second=1 / 3600,
        last_refill=timezone.now() - timedelta(hours=5),
        last_request=timezone.now(),
    )
    page = reverse("admin:sessions_app_ratelimitbucket_changelist")
    words = log_in("Viewer").get(page).content.decode()
    assert "busy one" in words
    assert "5.0 / 10" in words
    fill = {"action": "fill", "_selected_action": [bucket.pk]}
    log_in("Viewer").post(page, fill)
    bucket.refresh_from_db()
    assert bucket.tokens == 0
