"""The ladder of self-describing requests, rung by rung."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import envelope
from sessions_app.protocol.envelope import (
    Envelope,
    ParamHeader,
    RoutingHeaders,
    check_param_headers,
    climb,
    param_headers,
)
from sessions_app.protocol.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    UnsupportedProtocolVersion,
)
from sessions_app.protocol.jsonrpc import Notification, Request

from .strategies import VALUES

METHODS = frozenset({"tools/call", "tools/list", "prompts/get", "resources/read", "tasks/get", "server/discover"})
ABSENT = object()


def body(method="tools/call", version="2026-07-28", id=7, meta=None, **params):
    if method == "tools/call":
        params = {"name": "t", "arguments": {}} | params
    described = {envelope.PROTOCOL_VERSION: version, envelope.CLIENT_CAPABILITIES: {}} | (meta or {})
    described = {name: value for name, value in described.items() if value is not ABSENT}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": described}}


def headers(version="2026-07-28", method="tools/call", name="t", **more):
    return RoutingHeaders(protocol_version=version, method=method, name=name, **more)


def test_a_request_in_order_becomes_an_envelope():
    info = {"name": "X", "version": "1"}
    value = body(
        meta={
            envelope.CLIENT_CAPABILITIES: {"elicitation": {}},
            envelope.CLIENT_INFO: info,
            envelope.LOG_LEVEL: "info",
            "progressToken": "p1",
            "traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01",
        }
    )
    found = climb(value, headers(), METHODS)
    assert found == Envelope(
        request=Request(7, "tools/call", value["params"]),
        protocol_version="2026-07-28",
        client_name="X",
        client_version="1",
        client_info=info,
        client_capabilities={"elicitation": {}},
        log_level="info",
        progress_token="p1",
        meta=value["params"]["_meta"],
    )


def test_what_a_client_may_leave_out_is_none():
    found = climb(body(), headers(), METHODS)
    assert (found.client_info, found.client_name, found.client_version) == (None, None, None)
    assert (found.log_level, found.progress_token) == (None, None)


NO_META = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "t"}}

LADDER = [
    # rung, body, headers, error
    (4, [body()], headers(), InvalidRequest),
    (4, [], headers(), InvalidRequest),
    (4, {"jsonrpc": "2.0", "id": 7, "result": {}}, headers(), InvalidRequest),
    (4, {"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": "m"}}, headers(), InvalidRequest),
    (4, body(id=None), headers(version="v999"), InvalidRequest),
    (4, body(id=1.0), headers(), InvalidRequest),
    (5, NO_META, headers(), InvalidParams),
    (5, NO_META | {"params": {"_meta": []}}, headers(), InvalidParams),
    (5, {"jsonrpc": "2.0", "id": 7, "method": "nonsense"}, headers(version=None), InvalidParams),
    (5, body(version=ABSENT), headers(version=None), InvalidParams),
    (5, body(version=20260728), headers(), InvalidParams),
    (5, body(meta={envelope.CLIENT_CAPABILITIES: ABSENT}), headers(version="v999"), InvalidParams),
    (5, body(meta={envelope.CLIENT_CAPABILITIES: []}), headers(method="x"), InvalidParams),
    (6, body(version="v999"), headers(), HeaderMismatch),
    (6, body(), headers(version=None), HeaderMismatch),
    (6, body(), headers(version="2025-11-25"), HeaderMismatch),
    (6, body(), headers(version="v999"), HeaderMismatch),
    (6, body(), headers(method=None), HeaderMismatch),
    (6, body(), headers(method="TOOLS/CALL"), HeaderMismatch),
    (6, body(method="nonsense"), headers(method="tools/call"), HeaderMismatch),
    (6, body(version="v999"), headers(version="v999", method="tools/list"), HeaderMismatch),
    (6, body(), headers(name=None), HeaderMismatch),
    (6, body(), headers(name="T"), HeaderMismatch),
    (6, body(name=ABSENT), headers(name="t"), HeaderMismatch),
    (6, body(name="é"), headers(name="é"), HeaderMismatch),
    (6, body(name="é"), headers(name="=?base64?w6k=?="), None),
    (6, body(name="é"), headers(name="=?base64?w6k?="), HeaderMismatch),
    (6, body(name="=?base64?w6k=?="), headers(name="=?base64?w6k=?="), HeaderMismatch),
    (6, body(), headers(duplicates=("mcp-name",)), HeaderMismatch),
    (6, body(), headers(duplicates=("mcp-method",)), HeaderMismatch),
    (6, body(), headers(duplicates=("mcp-protocol-version",)), HeaderMismatch),
    (6, body(), headers(duplicates=("user-agent",)), None),
    (6, body("prompts/get", name="p"), headers(method="prompts/get", name="p"), None),
    (6, body("prompts/get", name="p"), headers(method="prompts/get", name="q"), HeaderMismatch),
    (6, body("resources/read", uri="hub://x"), headers(method="resources/read", name="hub://x"), None),
    (6, body("resources/read", uri="hub://x"), headers(method="resources/read", name=None), HeaderMismatch),
    (6, body("tasks/get", taskId="k"), headers(method="tasks/get", name="k"), None),
    (6, body("tasks/get", taskId="k"), headers(method="tasks/get", name="l"), HeaderMismatch),
    (6, body("tasks/update", taskId="k"), headers(method="tasks/update", name="l"), HeaderMismatch),
    (6, body("tasks/cancel", taskId="k"), headers(method="tasks/cancel", name=None), HeaderMismatch),
    (6, body("tools/list"), headers(method="tools/list", name="ignored"), None),
    (7, body(version="v999"), headers(version="v999"), UnsupportedProtocolVersion),
    (7, body(version="2025-11-25"), headers(version="2025-11-25"), UnsupportedProtocolVersion),
    (7, body("nonsense", version="v999"), headers(version="v999", method="nonsense"), UnsupportedProtocolVersion),
    (8, body("initialize"), headers(method="initialize"), MethodNotFound),
    (8, body("ping", meta={envelope.LOG_LEVEL: "bad"}), headers(method="ping"), MethodNotFound),
    (11, body(meta={envelope.LOG_LEVEL: "loud"}), headers(), InvalidParams),
    (11, body(meta={envelope.LOG_LEVEL: []}), headers(), InvalidParams),
    (11, body(meta={envelope.CLIENT_INFO: "X"}), headers(), InvalidParams),
    (11, body(meta={"progressToken": 1.5}), headers(), InvalidParams),
    (11, body(meta={"progressToken": True}), headers(), InvalidParams),
    (11, body(meta={"progressToken": 0}), headers(), None),
    (11, body(name=ABSENT), headers(name=None), None),
]


@pytest.mark.parametrize(("rung", "value", "routing", "error"), LADDER)
def test_the_first_broken_rung_answers(rung, value, routing, error):
    """MCP 2026-07-28, Streamable HTTP; the order is what the official suite probes."""
    if isinstance(value, dict):
        params = value.get("params", {})
        value = {**value, **({"params": {k: v for k, v in params.items() if v is not ABSENT}} if params else {})}
    if error is None:
        assert isinstance(climb(value, routing, METHODS), Envelope)
        return
    with pytest.raises(error) as caught:
        climb(value, routing, METHODS)
    assert type(caught.value) is error
    readable = isinstance(value, dict) and type(value.get("id")) is int
    assert caught.value.request_id == (7 if readable else None)
    assert len(caught.value.message) < 500


def test_a_version_nobody_serves_under_a_served_header_is_a_mismatch():
    with pytest.raises(HeaderMismatch) as caught:
        climb(body(version="v999"), headers(version="2026-07-28"), METHODS)
    assert caught.value.jsonrpc_code == -32020


def test_an_unsupported_version_is_told_which_are_served():
    with pytest.raises(UnsupportedProtocolVersion) as caught:
        climb(body(version="v999"), headers(version="v999"), METHODS)
    assert caught.value.spec_data == {"supported": ["2026-07-28"], "requested": "v999"}


@pytest.mark.parametrize("routing", [RoutingHeaders(), headers(version="v999", method="x")])
def test_a_notification_has_no_header_rules(routing):
    value = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert climb(value, routing, METHODS) == Notification("notifications/cancelled", {"requestId": 1})


def test_odd_client_names_are_not_names():
    found = climb(body(meta={envelope.CLIENT_INFO: {"name": 1, "version": []}}), headers(), METHODS)
    assert (found.client_name, found.client_version) == (None, None)


def test_long_values_are_cut_in_the_sentence():
    with pytest.raises(HeaderMismatch) as caught:
        climb(body(name="x" * 10_000), headers(name="y" * 10_000), METHODS)
    assert len(caught.value.message) < 500


@given(VALUES, st.sampled_from([None, "2026-07-28", "v999"]))
def test_any_body_is_an_envelope_a_notification_or_a_protocol_error(value, version):
    for candidate in (value, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": value}}):
        try:
            found = climb(candidate, headers(version=version), METHODS)
        except ProtocolError:
            continue
        assert isinstance(found, Envelope | Notification)


def schema(**properties):
    return {"type": "object", "properties": properties}


REGION = {"type": "string", "x-mcp-header": "Region"}


def test_annotations_are_found_through_properties_alone():
    found = param_headers(
        schema(
            region=REGION,
            filter=schema(limit={"type": "integer", "x-mcp-header": "Limit"}),
            dry={"type": "boolean", "x-mcp-header": "Dry-Run"},
            plain={"type": "number"},
            odd=True,
        )
    )
    assert found == (
        ParamHeader("Dry-Run", ("dry",), "boolean"),
        ParamHeader("Limit", ("filter", "limit"), "integer"),
        ParamHeader("Region", ("region",), "string"),
    )
    assert found[2].suffix == "region"


def test_a_property_or_a_constant_of_that_name_is_no_annotation():
    assert param_headers(schema(**{"x-mcp-header": {"const": {"x-mcp-header": ""}}})) == ()


@pytest.mark.parametrize(
    "bad",
    [
        schema(a={"type": "string", "x-mcp-header": ""}),
        schema(a={"type": "string", "x-mcp-header": "a b"}),
        schema(a={"type": "string", "x-mcp-header": "a:"}),
        schema(a={"type": "string", "x-mcp-header": "é"}),
        schema(a={"type": "string", "x-mcp-header": "a\r\nb"}),
        schema(a={"type": "string", "x-mcp-header": 1}),
        schema(a={"type": "number", "x-mcp-header": "A"}),
        schema(a={"type": ["string", "null"], "x-mcp-header": "A"}),
        schema(a={"x-mcp-header": "A"}),
        schema(a={"type": "object", "x-mcp-header": "A"}),
        schema(a=REGION, b={"type": "string", "x-mcp-header": "rEGION"}),
        schema(a={"type": "array", "items": REGION}),
        schema(a={"allOf": [REGION]}),
        schema(a={"$ref": "#/$defs/r"}) | {"$defs": {"r": REGION}},
        schema() | {"if": schema(a=REGION)},
        schema() | {"additionalProperties": REGION},
        schema() | {"patternProperties": {"x": REGION}},
        {"type": "string", "x-mcp-header": "Root"},
    ],
)
def test_a_bad_annotation_is_refused(bad):
    with pytest.raises(ValueError, match="x-mcp-header"):
        param_headers(bad)


ANNOTATED = (
    ParamHeader("Region", ("region",), "string"),
    ParamHeader("Limit", ("filter", "limit"), "integer"),
    ParamHeader("Dry", ("dry",), "boolean"),
)


@pytest.mark.parametrize(
    ("arguments", "sent", "agrees"),
    [
        ({}, {}, True),
        ({"region": "eu"}, {"region": "eu"}, True),
        ({"region": ""}, {"region": ""}, True),
        ({"region": "é"}, {"region": "=?base64?w6k=?="}, True),
        ({"region": "é"}, {"region": "=?base64?w6k?="}, False),
        ({"region": "eu"}, {}, False),
        ({}, {"region": "eu"}, False),
        ({"region": None}, {"region": "eu"}, False),
        ({"region": None}, {}, True),
        ({"region": "eu"}, {"region": "EU"}, False),
        ({"filter": {"limit": 42}}, {"limit": "42"}, True),
        ({"filter": {"limit": 42}}, {"limit": "42.0"}, True),
        ({"filter": {"limit": 42.0}}, {"limit": "42"}, True),
        ({"filter": {"limit": -1}}, {"limit": "-1"}, True),
        ({"filter": {"limit": 42}}, {"limit": "43"}, False),
        ({"filter": {"limit": 42}}, {"limit": "4_2"}, False),
        ({"filter": {"limit": 42}}, {"limit": "٤٢"}, False),
        ({"filter": {"limit": 42}}, {"limit": "9" * 10_000}, False),
        ({"filter": "x"}, {}, True),
        ({"filter": {"limit": [42]}}, {"limit": "[42]"}, False),
        ({"dry": True}, {"dry": "true"}, True),
        ({"dry": False}, {"dry": "false"}, True),
        ({"dry": True}, {"dry": "1"}, False),
        ({}, {"unknown": "x"}, True),
    ],
)
def test_param_headers_repeat_the_arguments(arguments, sent, agrees):
    before = copy.deepcopy(arguments)
    if agrees:
        check_param_headers(ANNOTATED, arguments, RoutingHeaders(params=sent))
    else:
        with pytest.raises(HeaderMismatch):
            check_param_headers(ANNOTATED, arguments, RoutingHeaders(params=sent))
    assert arguments == before


def test_a_repeated_param_header_is_a_mismatch():
    with pytest.raises(HeaderMismatch):
        check_param_headers(
            ANNOTATED, {"region": "eu"}, RoutingHeaders(params={"region": "eu"}, duplicates=("mcp-param-region",))
        )
