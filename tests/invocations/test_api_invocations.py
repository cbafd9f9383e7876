"""GET /api/invocations/: every filter, the pages, who reads what."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sessions_app.models import ApiKey
from tests.factories import McpRequestEnvelopeFactory, McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory
from tests.rest import by_key, by_person, by_token, error_of

pytestmark = pytest.mark.django_db

LIST = "/api/invocations/"
VIEW = "invocations.view_mcptoolinvocation"
BODIES = "invocations.read_bodies"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def auditor():
    return by_key("audit:read")


@pytest.fixture
def rows():
    """Two calls that differ in everything that can be filtered."""
    process = ServerProcessFactory(process_id="somewhere")
    common = {"process": process}
    first = McpToolInvocationFactory(
        **common,
        invocation_id="first",
        tool_name="echo",
        tool_version="1",
        principal="key:1",
        client_name="one",
        session=McpSessionFactory(session_id="s1"),
        transport="streamable-http",
        request_id=7,
        trace_id="t1",
        duration_ms=10,
        received_at=NOON,
    )
    second = McpToolInvocationFactory(
        **common,
        invocation_id="second",
        tool_name="add",
        tool_version="2",
        principal="user:2",
        client_name="two",
        session=McpSessionFactory(session_id="s2"),
        transport="sse",
        request_id="abc",
        trace_id="t2",
        duration_ms=200,
        received_at=NOON + timedelta(hours=1),
        failed=True,
        error_code="timeout",
        jsonrpc_code=-31012,
        retryable=True,
        duplicate_of="first",
        continues="first",
        client_version="1.1",
        client_address="10.0.0.1",
        protocol_version="2025-11-25",
        occurrences=3,
        arguments_digest="f" * 64,
        arguments={"text": 7},
    )
    return first, second


def names(response):
    assert response.status_code == 200, response.content
    return [row["invocation_id"] for row in response.json()["results"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["second", "first"]),
        ({"started_after": "2026-03-01T12:30:00Z"}, ["second"]),
        ({"started_after": "2026-03-01T13:00:00+00:00"}, ["second"]),
        ({"started_before": "2026-03-01T13:00:00"}, ["first"]),
        ({"started_before": "2026-03-01T14:00:00+02:00"}, []),
        ({"status": "ok"}, ["first"]),
        ({"status": "error"}, ["second"]),
        ({"tool": "echo"}, ["first"]),
        ({"tool": "ech"}, []),
        ({"version": "2"}, ["second"]),
        ({"principal": "key:1"}, ["first"]),
        ({"client": "two"}, ["second"]),
        ({"session": "s1"}, ["first"]),
        ({"transport": "sse"}, ["second"]),
        ({"error_code": "timeout"}, ["second"]),
        ({"jsonrpc_code": "-31012"}, ["second"]),
        ({"retryable": "true"}, ["second"]),
        ({"retryable": "false"}, []),
        ({"duplicate": "true"}, ["second"]),
        ({"duplicate": "false"}, ["first"]),
        ({"request_id": "7"}, ["first"]),
        ({"request_id": "abc"}, ["second"]),
        ({"request_id": "07"}, []),
        ({"trace_id": "t2"}, ["second"]),
        ({"continues": "first"}, ["second"]),
        ({"min_duration_ms": "11"}, ["second"]),
        ({"max_duration_ms": "10"}, ["first"]),
        ({"status": "error", "tool": "echo"}, []),
        ({"tool_digest": "0" * 64}, ["second", "first"]),
        ({"client_version": "1.1"}, ["second"]),
        ({"client_address": "10.0.0.1"}, ["second"]),
        ({"protocol_version": "2025-11-25"}, ["second"]),
        ({"process": "somewhere"}, ["second", "first"]),
        ({"duplicate_of": "first"}, ["second"]),
        ({"interrupted": "true"}, []),
        ({"interrupted": "false"}, ["second", "first"]),
        ({"min_occurrences": "2"}, ["second"]),
        ({"arguments_digest": "f" * 64}, ["second"]),
        ({"started_after": "2026-03-01T12:00:00Z", "started_before": "2026-03-01T13:00:00Z"}, ["first"]),
        ({"started_after": "2027-01-01"}, []),
        ({"started_after": "2026-03-01", "arguments": '$.text="hello"'}, ["first"]),
        ({"session": "s1", "result": '$.content[0].type="text"'}, ["first"]),
    ],
)
def test_each_filter_finds_its_rows(auditor, rows, query, found):
    assert names(auditor.get(LIST, query)) == found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("started_after", "yesterday"),
        ("started_before", "2026-13-01"),
        ("started_after", "0001-01-01T00:00:00+23:59"),
        ("status", "fine"),
        ("transport", "pigeon"),
        ("error_code", "no_such_code"),
        ("jsonrpc_code", "many"),
        ("jsonrpc_code", "99999999999999999999"),
        ("retryable", "yes"),
        ("duplicate", "1"),
        ("min_duration_ms", "-1"),
        ("max_duration_ms", "1.5"),
        ("tool", "a\0b"),
        ("interrupted", "maybe"),
        ("min_occurrences", "0"),
        ("fields", "sequence,no_such_member"),
        ("fields", "sequence,,status"),
        ("tool", ""),
        ("limit", "0"),
        ("limit", "501"),
        ("limit", "ten"),
    ],
)
def test_a_bad_value_is_refused_by_its_field(auditor, rows, name, value):
    error = error_of(auditor.get(LIST, {name: value}), 400, "invalid_params")
    assert list(error["details"]["fields"]) == [name]


@pytest.mark.parametrize("cursor", ["nonsense", "WyJuIiwiLTEiXQ==", "WyJuIiwiYSJd", "e30=", "é", "a\0b"])
def test_a_cursor_that_is_none_of_the_list_leads_nowhere(auditor, rows, cursor):
    assert "next" in error_of(auditor.get(LIST, {"cursor": cursor}), 404, "not_found")["message"]


def test_an_unknown_parameter_is_refused_with_the_known_ones(auditor, rows):
    error = error_of(auditor.get(LIST, {"tool_name": "echo"}), 400, "invalid_params")
    assert error["details"]["unknown"] == ["tool_name"]
    assert {"tool", "status", "cursor", "limit"} <= set(error["details"]["known"])
    assert "tool_name" in error["message"]


CONDITIONS = [
    ('$.text="hello"', True),
    ('$.text="hell"', False),
    ("$.text=7", False),
    ("$.count=3", True),
    ("$.count=3.0", True),
    ("$.count=4", False),
    ('$.count="3"', False),
    ("$.share=0.25", True),
    ("$.share=2.5e-1", True),
    ("$.big=9007199254740993", True),
    ("$.big=9007199254740992", False),
    ("$.force=true", True),
    ("$.force=false", False),
    ("$.force=1", False),
    ('$.force="true"', False),
    ("$.nothing=null", True),
    ("$.absent=null", False),
    ('$.deep.list[1].name="b"', True),
    ('$.deep.list[0].name="b"', False),
    ('$.deep.list[9].name="b"', False),
    ("$.deep[0]=1", False),
    ("$.text.more=1", False),
    ('$.kebab-case="Größe"', True),
    ("$.list[0]=1", True),
    ('$.quoted="a\\"b\'c%s"', True),
]


@pytest.mark.parametrize(("condition", "is_found"), CONDITIONS)
@pytest.mark.parametrize("odd", [None, "\0", "\\u0000", "\ud800"])
def test_a_condition_on_arguments_compares_one_place_by_value(auditor, condition, is_found, odd):
    arguments = {
        "text": "hello",
        "count": 3,
        "share": 0.25,
        "big": 9007199254740993,
        "force": True,
        "nothing": None,
        "deep": {"list": [{"name": "a"}, {"name": "b"}], "0": 1},
        "kebab-case": "Größe",
        "list": [1],
        "quoted": "a\"b'c%s",
    }
    if odd:
        arguments["odd"] = odd
    McpToolInvocationFactory(invocation_id="there", received_at=NOON, arguments=arguments)
    query = {"started_after": "2026-03-01", "arguments": condition}
    assert names(auditor.get(LIST, query)) == (["there"] if is_found else [])


def test_a_condition_passes_over_bodies_that_are_no_objects(auditor):
    McpToolInvocationFactory(received_at=NOON, arguments="sha256:0", failed=True)
    for name in ("arguments", "result"):
        assert names(auditor.get(LIST, {"started_after": "2026-03-01", name: '$.text="hello"'})) == []


@pytest.mark.parametrize(
    "condition",
    [
        "text=1",
        "$=1",
        "$.text",
        "$.text=",
        "$.text=hello",
        "$.text={}",
        "$.text=[1]",
        "$.text=NaN",
        "$..text=1",
        "$.te xt=1",
        '$."text"=1',
        "$[*]=1",
        "$[-1]=1",
        "$.a" * 9 + "=1",
        "$" + ".a" * 9 + "=1",
        f"$.{'a' * 65}=1",
        '$.text="\\u0000"',
        '$.text="\\ud800"',
        "$.a=18446744073709551615",
        '$.a="' + "x" * 1000 + '"',
        "$.a='); DROP TABLE x; --",
        "$.1a=1",
    ],
)
def test_a_condition_that_cannot_be_read_is_refused_with_the_way_to_write_one(auditor, rows, condition):
    response = auditor.get(LIST, {"started_after": "2026-03-01", "arguments": condition})
    (sentence,) = error_of(response, 400, "invalid_params")["details"]["fields"]["arguments"]
    assert "$.city" in sentence or "at most" in sentence


def test_a_condition_stands_alone_too(auditor):
    McpToolInvocationFactory(invocation_id="there", arguments={"text": "hello"})
    McpToolInvocationFactory(arguments={"text": "bye"})
    assert names(auditor.get(LIST, {"arguments": '$.text="hello"'})) == ["there"]


def test_who_may_not_read_bodies_may_not_search_them(rows):
    query = {"started_after": "2026-03-01", "arguments": '$.text="hello"'}
    error = error_of(by_person(VIEW).get(LIST, query), 403, "forbidden")
    assert error["details"]["permission"] == BODIES


def test_only_the_chosen_members_are_answered_and_read(rows, django_assert_num_queries):
    _, token = ApiKey.issue("auditor", scopes=["audit:read"])
    client = by_token(token)
    client.get(LIST)
    with django_assert_num_queries(2) as queries:
        page = client.get(LIST, {"fields": "tool_name,sequence,error_code", "limit": "1"}).json()
    assert list(page["results"][0]) == ["sequence", "tool_name", "error_code"]
    assert "fields=" in page["next"]
    sql = queries.captured_queries[-1]["sql"]
    assert '"result"' not in sql
    assert '"error"' not in sql


def test_a_repeated_parameter_is_refused(auditor, rows):
    error = error_of(auditor.get(f"{LIST}?min_duration_ms=1&min_duration_ms=2"), 400, "invalid_params")
    assert list(error["details"]["fields"]) == ["min_duration_ms"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("tool=echo&tool=add", ["second", "first"]),
        ("tool=echo&tool=none", ["first"]),
        ("not_tool=echo", ["second"]),
        ("not_tool=echo&not_tool=add", []),
        ("tool=echo&tool=add&not_tool=add", ["first"]),
        ("status=ok&status=error", ["second", "first"]),
        ("not_status=ok", ["second"]),
        ("error_code=timeout&error_code=rate_limited", ["second"]),
        ("not_error_code=timeout", ["first"]),
        ("not_connection=anywhere", ["second", "first"]),
        ("request_id=7&request_id=abc", ["second", "first"]),
        ("trace_id=t1&trace_id=t2", ["second", "first"]),
        ("not_transport=sse&not_transport=stdio", ["first"]),
    ],
)
def test_a_filter_takes_several_values_and_may_exclude_some(auditor, rows, query, found):
    assert names(auditor.get(f"{LIST}?{query}")) == found


def test_a_wrong_choice_is_refused_with_those_there_are(auditor, rows):
    error = error_of(auditor.get(LIST, {"status": "fine"}), 400, "invalid_params")
    assert error["details"]["fields"]["status"] == ["'fine' is none of its values. They are: ok, error."]


@pytest.mark.parametrize("word", ["50%", "%s", "%(value)d"])
@pytest.mark.parametrize("address", [LIST, f"{LIST}facets/", "/api/connections/"])
def test_a_wrong_choice_with_a_percent_sign_is_quoted_in_the_refusal(admin_client, rows, address, word):
    name = "transport"
    error = error_of(admin_client.get(address, {name: word}), 400, "invalid_params")
    assert error["details"]["fields"][name][0].startswith(f"{word!r} is none of its values.")


def test_a_filter_takes_so_many_values_and_no_more(auditor, rows):
    many = "&".join(f"tool=t{number}" for number in range(51))
    error = error_of(auditor.get(f"{LIST}?{many}"), 400, "invalid_params")
    assert error["details"]["fields"]["tool"] == ["Give at most 50 values."]


def test_a_caller_is_found_by_the_name_of_a_key_or_of_a_person(auditor, rows):
    person = User.objects.create_user("ann", pk=2)
    assert names(auditor.get(LIST, {"principal": person.username})) == ["second"]
    key, _secret = ApiKey.issue("laptop", scopes=["tools:call"])
    McpToolInvocationFactory(invocation_id="third", principal=f"key:{key.pk}")
    assert names(auditor.get(LIST, {"principal": "laptop"})) == ["third"]
    assert names(auditor.get(f"{LIST}?principal=laptop&principal=ann")) == ["third", "second"]
    assert names(auditor.get(LIST, {"principal": "nobody"})) == []


def test_a_detail_takes_no_parameters(auditor, rows):
    error_of(auditor.get(f"{LIST}first/?status=ok"), 400, "invalid_params")


def test_pages_neither_repeat_nor_lose_rows_while_calls_arrive(auditor):
    common = {"process": ServerProcessFactory(), "session": McpSessionFactory()}
    there = [row.invocation_id for row in McpToolInvocationFactory.create_batch(25, **common)]
    seen, url = [], f"{LIST}?limit=4&tool=echo"
    while url:
        page = auditor.get(url).json()
        seen += [row["invocation_id"] for row in page["results"]]
        McpToolInvocationFactory.create_batch(3, **common)
        url = page["next"]
    assert seen == there[::-1]


def test_previous_leads_back_the_way_one_came(auditor):
    common = {"process": ServerProcessFactory(), "session": McpSessionFactory()}
    McpToolInvocationFactory.create_batch(7, **common)
    pages, url = [], f"{LIST}?limit=3"
    while url:
        pages.append(auditor.get(url).json())
        url = pages[-1]["next"]
    assert [len(page["results"]) for page in pages] == [3, 3, 1]
    assert pages[0]["previous"] is None
    back = auditor.get(pages[2]["previous"]).json()
    assert back["results"] == pages[1]["results"]
    first = auditor.get(back["previous"]).json()
    assert first["results"] == pages[0]["results"]
    assert first["previous"] is None
    assert first["next"] is not None


def test_a_list_takes_one_query_beside_the_key_and_the_record_of_bodies(rows, django_assert_num_queries):
    _, token = ApiKey.issue("auditor", scopes=["audit:read"])
    client = by_token(token)
    client.get(LIST)  # the key's use is noted once a minute
    with django_assert_num_queries(5) as queries:  # the page; the record takes three, for its savepoint
        client.get(LIST)
    assert not any("COUNT(" in query["sql"] for query in queries.captured_queries)


def test_a_detail_takes_one_query_beside_the_key_and_the_record(auditor, rows, django_assert_num_queries):
    auditor.get(LIST)
    with django_assert_num_queries(5):
        auditor.get(f"{LIST}first/")


def test_a_detail_tells_the_whole_row_and_its_envelope(auditor, rows):
    first, _ = rows
    params = {"name": "echo", "arguments": {"text": "hello"}}
    McpRequestEnvelopeFactory(
        invocation_id="first", session=first.session, process=first.process, received_at=NOON, params=params
    )
    body = auditor.get(f"{LIST}first").json()
    assert body["envelope"] == {
        "received_at": "2026-03-01T12:00:00Z",
        "method": "tools/call",
        "session_id": "s1",
        "params": {"name": "echo", "arguments": {"text": "hello"}},
    }
    assert body["sequence"] == first.pk
    assert body["session_id"] == "s1"
    assert body["process_id"] == first.process_id
    assert body["request_id"] == 7
    assert body["arguments"] == {"text": "hello"}
    assert body["result"] == {"content": [{"type": "text", "text": "hello"}]}
    assert body["error"] is None
    assert body["bodies_hidden"] is False


def test_a_call_without_an_envelope_says_so(auditor, rows):
    assert auditor.get(f"{LIST}second/").json()["envelope"] is None


def test_the_members_of_a_row_are_the_promised_ones(auditor, rows):
    row = auditor.get(LIST).json()["results"][0]
    assert set(row) == {
        "sequence",
        "invocation_id",
        "session_id",
        "request_id",
        "tool_name",
        "tool_version",
        "tool_digest",
        "arguments",
        "arguments_digest",
        "status",
        "result",
        "error",
        "error_code",
        "jsonrpc_code",
        "retryable",
        "received_at",
        "started_at",
        "finished_at",
        "duration_ms",
        "duplicate_of",
        "occurrences",
        "transport",
        "protocol_version",
        "principal",
        "caller_label",
        "allowed_client",
        "client_name",
        "client_version",
        "client_address",
        "trace_id",
        "span_id",
        "continues",
        "turn_id",
        "tool_call_id",
        "turn_round",
        "replay_of",
        "called_by",
        "connection",
        "method",
        "target",
        "asked_by",
        "workspace",
        "left_out",
        "process_id",
        "policy_rule",
        "policy_version",
        "policy_said",
        "policy_watched",
        "guardrails",
        "bodies_hidden",
    }


def test_stored_bodies_come_back_as_they_were(auditor):
    McpToolInvocationFactory(arguments={"text": "\0 \x7f é", "big": 2**64 - 1}, invocation_id="odd")
    body = auditor.get(f"{LIST}odd/").json()
    assert body["arguments"] == {"text": "\0 \x7f é", "big": 2**64 - 1}


def test_a_missing_call_is_told_in_json(auditor):
    assert error_of(auditor.get(f"{LIST}nothing/"), 404, "not_found")["retryable"] is False


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize("path", [LIST, f"{LIST}first/"])
def test_the_audit_is_read_only(auditor, rows, method, path):
    response = getattr(auditor, method)(path, {}, content_type="application/json")
    assert error_of(response, 405, "method_not_allowed")["details"]["allowed"] == ["GET", "HEAD"]
    assert "GET" in response["Allow"]


@pytest.mark.parametrize("path", [LIST, "/api/invocations", f"{LIST}first/", f"{LIST}first"])
def test_who_reads_the_audit(rows, path):
    error_of(Client().get(path), 401, "unauthorized")
    error_of(by_key("tools:list", "tools:call", "catalog:write").get(path), 403, "forbidden")
    error_of(by_person().get(path), 403, "forbidden")
    error_of(by_person(BODIES).get(path), 403, "forbidden")
    for allowed in (by_key("audit:read"), by_person(VIEW), by_person(VIEW, BODIES), by_person(is_superuser=True)):
        assert allowed.get(path).status_code == 200


def test_a_viewer_gets_rows_without_bodies(rows):
    client = by_person(VIEW)
    for row in [*client.get(LIST).json()["results"], client.get(f"{LIST}second/").json()]:
        assert (row["arguments"], row["result"], row["error"]) == (None, None, None)
        assert row["bodies_hidden"] is True
    assert row["error_code"] == "timeout"


@pytest.mark.parametrize("permissions", [(VIEW, BODIES), None])
def test_an_auditor_and_a_superuser_read_bodies(rows, permissions):
    client = by_person(is_superuser=True) if permissions is None else by_person(*permissions)
    row = client.get(f"{LIST}first/").json()
    assert row["arguments"] == {"text": "hello"}
    assert row["bodies_hidden"] is False


def test_bodies_that_are_hidden_are_not_even_read(rows, django_assert_num_queries):
    client = by_person(VIEW)
    with django_assert_num_queries(6) as queries:  # session, person, workspaces, two of permissions, rows
        client.get(LIST)
    assert '"arguments"' not in queries.captured_queries[-1]["sql"]
