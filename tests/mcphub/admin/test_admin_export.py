"""The calls that a list's filters find, as a file: whole, in their order, redacted as they are, and on record."""

from __future__ import annotations

import asyncio
import csv
import io
import json

import pytest
from django.core.exceptions import PermissionDenied
from django.urls import reverse

from invocations.models import McpToolInvocation
from sessions_app.history.models import AuditEvent
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory


@pytest.fixture
def db(transactional_db):
    """For `log_in`, too: the file is written by a thread with a connection of its own."""


@pytest.fixture
def calls(db):
    common = {"session": McpSessionFactory(), "process": ServerProcessFactory()}
    for number in range(7):
        McpToolInvocationFactory(**common, tool_name="echo", arguments={"text": f"body {number}"})
    McpToolInvocationFactory(
        **common,
        tool_name="=2+3",
        caller_label="a\nb",
        arguments={"password": "[redacted]"},
        left_out={"arguments": {"redacted": ["$.password"]}},
    )
    return list(McpToolInvocation.objects.order_by("-id"))


def export(client, query="", **form):
    answer = client.post(f"{reverse('admin:invocation_export')}?{query}", {"format": "jsonl", **form})
    if not answer.streaming:
        return answer, b""

    async def read():
        return b"".join([part async for part in answer.streaming_content])

    return answer, asyncio.run(read())


def test_each_call_that_the_filters_find_is_a_line_newest_first_and_the_export_on_record(log_in, calls):
    answer, file = export(log_in("Auditor"), "tool_name=echo", bodies="on")
    assert answer["Content-Disposition"] == 'attachment; filename="calls.jsonl"'
    *rows, end = [json.loads(line) for line in file.splitlines()]
    found = [row for row in calls if row.tool_name == "echo"]
    assert end == {"end": {"rows": len(found), "through": calls[0].pk}}
    assert [row["invocation_id"] for row in rows] == [row.invocation_id for row in found]
    assert [row["arguments"] for row in rows] == [row.arguments for row in found]
    event = AuditEvent.objects.get(kind="audit.exported")
    assert event.after["filters"] == {"tool_name": "echo"}
    assert (event.after["format"], event.after["bodies"], event.after["through"]) == ("jsonl", True, calls[0].pk)
    assert event.actor.startswith("user:")


def test_it_goes_on_beyond_what_is_in_memory_at_once(log_in, calls):
    common = {"session": calls[0].session, "process": calls[0].process}
    rows = [McpToolInvocationFactory.build(**common, invocation_id=f"more-{number}") for number in range(1100)]
    McpToolInvocation.objects.bulk_create(rows)
    _answer, file = export(log_in("Viewer"))
    *rows, end = [json.loads(line) for line in file.splitlines()]
    told = [row["sequence"] for row in rows]
    assert end["end"]["rows"] == len(told)
    assert told == list(McpToolInvocation.objects.order_by("-id").values_list("id", flat=True))


def test_a_spreadsheet_is_given_no_formula_and_a_line_for_each_call(log_in, calls):
    _answer, file = export(log_in("Auditor"), format="csv", bodies="on")
    assert file.count(b"\r\n") == len(calls) + 2
    *rows, end = csv.DictReader(io.StringIO(file.decode()))
    assert [value for value in end.values() if value] == ["end", str(len(calls))]
    assert rows[0]["tool_name"] == "'=2+3"
    assert rows[0]["caller_label"] == "a\\nb"
    assert json.loads(rows[0]["arguments"]) == {"password": "[redacted]"}
    assert json.loads(rows[0]["left_out"]) == {"arguments": {"redacted": ["$.password"]}}


def test_bodies_go_only_to_who_may_read_them_and_asks_for_them(log_in, calls):
    viewer = log_in("Viewer")
    assert export(viewer, bodies="on")[0].status_code == 403
    assert not AuditEvent.objects.filter(kind="audit.exported").exists()
    for client in (viewer, log_in("Auditor")):
        _answer, file = export(client)
        assert b"body 1" not in file
        assert all(json.loads(line)["bodies_hidden"] for line in file.splitlines()[:-1])
    assert (
        "your account can't read them"
        in viewer.get(reverse("admin:invocations_mcptoolinvocation_changelist")).content.decode()
    )


@pytest.mark.parametrize(("query", "form"), [("foo=1", {}), ("", {"format": "xml"})])
def test_what_cannot_be_exported_is_refused_with_what_to_do(query, form, log_in, calls):
    answer, _file = export(log_in("Auditor"), query, **form)
    assert answer.status_code == 400
    assert answer.content
    assert not AuditEvent.objects.filter(kind="audit.exported").exists()


def test_whoever_opens_the_address_of_an_export_is_led_to_the_list(log_in, calls):
    answer = log_in("Auditor").get(f"{reverse('admin:invocation_export')}?tool_name=add", follow=True)
    assert answer.redirect_chain == [
        (f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?tool_name=add", 302)
    ]
    assert "then press Download" in answer.content.decode()


def test_a_file_that_was_cut_off_lacks_its_last_line(log_in, calls):
    """The rights of who reads end before the first row is written."""
    client = log_in("Auditor")
    answer = client.post(reverse("admin:invocation_export"), {"format": "jsonl"})
    client.user.groups.clear()
    got = []

    async def read():
        async for part in answer.streaming_content:
            got.append(part)

    with pytest.raises(PermissionDenied):
        asyncio.run(read())
    assert b"end" not in b"".join(got)
