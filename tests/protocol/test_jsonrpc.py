"""The four kinds of message."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import json, jsonrpc
from sessions_app.protocol.errors import InvalidRequest, ProtocolError
from sessions_app.protocol.jsonrpc import ErrorResponse, Notification, Request, Response

from .strategies import INTEGERS, TEXT, VALUES

IDS = INTEGERS | TEXT
METHODS = TEXT.filter(bool)
PARAMS = st.dictionaries(TEXT, VALUES)
ERRORS = st.builds(lambda code, message: {"code": code, "message": message}, INTEGERS, TEXT)


def read(raw: bytes):
    return jsonrpc.parse(json.loads(raw))


@given(IDS, METHODS, PARAMS)
def test_an_encoded_request_parses_to_itself(id, method, params):
    assert read(jsonrpc.encode_request(id, method, params)) == Request(id, method, params)


@given(METHODS, PARAMS)
def test_an_encoded_notification_parses_to_itself(method, params):
    assert read(jsonrpc.encode_notification(method, params)) == Notification(method, params)


@given(IDS, PARAMS)
def test_an_encoded_result_parses_to_itself(id, result):
    assert read(jsonrpc.encode_result(id, result)) == Response(id, result)
    assert jsonrpc.encode_result(id, json.dumps(result)) == jsonrpc.encode_result(id, result)


@given(IDS | st.none(), ERRORS, st.booleans())
def test_an_encoded_error_parses_to_itself(id, error, null_id):
    assert read(jsonrpc.encode_error(id, error, null_id=null_id)) == ErrorResponse(id, error)


def test_an_error_without_id_says_null_only_to_older_clients():
    error = {"code": -32700, "message": "x"}
    assert b'"id"' not in jsonrpc.encode_error(None, error)
    assert b'"id":null' in jsonrpc.encode_error(None, error, null_id=True)


@given(st.binary() | VALUES.map(json.dumps))
def test_any_bytes_are_a_message_or_a_protocol_error(raw):
    with contextlib.suppress(ProtocolError):
        assert isinstance(read(raw), Request | Notification | Response | ErrorResponse)


@given(
    st.dictionaries(
        st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]),
        st.sampled_from(["2.0", "x", "", 1, 1.0, True, None, [], {}, {"code": 1, "message": "m"}]),
    )
)
def test_any_mixture_of_members_is_a_message_or_an_invalid_request(value):
    try:
        message = jsonrpc.parse(value)
    except InvalidRequest as error:
        refused = error
        message = None
    if message is None:
        assert refused.request_id == jsonrpc.readable_id(value)
    else:
        assert isinstance(message, Request | Notification | Response | ErrorResponse)
        assert type(getattr(message, "id", None)) in (str, int, type(None))


R = {"jsonrpc": "2.0", "id": 7, "method": "ping"}


def without(name: str) -> dict:
    return {key: value for key, value in R.items() if key != name}


@pytest.mark.parametrize(
    ("value", "request_id", "words"),
    [
        ([R], None, "an array"),
        ("x", None, "a string"),
        (1, None, "a number"),
        (True, None, "a boolean"),
        (None, None, "null"),
        (without("jsonrpc"), 7, "jsonrpc"),
        (R | {"jsonrpc": "1.0"}, 7, "jsonrpc"),
        (R | {"jsonrpc": 2.0}, 7, "jsonrpc"),
        (R | {"id": None}, None, "null"),
        (R | {"id": True}, None, "a boolean"),
        (R | {"id": 1.0}, None, "1.0 is not an integer"),
        (R | {"id": 1.5}, None, "1.5 is not an integer"),
        (R | {"id": []}, None, "an array"),
        (R | {"id": {}}, None, "an object"),
        (R | {"method": ""}, 7, "method"),
        (R | {"method": 1}, 7, "method"),
        (R | {"method": None}, 7, "method"),
        (R | {"params": []}, 7, "by name"),
        (R | {"params": None}, 7, "not null"),
        (R | {"params": "x"}, 7, "not a string"),
        (R | {"result": {}}, 7, "neither result nor error"),
        (R | {"error": {}}, 7, "neither result nor error"),
        (without("method"), 7, "neither a method"),
        (without("method") | {"result": {}, "error": {}}, 7, "not both"),
        (without("method") | {"result": 1}, 7, "results are objects"),
        (without("method") | {"result": {}, "id": None}, None, "null"),
        ({"jsonrpc": "2.0", "result": {}}, None, "must carry the id"),
        (without("method") | {"error": "x"}, 7, "must be an object"),
        (without("method") | {"error": {"code": "1", "message": "m"}}, 7, "integer code"),
        (without("method") | {"error": {"code": True, "message": "m"}}, 7, "integer code"),
        (without("method") | {"error": {"code": 1}}, 7, "integer code"),
        ({"jsonrpc": "2.0", "id": 1.0, "error": {"code": 1, "message": "m"}}, None, "not an integer"),
        ({"jsonrpc": "2.0", "method": "notifications/cancelled", "id": None}, None, "null"),
    ],
)
def test_each_deviation_has_its_own_sentence(value, request_id, words):
    with pytest.raises(InvalidRequest, match=words) as caught:
        jsonrpc.parse(value)
    assert caught.value.request_id == request_id
    assert caught.value.jsonrpc_code == -32600


def test_absent_params_are_empty():
    assert jsonrpc.parse(R) == Request(7, "ping", {})


def test_initialized_with_a_null_id_is_the_notification_it_means_to_be():
    """Seed 000 demands it; JSON-RPC would not."""
    value = {"jsonrpc": "2.0", "id": None, "method": "notifications/initialized"}
    assert jsonrpc.parse(value) == Notification("notifications/initialized", {})


def test_unknown_members_are_tolerated():
    assert jsonrpc.parse(R | {"x": 1}) == Request(7, "ping", {})


def test_an_error_with_null_id_is_taken():
    error = {"code": -32700, "message": "x"}
    assert jsonrpc.parse({"jsonrpc": "2.0", "id": None, "error": error}) == ErrorResponse(None, error)
