"""Internal failures become the JSON-RPC errors that operators decided on; rendering never fails."""

from __future__ import annotations

import pytest

from invocations.mapping import error_map as mapping
from invocations.mapping.error_map import DATA_SCHEMA, DEFAULTS, FIXED_CODES, ErrorMap, ErrorRule
from invocations.mapping.load import load_error_map
from invocations.models import McpErrorMapping
from sessions_app.protocol import errors


def test_every_internal_code_has_a_default_and_no_default_is_of_an_unknown_code():
    assert {rule.internal_code for rule in DEFAULTS} == errors.MAPPED_CODES
    assert len(DEFAULTS) == len(errors.MAPPED_CODES)


def test_defaults_keep_to_the_permitted_numbers():
    allowed = errors.STANDARD_CODES | errors.PROTOCOL_CODES | set(errors.OWN_CODES)
    assert {rule.json_rpc_code for rule in DEFAULTS} <= allowed


def test_defaults_have_nothing_to_be_complained_of():
    for rule in DEFAULTS:
        assert mapping.problems(rule.internal_code, rule.json_rpc_code, rule.message_template, rule.data_schema) == {}


def test_the_number_for_addresses_is_kept_for_them():
    number = errors.URL_ELICITATION_REQUIRED
    assert "json_rpc_code" in mapping.problems("timeout", number, "x", None)
    assert mapping.problems("url_elicitation_required", number, "x", None) == {}


@pytest.mark.django_db
def test_rows_that_ship_are_the_defaults():
    rows = McpErrorMapping.objects.values_list("internal_code", "json_rpc_code", "retryable")
    assert sorted(rows) == sorted((rule.internal_code, rule.json_rpc_code, rule.retryable) for rule in DEFAULTS)
    assert all(schema == DATA_SCHEMA for schema in McpErrorMapping.objects.values_list("data_schema", flat=True))


@pytest.mark.django_db
def test_rows_in_force_are_loaded():
    McpErrorMapping.objects.all().delete()
    McpErrorMapping.objects.create(
        internal_code="timeout", json_rpc_code=-31050, message_template="Too slow.", retryable=True, data_schema={}
    )
    loaded = load_error_map()
    assert loaded.rule("timeout") == ErrorRule("timeout", -31050, "Too slow.", True, {})
    assert loaded.rule("cancelled") == ErrorMap().rule("cancelled")


def test_error_is_rendered_with_its_rule_and_all_that_identifies_it():
    error = errors.RateLimited("Wait.", retry_after_seconds=3)
    error.retry_after_seconds = 3
    assert ErrorMap().render(error, invocation_id="i", trace_id="t", tool="echo") == {
        "code": -31005,
        "message": "Wait.",
        "data": {
            "errorCode": "rate_limited",
            "details": {"retry_after_seconds": 3},
            "retryable": True,
            "invocationId": "i",
            "traceId": "t",
            "retryAfterSeconds": 3,
            "correlationId": "i",
        },
    }


@pytest.mark.parametrize("kind", [errors.ToolTimeout, errors.TransportError, errors.Interrupted, errors.UpstreamError])
def test_lost_outcome_is_retryable_only_where_the_tool_is_retry_safe(kind):
    assert ErrorMap().render(kind())["data"]["retryable"] is False
    assert ErrorMap().render(kind(), retry_safe=True)["data"]["retryable"] is True


@pytest.mark.parametrize("kind", [errors.EgressRefused, errors.ArgumentsInvalid, errors.Cancelled])
def test_what_would_fail_again_is_not_retryable_whatever_the_tool(kind):
    assert ErrorMap().render(kind(), retry_safe=True)["data"]["retryable"] is False


def test_connection_that_was_never_made_is_retryable():
    assert ErrorMap().render(errors.ConnectionFailed())["data"]["retryable"] is True


def test_what_is_not_known_is_left_out():
    data = ErrorMap().render(errors.Cancelled())["data"]
    assert set(data) == {"errorCode", "details", "retryable"}


def test_members_that_the_specification_wants_stand_at_the_top():
    data = ErrorMap().render(errors.UnsupportedProtocolVersion("1", ("2",)))["data"]
    assert (data["supported"], data["requested"]) == (["2"], "1")


def test_template_is_filled_from_the_error_and_unknown_fields_read_empty():
    rule = ErrorRule(
        "timeout", -31012, "{tool}|{timeout_seconds}|{message}|{error_code}|{invocation_id}|{nothing}", False, {}
    )
    error = errors.ToolTimeout("slow {tool}", timeout_seconds=5, tool="of the details", message="of the details")
    assert ErrorMap([rule]).render(error, tool="echo", invocation_id="i")["message"] == "echo|5|slow {tool}|timeout|i|"


def test_code_without_a_rule_falls_back_to_server_error():
    class Novel(errors.HubError):
        code = "novel"

    try:
        rendered = ErrorMap().render(Novel("odd"))
    finally:
        del Novel
    assert rendered["code"] == errors.INTERNAL_ERROR
    assert rendered["data"]["errorCode"] == "novel"


def test_details_that_break_the_data_schema_are_left_out():
    schema = {"type": "object", "properties": {"details": {"properties": {"status": {"type": "integer"}}}}}
    errors_map = ErrorMap([ErrorRule("upstream_error", -31032, "{message}", False, schema)])
    assert errors_map.render(errors.UpstreamError(None, status=500))["data"]["details"] == {"status": 500}
    assert errors_map.render(errors.UpstreamError(None, status="bad"))["data"]["details"] == {}


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "https://example.org/x"}])
def test_data_schema_that_cannot_be_used_is_passed_over(schema, caplog):
    rendered = ErrorMap([ErrorRule("timeout", -31012, "x", False, schema)]).render(errors.ToolTimeout())
    assert rendered["message"] == "x"
    assert "timeout" in caplog.text


@pytest.mark.parametrize(
    ("code", "number", "template", "schema", "fields"),
    [
        ("parse_error", -31000, "x", {}, {"json_rpc_code"}),
        ("timeout", -31012, "{timeout_seconds} {tool} {message} {invocation_id} {error_code}", {}, set()),
        ("timeout", -31012, "{violations}", {}, {"message_template"}),
        ("timeout", -31012, "an open {", {}, {"message_template"}),
        ("timeout", -31012, "a {0} number", {}, {"message_template"}),
        ("timeout", -31012, "{message!r}", {}, {"message_template"}),
        ("timeout", -31012, "x", {"type": "nonsense"}, {"data_schema"}),
        ("timeout", -31012, "x", {"type": "object"}, set()),
    ],
)
def test_rule_that_an_operator_writes_is_judged_by_field(code, number, template, schema, fields):
    assert set(mapping.problems(code, number, template, schema)) == fields


def test_numbers_of_the_protocol_are_fixed():
    assert FIXED_CODES["tool_not_found"] == -32602
    assert set(FIXED_CODES) == {
        "parse_error",
        "invalid_request",
        "method_not_found",
        "invalid_params",
        "tool_not_found",
        "resource_not_found",
        "prompt_not_found",
        "header_mismatch",
        "missing_client_capability",
        "unsupported_protocol_version",
        "url_elicitation_required",
    }
