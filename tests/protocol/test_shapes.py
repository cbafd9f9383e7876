"""What each revision is sent: its own published shape, whatever the newest form holds."""

import json as stdlib
from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions_app.protocol import shapes
from sessions_app.protocol.revisions import ALL, HANDSHAKE, NEWEST, revision

from . import newest
from .published import published
from .strategies import VALUES

CONVERTERS = {
    "tool": (newest.TOOL, shapes.tool_for),
    "resource": (newest.RESOURCE, shapes.resource_for),
    "template": (newest.TEMPLATE, shapes.template_for),
    "prompt": (newest.PROMPT, shapes.prompt_for),
    "call result": (newest.CALL_RESULT, shapes.result_for),
    "prompt result": (newest.PROMPT_RESULT, shapes.prompt_result_for),
    "read result": (newest.READ_RESULT, shapes.read_result_for),
    "initialize": (newest.INITIALIZE, shapes.initialize_for),
    "progress": (newest.PROGRESS, shapes.progress_for),
    "sampling": (newest.SAMPLING, shapes.sampling_for),
}


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("what", CONVERTERS)
@settings(max_examples=40)
@given(data=st.data())
def test_everything_sent_has_the_shape_that_the_revision_publishes(what, version, data):
    strategy, convert = CONVERTERS[what]
    value = data.draw(strategy)
    before = deepcopy(value)
    published(version, what).validate(convert(revision(version), value))
    assert value == before


@pytest.mark.parametrize("version", ALL[2:])
@settings(max_examples=60)
@given(data=st.data())
def test_a_form_has_the_shape_that_the_revision_publishes(version, data):
    fields = newest.ASKED if version < "2025-11-25" else newest.ASKED | newest.SEVERAL
    asked = data.draw(newest.form(fields))
    before = deepcopy(asked)
    shown = shapes.elicitation_for(revision(version), asked)
    published(version, "elicitation").validate(shown)
    assert asked == before
    assert [*shown["requestedSchema"]["properties"]] == [*asked["requestedSchema"]["properties"]]


@given(st.sampled_from(list(CONVERTERS)), st.sampled_from(ALL), st.data())
def test_what_was_converted_once_stays_as_it_is(what, version, data):
    strategy, convert = CONVERTERS[what]
    once = convert(revision(version), data.draw(strategy))
    assert convert(revision(version), once) == once


# Tools -------------------------------------------------------------------------------------------

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
    tool = shapes.tool_for(revision(version), TOOL)
    assert tool == {name: value for name, value in TOOL.items() if name not in lost}


@pytest.mark.parametrize("schema", [{"type": "array"}, {}, {"type": ["object"]}, True])
def test_an_output_schema_that_is_no_object_is_for_stateless_clients_only(schema):
    tool = TOOL | {"outputSchema": schema}
    assert "outputSchema" not in shapes.tool_for(revision("2025-11-25"), tool)
    assert shapes.tool_for(revision("2026-07-28"), tool)["outputSchema"] == schema


def test_properties_that_are_true_or_false_are_written_as_objects_for_sessions():
    schema = {"type": "object", "properties": {"any": True, "none": False, "text": {"type": "string"}}}
    plain = {"type": "object", "properties": {"any": {}, "none": {"not": {}}, "text": {"type": "string"}}}
    tool = TOOL | {"inputSchema": schema, "outputSchema": schema}
    for version in HANDSHAKE:
        shown = shapes.tool_for(revision(version), tool)
        assert shown["inputSchema"] == plain
        assert shown.get("outputSchema", plain) == plain
    assert shapes.tool_for(revision(NEWEST), tool)["inputSchema"] == schema


# Content and results ------------------------------------------------------------------------------

AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav", "annotations": {"priority": 1}}
LINK = {"type": "resource_link", "uri": "hub://x", "name": "x"}
PLAIN = {"type": "text", "text": "hi"}


