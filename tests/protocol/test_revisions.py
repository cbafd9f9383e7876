"""What each revision allows, and the shapes it sees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import revisions
from sessions_app.protocol.revisions import ALL, HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, STATELESS, revision

from .strategies import VALUES

SINCE = {
    "progress_message": "2025-03-26",
    "audio": "2025-03-26",
    "tool_annotations": "2025-03-26",
    "completions": "2025-03-26",
    "version_header": "2025-06-18",
    "tool_title": "2025-06-18",
    "structured_content": "2025-06-18",
    "output_schema": "2025-06-18",
    "resource_link": "2025-06-18",
    "elicitation": "2025-06-18",
    "tool_icons": "2025-11-25",
    "url_elicitation": "2025-11-25",
    "sampling_tools": "2025-11-25",
    "any_structured_content": "2026-07-28",
    "result_type": "2026-07-28",
    "cache_hints": "2026-07-28",
    "stateless": "2026-07-28",
}
ONLY = {
    "batching": "2025-03-26",
    "url_elicitation_error": "2025-11-25",
    "core_tasks": "2025-11-25",
    "priming_events": "2025-11-25",
}


def test_revisions_are_ordered_oldest_first():
    assert list(ALL) == sorted(ALL)
    assert (*HANDSHAKE, *STATELESS) == ALL
    assert (NEWEST_HANDSHAKE, NEWEST) == ("2025-11-25", "2026-07-28")
    assert revisions.ASSUMED in HANDSHAKE


@pytest.mark.parametrize("version", ALL)
def test_a_feature_is_there_from_its_revision_on(version):
    features = revision(version)
    assert features.version == version
    for name, first in SINCE.items():
        assert getattr(features, name) is (version >= first), name
    for name, only in ONLY.items():
        assert getattr(features, name) is (version == only), name
    assert features.null_error_ids is (version < "2025-11-25")
    assert features.resource_not_found_code == (-32602 if version in STATELESS else -32002)


def test_an_unknown_revision_has_no_features():
    with pytest.raises(ValueError):
        revision("v999")


@pytest.mark.parametrize(
    ("version", "stateless"),
    [(None, False), ("", False), ("2026-07-28", True), ("v999", True), ("2027-01-01", True)]
    + [(version, False) for version in HANDSHAKE],
)
def test_unknown_versions_climb_the_ladder(version, stateless):
    assert revisions.is_stateless(version) is stateless


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_supported_handshake_version_is_echoed(version):
    assert revisions.negotiate(version) == version


@pytest.mark.parametrize("requested", ["2026-07-28", "v999", "", None, 1, [], {}])
def test_any_other_request_gets_the_newest_handshake(requested):
    assert revisions.negotiate(requested) == NEWEST_HANDSHAKE


TOOL = {
    "name": "t",
    "description": "d",
    "inputSchema": {"type": "object", "x-mcp-header": 1, "$defs": {}},
    "annotations": {},
    "title": "T",
    "outputSchema": {"type": "object"},
    "_meta": {"a": 1},
    "icons": [],
    "execution": {"taskSupport": "optional"},
    "handler": "secret.path",
}


@pytest.mark.parametrize(
    ("version", "lost"),
    [
        ("2024-11-05", {"annotations", "title", "outputSchema", "_meta", "icons", "execution", "handler"}),
        ("2025-03-26", {"title", "outputSchema", "_meta", "icons", "execution", "handler"}),
        ("2025-06-18", {"icons", "execution", "handler"}),
        ("2025-11-25", {"handler"}),
        ("2026-07-28", {"execution", "handler"}),
    ],
)
def test_a_tool_shows_the_fields_of_its_revision(version, lost):
    tool = revisions.tool_for(revision(version), TOOL)
    assert tool == {name: value for name, value in TOOL.items() if name not in lost}


@pytest.mark.parametrize("schema", [{"type": "array"}, {}, {"type": ["object"]}, True])
def test_an_output_schema_that_is_no_object_is_for_stateless_clients_only(schema):
    tool = TOOL | {"outputSchema": schema}
    assert "outputSchema" not in revisions.tool_for(revision("2025-11-25"), tool)
    assert revisions.tool_for(revision("2026-07-28"), tool)["outputSchema"] == schema


AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "annotations": {"priority": 1}}
LINK = {"type": "resource_link", "uri": "hub://x", "name": "x"}
PLAIN = {"type": "text", "text": "hi"}


def texts(version, *blocks):
    result = revisions.result_for(revision(version), {"content": list(blocks)})
    return [block.get("text") for block in result["content"]]


def test_audio_becomes_a_note_before_2025_03_26():
    first, second, third = revisions.result_for(revision("2024-11-05"), {"content": [AUDIO, {"type": "audio"}, PLAIN]})[
        "content"
    ]
    assert first == {
        "type": "text",
        "text": "[audio, audio/wav: this client cannot receive it]",
        "annotations": {"priority": 1},
    }
    assert "type unknown" in second["text"]
    assert third == PLAIN
    assert revisions.result_for(revision("2025-03-26"), {"content": [AUDIO]})["content"] == [AUDIO]


def test_a_resource_link_becomes_its_uri_before_2025_06_18():
    assert texts("2025-03-26", LINK, {"type": "resource_link", "uri": "hub://y"}) == ["x: hub://x", "hub://y"]
    assert revisions.result_for(revision("2025-06-18"), {"content": [LINK]})["content"] == [LINK]


def test_odd_blocks_are_relayed():
    assert revisions.result_for(revision("2024-11-05"), {"content": ["odd", {"x": 1}]})["content"] == [
        "odd",
        {"x": 1},
    ]


@pytest.mark.parametrize(
    ("version", "structured", "kept"),
    [
        ("2025-03-26", {"a": 1}, False),
        ("2025-06-18", {"a": 1}, True),
        ("2025-11-25", [1], False),
        ("2026-07-28", [1], True),
    ],
)
def test_structured_content_is_kept_where_the_revision_knows_it(version, structured, kept):
    result = {"content": [PLAIN], "structuredContent": structured}
    converted = revisions.result_for(revision(version), result)
    assert ("structuredContent" in converted) is kept
    assert converted["content"] == [PLAIN]


@pytest.mark.parametrize("result", [{"structuredContent": [1]}, {"structuredContent": [1], "content": []}])
def test_dropped_structured_content_becomes_text_when_nothing_else_is_said(result):
    assert revisions.result_for(revision("2025-11-25"), result) == {"content": [{"type": "text", "text": "[1]"}]}


def test_result_type_and_cache_hints_belong_to_stateless_clients():
    result = {"resultType": "complete", "ttlMs": 1, "cacheScope": "private", "tools": []}
    for version in HANDSHAKE:
        assert revisions.result_for(revision(version), result) == {"tools": []}
    assert revisions.result_for(revision(NEWEST), result) is result
    assert revisions.result_for(revision(NEWEST), {"tools": []}) == {"resultType": "complete", "tools": []}
    assert revisions.result_for(revision(NEWEST), {"resultType": "task"}) == {"resultType": "task"}


@given(
    st.sampled_from(ALL),
    st.dictionaries(st.sampled_from(["content", "structuredContent", "resultType", "isError"]), VALUES),
)
def test_any_result_is_converted_without_touching_the_original(version, result):
    before = repr(result)
    revisions.result_for(revision(version), result)
    assert repr(result) == before
