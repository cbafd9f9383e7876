"""Schemas as each family of providers takes them: one case for each rule. Pure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.chat import schema_rules as rules
from mcphub.features.chat.dialects import COMMON, DIALECTS, dialect_of
from mcphub.features.chat.tools.functions import Functions, is_about_tools
from mcphub.features.chat.tools.schema import parameters_of
from tests.features.chat.test_tools_said import tool

_OBJECT = {"type": "object"}
_TEXT = {"type": "string"}
EMAIL = r"^(?!\.)(?!.*\.\.)[a-z]+@[a-z]+$"
RULES: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (rules.older_drafts, {"items": [_TEXT]}, {"prefixItems": [_TEXT], "items": {}}),
    (rules.older_drafts, {"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
    (rules.older_drafts, {"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
    (rules.older_drafts, {"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    (rules.older_drafts, {"type": "any"}, {}),
    (rules.older_drafts, {"type": ["string", "any"]}, {"type": ["string"]}),
    (
        rules.merged_root,
        {**_OBJECT, "anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}], "properties": {"a": _TEXT}},
        {**_OBJECT, "properties": {"a": _TEXT}, "description": "Needs one of: a; or b, c."},
    ),
    (
        rules.merged_root,
        {"allOf": [{"properties": {"a": _TEXT}, "required": ["a"]}, {"properties": {"b": {"type": "integer"}}}]},
        {**_OBJECT, "properties": {"a": _TEXT, "b": {"type": "integer"}}, "required": ["a"]},
    ),
    (
        rules.merged_root,
        {"oneOf": [{"properties": {"a": _TEXT}}, {"properties": {"a": {"type": "integer"}}}], "not": {}},
        {**_OBJECT, "properties": {"a": {"anyOf": [_TEXT, {"type": "integer"}]}}},
    ),
    (rules.array_items, {"type": "array"}, {"type": "array", "items": {}}),
    (rules.array_items, {"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
    (rules.plain_patterns, {"pattern": "^[a-z]+$"}, {"pattern": "^[a-z]+$"}),
    (rules.plain_patterns, {"pattern": EMAIL}, {"description": f"Pattern: {EMAIL}"}),
    (rules.plain_patterns, {"pattern": r"^\p{L}+$"}, {"description": r"Pattern: ^\p{L}+$"}),
    (rules.plain_patterns, {"pattern": "("}, {"description": "Pattern: ("}),
    (rules.plain_patterns, {"patternProperties": {"(?=a)": {}}, "additionalProperties": False}, {}),
    (rules.sound_lists, {"enum": ["a", "a", "b"], "anyOf": []}, {"enum": ["a", "b"]}),
    (rules.sound_lists, {"enum": []}, {}),
    (
        rules.sound_lists,
        {**_OBJECT, "properties": {"a": {}}, "required": ["a", "z"]},
        {**_OBJECT, "properties": {"a": {}}, "required": ["a"]},
    ),
    (rules.no_conditions, {"if": {}, "then": {}, "not": {}, **_TEXT}, _TEXT),
    (
        rules.no_tuples,
        {"prefixItems": [_TEXT, {"type": "integer"}]},
        {"items": {"anyOf": [_TEXT, {"type": "integer"}]}},
    ),
    (rules.no_tuples, {"prefixItems": [_TEXT], "items": {"not": {}}}, {"items": _TEXT}),
    (rules.any_of_only, {"oneOf": [_TEXT]}, {"anyOf": [_TEXT]}),
    (
        rules.any_of_only,
        {"allOf": [{"properties": {"a": _TEXT}}, {"required": ["a"]}]},
        {"properties": {"a": _TEXT}, "required": ["a"]},
    ),
    (rules.one_type, {"type": ["string", "null"]}, _TEXT),
    (
        rules.one_type,
        {"type": ["string", "integer"], "minLength": 1, "title": "t"},
        {"title": "t", "anyOf": [{**_TEXT, "minLength": 1}, {"type": "integer"}]},
    ),
    (rules.typed_nodes, {"description": "x"}, {**_TEXT, "description": "x"}),
    (rules.typed_nodes, {"properties": {}}, {**_OBJECT, "properties": {}}),
    (rules.typed_nodes, {"enum": [1, 2]}, {"type": "integer", "enum": [1, 2]}),
    (rules.typed_nodes, {**_OBJECT, "anyOf": [{"required": ["a"]}]}, {"anyOf": [{**_OBJECT, "required": ["a"]}]}),
    (rules.const_as_enum, {"const": "a"}, {"enum": ["a"]}),
    (
        rules.google_words,
        {**_TEXT, "format": "uri", "const": 1, "additionalProperties": False},
        {**_TEXT, "description": "Format: uri"},
    ),
    (rules.google_words, {**_TEXT, "format": "date-time"}, {**_TEXT, "format": "date-time"}),
    (rules.google_words, {"type": "integer", "enum": [0, 1]}, {"type": "integer", "description": "One of: 0, 1"}),
    (rules.typed_nodes, {"type": "array", "items": {}}, {"type": "array", "items": _TEXT}),
    (rules.google_words, {"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 0}),
    (
        rules.grammar_words,
        {**_TEXT, "pattern": r"\d{4}", "format": "date", "maxLength": 9999},
        {**_TEXT, "description": r"Pattern: \d{4}"},
    ),
]


def test_keywords_of_a_wrong_shape_are_dropped() -> None:
    odd = {"type": {}, "properties": [], "required": True, "anyOf": {}, "enum": "a", "pattern": 1, "items": 3}
    assert rules.rewrite({"properties": {"a": odd}}, ()) == {"properties": {"a": {}}}


@pytest.mark.parametrize(("rule", "before", "after"), RULES)
def test_a_rule_rewrites_a_node(rule: Any, before: dict[str, Any], after: dict[str, Any]) -> None:
    assert rule(dict(before), True) == after


def test_each_rule_of_each_dialect_has_a_case() -> None:
    used = {rule for dialect in DIALECTS for rule in (*COMMON, *dialect.schema)}
    assert used == {rule for rule, _, _ in RULES}


@pytest.mark.parametrize(
    ("kind", "address", "model", "name"),
    [
        ("openai", "http://127.0.0.1:18371/v1", "m", "openai"),
        ("openai", "https://x.openai.azure.com/openai/v1", "gpt-5", "azure"),
        ("compatible", "https://x.services.ai.azure.com/openai/v1", "gpt-5", "azure"),
        ("compatible", "https://api.anthropic.com/v1", "claude-opus-5", "anthropic"),
        ("compatible", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro", "google"),
        ("compatible", "https://api.mistral.ai/v1", "devstral", "mistral"),
        ("compatible", "https://api.deepseek.com", "deepseek-v4-pro", "deepseek"),
        ("compatible", "https://api.moonshot.ai/v1", "kimi-k2.6", "kimi"),
        ("compatible", "https://dashscope.aliyuncs.com/compatible-mode/v1", "qwen3-max", "qwen"),
        ("compatible", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", "groq"),
        ("compatible", "https://api.together.xyz/v1", "zai/glm-5", "together"),
        ("compatible", "https://openrouter.ai/api/v1", "z-ai/glm-5", "openrouter"),
        ("compatible", "http://gpu.internal:11434/v1", "qwen3", "ollama"),
        ("compatible", "http://localhost:1234/v1", "qwen3", "lm_studio"),
        ("compatible", "http://localhost:8080/v1", "qwen3", "llama.cpp"),
        ("compatible", "http://gpu.internal:8000/v1", "qwen3", "compatible"),
        ("compatible", "http://gateway.internal/v1", "gemini-3-flash", "google"),
        ("huawei_maas", "https://api.modelarts-maas.com/v1", "glm-5", "huawei_maas"),
        ("compatible", "https://[", "m", "compatible"),
    ],
)
def test_the_dialect_follows_kind_host_port_and_maker(kind: str, address: str, model: str, name: str) -> None:
    assert dialect_of(kind, address, model).name == name


def test_behind_a_router_the_rules_of_the_maker_hold() -> None:
    found = dialect_of("compatible", "https://openrouter.ai/api/v1", "google/gemini-3-pro")
    assert (found.name, found.needs_signature) == ("openrouter", True)
    assert rules.google_words in found.schema


_word = st.sampled_from(["a", "b", "é"])
_schema = st.recursive(
    st.sampled_from(
        [True, False, {}, _TEXT, {"type": ["integer", "null"]}, {"const": 1}, {"enum": []}, {"type": "array"}]
    ),
    lambda inner: st.dictionaries(
        st.sampled_from(
            ["type", "items", "anyOf", "oneOf", "allOf", "not", "properties", "required", "enum", "pattern"]
        ),
        inner | st.lists(inner, max_size=2) | st.dictionaries(_word, inner, max_size=2) | _word,
        max_size=3,
    ),
    max_leaves=15,
)


@given(st.dictionaries(_word, _schema, max_size=3), st.sampled_from(DIALECTS))
def test_any_schema_becomes_one_that_the_family_takes(properties: dict[str, Any], dialect: Any) -> None:
    made = parameters_of({"type": "object", "properties": properties}, dialect)
    assert made["type"] == "object"
    assert not made.keys() & {"anyOf", "oneOf", "allOf", "not", "enum"}
    waiting: list[Any] = [made]
    while waiting:
        node = waiting.pop()
        if node.get("type") == "array":
            assert isinstance(node.get("items"), dict)
        if rules.typed_nodes in dialect.schema:
            assert "type" in node or "anyOf" in node
        inner = [node.get("items"), *node.get("properties", {}).values(), *(node.get("anyOf") or [])]
        waiting += [each for each in inner if isinstance(each, dict)]


def test_deep_schemas_end_in_their_type() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(40):
        deep = {"type": "object", "properties": {"a": deep}}
    made = parameters_of(deep, DIALECTS[0])
    for _ in range(rules.DEEPEST):
        made = made["properties"]["a"]
    assert made == {"type": "object"}


# A tool that cannot be sent -----------------------------------------------------------------------


def test_a_property_name_that_no_rule_mends_leaves_the_tool_out() -> None:
    claude = dialect_of("compatible", "https://api.anthropic.com/v1", "claude")
    functions = Functions([tool("good"), tool("odd", {"properties": {"$filter": _TEXT}})])
    assert [each["function"]["name"] for each in functions.wire(claude)] == ["good"]
    assert functions.reasons == {"odd": "The provider does not take an argument of the name '$filter'."}


def test_what_is_over_the_count_or_the_size_gives_way() -> None:
    many = Functions([tool(f"t{number:03}") for number in range(130)])
    openai = dialect_of("openai", "", "m")
    assert len(many.wire(openai)) == 128
    assert list(many.reasons) == ["t128", "t129"]
    wordy = {"properties": {"a": {"type": "string", "enum": [f"{n:0200}" for n in range(500)]}}}
    sent = Functions([tool("wordy", wordy)]).wire(dialect_of("compatible", "http://localhost:8080/v1", "m"))
    assert sent[0]["function"]["parameters"] == {"type": "object", "properties": {"a": _TEXT}}


@pytest.mark.parametrize(
    ("words", "param"),
    [
        ("Invalid schema for function 'odd': array schema missing items.", "tools[1].function.parameters"),
        ("* GenerateContentRequest.tools[0].function_declarations[1].parameters.properties[x].items: missing", None),
        ("tools.1.custom.input_schema: JSON schema is invalid", None),
    ],
)
def test_a_function_that_is_refused_by_name_or_place_is_sent_bare_then_left_out(words: str, param: str | None) -> None:
    functions = Functions([tool("good"), tool("odd", {"properties": {"x": {"type": "array", "items": {}}}})])
    assert is_about_tools(words, param)
    assert functions.give_way(words, param)
    sent = functions.wire(DIALECTS[0])
    assert sent[1]["function"]["parameters"]["properties"] == {"x": {"type": "array", "items": _TEXT}}
    assert functions.give_way(words, param)
    assert [each["function"]["name"] for each in functions.wire(DIALECTS[0])] == ["good"]
    assert functions.reasons == {"odd": words}


@pytest.mark.parametrize(
    ("words", "param"),
    [
        ("Failed to initialize samplers: failed to parse grammar", None),
        ("Invalid JSON schema: regex lookaround is not supported. Found at $.properties.to.pattern.", "tools"),
    ],
)
def test_a_refusal_that_names_no_function_is_met_by_sending_all_bare_once(words: str, param: str | None) -> None:
    functions = Functions([tool("one"), tool("two")])
    assert is_about_tools(words, param)
    assert functions.give_way(words, param)
    assert not functions.give_way(words, param)
    assert functions.reasons == {}


@pytest.mark.parametrize(
    "words", ["The temperature is too high.", "messages[1]: tool_call_id is unknown", "No such model"]
)
def test_other_refusals_are_none_of_the_tools(words: str) -> None:
    assert not is_about_tools(words, "messages")