@pytest.mark.parametrize("version", ALL)
def test_members_that_no_revision_has_stay_in_what_others_send(version):
    rev, vendor = revision(version), {"vendor": {"z": 1, "a": 2}}
    block = {**vendor, **PLAIN, "annotations": {"priority": 1, **vendor}}
    inner = {"type": "resource", "resource": {"uri": "a:b", "text": "c", **vendor}, **vendor}
    result = {"content": [block, inner], **vendor}
    assert {name: value for name, value in shapes.result_for(rev, result).items() if name != "resultType"} == result
    contents = {"contents": [inner["resource"]], **vendor}
    assert contents.items() <= shapes.read_result_for(rev, contents).items()
    messages = {"messages": [{"role": "user", "content": block, **vendor}], **vendor}
    assert messages.items() <= shapes.prompt_result_for(rev, messages).items()
    prompt = {"name": "p", "arguments": [{"name": "a", **vendor}]}
    assert shapes.prompt_for(rev, prompt) == prompt


def texts(version, *blocks):
    result = shapes.result_for(revision(version), {"content": list(blocks)})
    return [block.get("text") for block in result["content"]]


def test_audio_becomes_a_note_before_2025_03_26():
    first, second, third = shapes.result_for(revision("2024-11-05"), {"content": [AUDIO, {"type": "audio"}, PLAIN]})[
        "content"
    ]
    assert first == {
        "type": "text",
        "text": "[audio, audio/wav: this client cannot receive it]",
        "annotations": {"priority": 1},
    }
    assert "type unknown" in second["text"]
    assert third == PLAIN
    assert shapes.result_for(revision("2025-03-26"), {"content": [AUDIO]})["content"] == [AUDIO]


def test_a_resource_link_becomes_its_uri_before_2025_06_18():
    assert texts("2025-03-26", LINK, {"type": "resource_link", "uri": "hub://y"}) == ["x: hub://x", "hub://y"]
    assert shapes.result_for(revision("2025-06-18"), {"content": [LINK]})["content"] == [LINK]


def test_audio_and_links_in_prompts_become_text_too():
    messages = [{"role": "user", "content": AUDIO}, {"role": "assistant", "content": LINK}]
    old = shapes.prompt_result_for(revision("2024-11-05"), {"messages": messages})["messages"]
    assert [(each["role"], each["content"]["type"]) for each in old] == [("user", "text"), ("assistant", "text")]
    assert shapes.prompt_result_for(revision("2025-06-18"), {"messages": messages})["messages"] == messages


@pytest.mark.parametrize("block", ["odd", {"x": 1}, {"type": "hologram", "data": "AAAA"}, 7, None])
def test_a_block_that_no_revision_knows_becomes_its_json(block):
    shown = texts("2024-11-05", block)[0]
    assert (stdlib.loads(shown) if not isinstance(block, str) else shown) == block


@pytest.mark.parametrize(
    ("version", "structured", "kept"),
    [
        ("2025-03-26", {"a": 1}, False),
        ("2025-06-18", {"a": 1}, True),
        ("2025-11-25", [1], False),
        ("2025-11-25", None, False),
        ("2026-07-28", [1], True),
        ("2026-07-28", None, True),
    ],
)
def test_structured_content_is_kept_where_the_revision_knows_it(version, structured, kept):
    result = {"content": [PLAIN], "structuredContent": structured}
    converted = shapes.result_for(revision(version), result)
    assert ("structuredContent" in converted) is kept
    assert converted["content"] == [PLAIN]


@pytest.mark.parametrize("result", [{"structuredContent": [1]}, {"structuredContent": [1], "content": []}])
def test_dropped_structured_content_becomes_text_when_nothing_else_is_said(result):
    assert shapes.result_for(revision("2025-11-25"), result) == {"content": [{"type": "text", "text": "[1]"}]}


