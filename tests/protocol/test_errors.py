"""The tree of failures."""

import pytest

from sessions_app.protocol import errors


def test_every_internal_code_is_in_the_closed_list():
    assert {"parse_error", "tool_not_found", "timeout", "server_error"} <= errors.INTERNAL_CODES


def test_a_failure_says_its_own_sentence_unless_given_one():
    assert str(errors.ParseError()) == errors.ParseError.sentence
    assert str(errors.ParseError("x", a=1)) == "x"
    assert errors.ParseError("x", a=1).details == {"a": 1}
    assert errors.HubError().spec_data == {}
    assert errors.InvalidRequest().request_id is None


def test_a_missing_capability_is_named_as_the_protocol_wants():
    """MCP 2026-07-28: `requiredCapabilities` is shaped like ClientCapabilities."""
    assert errors.MissingClientCapability({"sampling": {}}).spec_data == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize("kind", errors._tree(errors.ProtocolError))
def test_every_protocol_error_has_a_code_with_an_http_status(kind):
    assert kind.jsonrpc_code in errors.HTTP_STATUS
