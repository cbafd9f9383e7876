"""The page of one call tells what it has to do with others and how to make it again, and lets no secret out."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from django.urls import reverse

from invocations.copying import copies
from tests.factories import McpRequestEnvelopeFactory, McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory


def page_of(client, row, **query):
    return client.get(reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]), query)


def address(row):
    return reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk])


def steps_of(client, row):
    return {step.word: step for step in page_of(client, row).context["waterfall"].steps}


def test_the_steps_have_the_times_that_are_on_record(log_in):
    row = McpToolInvocationFactory(failed=True)
    steps = steps_of(log_in("Viewer"), row)
    assert list(steps) == ["Session", "Received and checked", "Tool running", "Outcome", "Sealed"]
    work, outcome = steps["Tool running"], steps["Outcome"]
    assert (work.after, work.took, work.begin, work.width) == ("+0 ms", "5 ms", 0, 1000)
    assert (outcome.what, outcome.after, outcome.kind) == ("execution_error", "+5 ms", "bad")
    assert steps["Sealed"].at is None
    assert "not timed" in steps["Received and checked"].note
    envelope = McpRequestEnvelopeFactory(invocation_id=row.invocation_id, received_at=row.received_at)
    assert steps_of(log_in("Viewer"), row)["Intent recorded"].what == f"#{envelope.pk}"


def test_a_step_without_a_time_says_where_it_is_found(log_in):
    row = McpToolInvocationFactory(connection="git", turn_id="turn", turn_round=2)
    steps = steps_of(log_in("Viewer"), row)
    assert steps["Upstream"].at is None
    assert "the trace" in steps["Upstream"].note
    assert steps["Chat turn"].link.endswith("?q=turn")


def test_the_steps_of_a_call_that_was_not_made_do_not_name_the_tool(log_in):
    made = McpToolInvocationFactory(failed=True)
    row = McpToolInvocationFactory(failed=True, started_at=made.started_at, finished_at=made.started_at)
    page = page_of(log_in("Viewer"), row)
    assert steps_of(log_in("Viewer"), row)["Tool running"].note == "not called"
    assert "The tool was not called." in page.content.decode()
    assert "The tool was not called." not in page_of(log_in("Viewer"), made).content.decode()


def test_the_head_says_what_went_wrong_and_what_to_do_and_leads_on(log_in):
    before = McpToolInvocationFactory(tool_name="echo")
    row = McpToolInvocationFactory(tool_name="echo", failed=True, error_code="timeout", session=before.session)
    page = page_of(log_in("Auditor"), row)
    head = page.context["head"]
    assert head.happened == "The tool did not finish before its deadline. The call may still take effect."
    assert "raise the tool's timeout" in head.then
    assert head.said == row.error["message"]
    [similar] = [link.link for link in head.links if link.words == "Similar failures"]
    assert similar.endswith("?q=tool%3Aecho+code%3Atimeout")
    assert [body.name for body in head.bodies] == ["arguments", "error"]
    assert [call["address"] for each in page.context["neighbours"] for call in each["calls"]] == [address(before)] * 2
    hidden = page_of(log_in("Viewer"), row).context["head"]
    assert (hidden.said, hidden.bodies) == ("", [])


def test_each_id_has_a_button_that_copies_it(log_in):
    row = McpToolInvocationFactory(request_id=7, trace_id="trace")
    page = page_of(log_in("Viewer"), row).content.decode()
    for name in ("invocation", "request", "session", "trace", "process"):
        assert page.count(f'id="hub-copy-{name}"') == page.count(f'data-copy="hub-copy-{name}"') == 1


def test_relatives_are_found_by_what_the_rows_say(log_in):
    session, process = McpSessionFactory(), ServerProcessFactory()
    common = {"process": process, "session": session}
    first = McpToolInvocationFactory(**common, request_id=7, turn_id="turn", trace_id="trace")
    stranger = McpToolInvocationFactory(process=process, tool_name="other")
    row = McpToolInvocationFactory(**common, request_id=7, duplicate_of=first.invocation_id, turn_id="turn")
    again = McpToolInvocationFactory(process=process, replay_of=row.invocation_id, tool_name="third")
    later = McpToolInvocationFactory(**common, tool_name="fourth", continues=row.invocation_id)

    def relations(of):
        told = page_of(log_in("Viewer"), of).context["related"]
        return {each.title: [call["address"] for call in each.calls] for each in told}

    assert relations(row) == {
        "Same request ID, same session": [address(first)],
        "Repeats and their original": [address(first)],
        "Rounds of one call": [address(later)],
        "Replays and their original": [address(again)],
        "Same chat turn": [address(first)],
    }
    assert relations(first)["Repeats and their original"] == [address(row)]
    assert relations(later)["Rounds of one call"] == [address(row)]
    assert relations(again) == {"Replays and their original": [address(row)]}
    assert relations(stranger) == {}


def test_a_viewer_is_shown_neither_arguments_nor_the_proof(log_in):
    row = McpToolInvocationFactory(arguments={"text": "a-body"})
    page = page_of(log_in("Viewer"), row, verify="1")
    assert "a-body" not in page.content.decode()
    assert (page.context["copies"].forms, page.context["integrity"]) == ([], None)
    assert "a-body" in "".join(form.text for form in page_of(log_in("Auditor"), row).context["copies"].forms)


@pytest.mark.parametrize(
    ("changes", "forms", "said"),
    [
        ({"arguments": {"text": "x" * 70_000}}, 0, "too large"),
        ({"left_out": {"arguments": {"truncated": True, "bytes": 5}}}, 0, "truncated"),
        ({"left_out": {"arguments": {"redacted": ["$.text"]}}}, 3, "redacted"),
        ({"left_out": {"result": {"redacted": ["$.text"]}}}, 3, ""),
    ],
)
def test_what_cannot_be_copied_is_said(changes, forms, said, log_in):
    copied = page_of(log_in("Auditor"), McpToolInvocationFactory(**changes)).context["copies"]
    assert len(copied.forms) == forms
    assert said in copied.why + copied.caution


HOSTILE = {"text": 'it\'s \u202e"$HOME" `id` \\ \U000e0041\x7f \ud800 привет 🌍\n', "n": [1, 2.5, None, True]}


@pytest.mark.program
@pytest.mark.parametrize("arguments", [{}, {"text": "hi"}, HOSTILE])
def test_each_copy_says_the_same_call_visibly(arguments):
    row = McpToolInvocationFactory.build(session=None, process=None, tool_name="имя", arguments=arguments)
    made = {form.key: form.text for form in copies(row, "http://hub.example/mcp", {})}
    assert not set("\u202e\x7f\U000e0041\ud800") & set("".join(made.values()))
    message = json.loads(made["mcp"])
    assert message["params"]["arguments"] == arguments
    words = shlex.split(made["curl"].replace("\\\n", " "))
    assert json.loads(words[-1]) == message
    assert "Authorization: Bearer YOUR-KEY" in words
    assert "Mcp-Name: =?base64?0LjQvNGP?=" in words
    compile(made["python"], "copied", "exec")
    values = made["python"].split("ARGUMENTS = ")[1].split("\n")[0]
    told = subprocess.run(
        [sys.executable, "-c", f"import json; print(json.dumps({values}))"], capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout) == arguments


def test_a_copy_repeats_the_arguments_that_go_into_headers():
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    row = McpToolInvocationFactory.build(session=None, process=None, arguments={"region": "eu"})
    assert "-H 'Mcp-Param-Region: eu'" in copies(row, "http://hub.example/mcp", schema)[0].text