def test_result_type_and_cache_hints_belong_to_stateless_clients():
    result = {"resultType": "complete", "ttlMs": 1, "cacheScope": "private", "tools": []}
    for version in HANDSHAKE:
        assert shapes.result_for(revision(version), result) == {"tools": []}
    assert shapes.result_for(revision(NEWEST), result) is result
    assert shapes.result_for(revision(NEWEST), {"tools": []}) == {"resultType": "complete", "tools": []}
    assert shapes.result_for(revision(NEWEST), {"resultType": "task"}) == {"resultType": "task"}


@given(
    st.sampled_from(ALL),
    st.dictionaries(st.sampled_from(["content", "structuredContent", "resultType", "isError"]), VALUES),
)
def test_any_result_is_converted_without_touching_the_original(version, result):
    before = repr(result)
    shapes.result_for(revision(version), result)
    assert repr(result) == before


# Errors and questions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "code", "shown"),
    [
        ("2025-11-25", -32002, -32002),
        ("2026-07-28", -32002, -32602),
        ("2025-06-18", -32042, -32603),
        ("2025-11-25", -32042, -32042),
        ("2026-07-28", -32042, -32603),
        ("2024-11-05", -32601, -32601),
        ("2026-07-28", 7, 7),
    ],
)
def test_an_error_of_another_server_gets_a_code_that_the_revision_has(version, code, shown):
    error = {"code": code, "message": "m", "data": {"uri": "hub://x"}}
    assert shapes.error_for(revision(version), error) == {**error, "code": shown}


FIELDS = {
    "text": {"type": "string", "format": "email", "default": "a@b.c"},
    "number": {"type": "integer", "minimum": 1, "default": 3},
    "yes": {"type": "boolean", "default": True},
    "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}], "default": "a"},
    "plain": {"type": "string", "enum": ["a"], "default": "a"},
}


def asked(version, **fields):
    params = {"mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": fields}}
    return shapes.elicitation_for(revision(version), params)


def test_a_form_loses_defaults_and_gains_names_before_2025_11_25():
    old = asked("2025-06-18", **FIELDS)
    assert "mode" not in old
    assert old["requestedSchema"]["properties"] == {
        "text": {"type": "string", "format": "email"},
        "number": {"type": "integer", "minimum": 1},
        "yes": {"type": "boolean", "default": True},
        "titled": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
        "plain": {"type": "string", "enum": ["a"]},
    }
    for version in ("2025-11-25", "2026-07-28"):
        new = asked(version, **FIELDS)
        assert (new["mode"], new["requestedSchema"]["properties"]) == ("form", FIELDS)


@pytest.mark.parametrize(
    ("version", "params"),
    [
        ("2025-03-26", {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}),
        ("2025-06-18", {"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e"}),
        ("2025-11-25", {"mode": "url", "message": "m", "url": "https://x"}),
        ("2025-06-18", {"message": "m", "requestedSchema": {"type": "object", "properties": {"a": {"type": "array"}}}}),
    ],
)
def test_what_a_revision_cannot_ask_is_refused(version, params):
    with pytest.raises(ValueError, match=f"client of {version}"):
        shapes.elicitation_for(revision(version), params)


def test_an_address_has_an_id_in_one_revision_only():
    params = {"mode": "url", "message": "m", "url": "https://x", "elicitationId": "e"}
    assert shapes.elicitation_for(revision("2025-11-25"), params) == params
    assert "elicitationId" not in shapes.elicitation_for(revision("2026-07-28"), params)


def test_messages_of_several_blocks_are_split_and_tools_refused_before_2025_11_25():
    params = {"maxTokens": 5, "messages": [{"role": "user", "content": [PLAIN, AUDIO]}], "toolChoice": {}}
    old = shapes.sampling_for(revision("2025-06-18"), params)
    assert old == {"maxTokens": 5, "messages": [{"role": "user", "content": PLAIN}, {"role": "user", "content": AUDIO}]}
    assert shapes.sampling_for(revision("2025-11-25"), params) == params
    with pytest.raises(ValueError, match="no tools"):
        shapes.sampling_for(revision("2025-06-18"), {**params, "tools": [{"name": "t"}]})
