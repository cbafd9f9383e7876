"""What is taken out of bodies, what stays of it, and that nothing of it shows elsewhere."""

from __future__ import annotations

import functools
import json as stdlib
import operator
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from invocations.redaction.bodies import StoredBodies
from invocations.redaction.hiding import Hidden, tag, tags
from invocations.redaction.names import is_near
from invocations.redaction.places import check_header, parse
from invocations.redaction.policy import RedactionPolicy, RedactionRule, Redactor
from sessions_app.protocol import json

KEYS = (("k1", b"1" * 32),)
OLD_KEYS = (("k2", b"2" * 32), *KEYS)


def path(place, part="both", tool=""):
    return RedactionRule(tool, part, "path", place)


def header(name):
    return RedactionRule("", "both", "header", name)


def kept(arguments, *rules, schema=None):
    """The arguments as they would be stored, and the places that were left out."""
    redactor = Redactor(rules, {"inputSchema": schema or {}}, KEYS)
    stored = StoredBodies(arguments, json.canonical(arguments), redactor)
    return json.loads(stored.arguments.encode()), stored.left_out.get("arguments", {}).get("redacted", [])


@pytest.mark.parametrize(
    ("place", "arguments", "hidden"),
    [
        ("$.password", {"password": "x", "other": "y"}, ["$.password"]),
        ("$.a.b", {"a": {"b": [1, 2], "c": 3}, "b": 4}, ["$.a.b"]),
        ("$.items[1]", {"items": ["a", "b", "c"]}, ["$.items[1]"]),
        ("$.items[*].t", {"items": [{"t": "tango"}, {"id": 1}, {"t": 2}]}, ["$.items[0].t", "$.items[2].t"]),
        ("$.people.*", {"people": {"ann": 1, "bob": 2}}, ["$.people.ann", "$.people.bob"]),
        ("$..secret", {"a": [{"secret": 1}], "secret": {"b": 2}}, ["$.a[0].secret", "$.secret"]),
        ("$..a.b", {"a": {"a": {"b": 1}, "b": 2}}, ["$.a.a.b", "$.a.b"]),
        ('$["odd name"]', {"odd name": 1}, ['$["odd name"]']),
        ("$.a.b", {"a": "what was meant as an object"}, ["$.a"]),
        ('$["a\\"b"]', {'a"b': 1}, ['$["a\\"b"]']),
        ("$.creds.password", {"creds": "user:hunter2"}, ["$.creds"]),
        ("$.absent", {"present": 1}, []),
        ("$..secret", {"body": '{"secret":"deep"}'}, ["$.body→$.secret"]),
        ("$..secret", {"body": r'{"\u0073ecret":"deep"}'}, ["$.body→$.secret"]),
    ],
)
def test_paths_take_out_what_they_name(place, arguments, hidden):
    found, places = kept(arguments, path(place))
    assert sorted(places) == sorted(hidden)
    assert (found == arguments) is (not hidden)


def test_root_takes_the_whole_body():
    found, _ = kept({"a": 1}, path("$"))
    assert found == {"redacted": tag({"a": 1}, KEYS)}


@pytest.mark.parametrize(
    "arguments",
    [
        {"headers": {"authorization": "Bearer 1"}},
        {"headers": {"AUTHORIZATION": "Bearer 1"}},
        {"headers": [{"name": "Authorization", "value": "Bearer 1"}]},
        {"text": '[{"headers": {"Authorization": "Bearer 1"}}]'},
    ],
)
def test_header_is_taken_out_however_it_is_written(arguments):
    found, places = kept(arguments, header("Authorization"))
    assert len(places) == 1
    assert "Bearer" not in json.canonical(found)


def test_header_rule_takes_the_argument_that_a_schema_sends_as_this_header():
    schema = {"type": "object", "properties": {"key": {"type": "string", "x-mcp-header": "X-Key"}}}
    found, _ = kept({"key": "abc"}, header("x-key"), schema=schema)
    assert found == {"key": tag("abc", KEYS)}
    assert kept({"key": "abc"}, header("Cookie"), schema=schema)[0] == {"key": "abc"}


SCHEMA = {
    "type": "object",
    "properties": {
        "pin": {"type": "integer", "writeOnly": True},
        "login": {"$ref": "#/$defs/login"},
        "list": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/login"}]}},
        "writeOnly": True,
        "map": {"type": "object", "additionalProperties": {"type": "string", "x-secret": True}},
        "public": {"type": "string", "writeOnly": False},
    },
    "$defs": {
        "login": {
            "type": "object",
            "properties": {
                "user": {"type": "string"},
                "pass": {"type": "string", "format": "password"},
                "next": {"$ref": "#/$defs/login"},
            },
        }
    },
}


def test_annotations_of_a_schema_are_followed_through_references_and_alternatives():
    arguments = {
        "pin": 1234,
        "login": {"user": "ann", "pass": "p1", "next": {"pass": "p2"}},
        "list": [None, {"pass": "p3"}],
        "writeOnly": "a name",
        "map": {"a": "b"},
        "public": "c",
    }
    found, places = kept(arguments, schema=SCHEMA)
    assert sorted(places) == ["$.list[1].pass", "$.login.next.pass", "$.login.pass", "$.map.a", "$.pin"]
    assert found["writeOnly"] == "a name"
    assert found["login"]["user"] == "ann"


def test_a_value_that_is_no_object_goes_whole_where_the_schema_hides_something_in_it():
    assert kept({"login": "ann:p1"}, schema=SCHEMA)[1] == ["$.login"]
    found = StoredBodies(["a"], '{"not_an_object":["a"]}', Redactor([], {"inputSchema": SCHEMA}, KEYS))
    assert json.loads(found.arguments.encode()) == {"not_an_object": tag(["a"], KEYS)}


def test_tool_without_anything_to_hide_has_no_redactor():
    policy = RedactionPolicy([path("$.a", tool="pay_*")], KEYS)
    plain = {"inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    assert policy.of("echo", plain) is None
    assert policy.of("pay_now", plain) is not None
    assert policy.of("login", {"inputSchema": SCHEMA}) is not None
    assert policy.of_refused("nothing", {}, keeps_text=True) is not None
    assert RedactionPolicy([], KEYS).of_refused("nothing", {}, keeps_text=True) is None


def test_equal_values_leave_equal_tags_under_one_key():
    assert tag("a", KEYS) == tag("a", KEYS) != tag("b", KEYS)
    assert tag(3, KEYS) == tag(3.0, KEYS)
    assert tags("a", OLD_KEYS)[1] == tag("a", KEYS)


def outcome(arguments, result, *rules, error=None, schema=None, output=None):
    redactor = Redactor(rules, {"inputSchema": schema or {}, "outputSchema": output or {}}, KEYS)
    stored = StoredBodies(arguments, json.canonical(arguments), redactor)
    kept_result, kept_error = stored.outcome(None if result is None else json.canonical(result), error)
    return kept_result, kept_error, stored


def test_result_does_not_repeat_what_the_arguments_hid():
    secret = 'a "quoted" pässword'
    result = {
        "content": [{"type": "text", "text": f"You said {secret}, as {stdlib.dumps({'p': secret})}"}],
        "structuredContent": {"echo": secret, secret: 1, "n": 123456},
    }
    text, _, stored = outcome({"password": secret, "pin": 123456}, result, path("$.password"), path("$.pin"))
    assert "quoted" not in text
    assert "123456" not in text
    assert tag(secret, KEYS) in text
    assert "$.content[0].text" in stored.left_out["result"]["redacted"]


def test_result_hides_what_the_output_schema_marks_and_its_repetition_as_text():
    output = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}
    structured = {"token": "abcdef", "id": 7}
    result = {"content": [{"type": "text", "text": json.canonical(structured)}], "structuredContent": structured}
    text, _, _ = outcome({}, result, output=output)
    assert "abcdef" not in text
    assert json.loads(text.encode())["structuredContent"]["id"] == 7


def test_text_that_is_json_is_looked_into_for_rules_at_any_depth():
    text, _, _ = outcome({}, {"content": [{"type": "text", "text": '{"api_key": "abc"}'}]}, path("$..api_key"))
    assert "abc" not in text


def test_error_does_not_quote_what_the_arguments_hid_even_cut_short():
    secret = "s3cret-" * 20
    error = {
        "code": -32602,
        "message": f"password {secret[:60]}… must be shorter; pin 7 is wrong, 17 is not",
        "data": {"errorCode": "invalid_arguments", "retryable": False, "details": {"violations": [{"got": secret}]}},
    }
    _, kept_error, stored = outcome({"password": secret, "pin": 7}, None, path("$.*"), error=error)
    assert "s3cret" not in kept_error
    assert "pin redacted:" in kept_error
    assert "17 is not" in kept_error
    assert stored.left_out["error"]["redacted"]


def test_body_over_the_limit_is_cut_and_marked_with_size_and_digest(settings):
    settings.MCPHUB_AUDIT_BODY_CHARACTERS = 1024
    result = {"content": [{"type": "text", "text": "ä" * 2000}]}
    text, _, stored = outcome({"a": 1}, result)
    whole = json.canonical(result)
    size = {"bytes": len(whole.encode()), "sha256": json.digest(whole), "truncated": True}
    assert stored.left_out == {"result": size}
    assert json.loads(text.encode()) == {**size, "head": whole[:1024]}


def test_error_over_the_limit_keeps_its_code(settings):
    settings.MCPHUB_AUDIT_BODY_CHARACTERS = 1024
    error = {"code": -31033, "message": "m" * 2000, "data": {"errorCode": "execution_error", "retryable": False}}
    _, text, _ = outcome({}, None, error=error)
    found = json.loads(text.encode())
    assert (found["code"], found["data"]["errorCode"]) == (-31033, "execution_error")
    assert found["data"]["truncated"] is True


@pytest.mark.parametrize(
    "place", ["", "password", "$password", "$.", "$.a[", "$.a[-1]", "$..", '$["a]', "$" + ".a" * 17]
)
def test_bad_path_is_refused_with_words(place):
    with pytest.raises(ValueError, match="Enter"):
        parse(place)


@pytest.mark.parametrize("name", ["", "a b", "X-Key:", "ä"])
def test_bad_header_is_refused_with_words(name):
    with pytest.raises(ValueError, match="Enter"):
        check_header(name)


unhurried = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
bodies = st.dictionaries(
    st.text(max_size=6),
    st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_size=4,
)


@unhurried
@given(bodies)
def test_what_is_not_marked_stays_as_it_is(body):
    text = json.canonical(body)
    stored = StoredBodies(body, text, Redactor([path("$.no-such-member-here")], {}, KEYS))
    assert stored.arguments == text
    assert stored.left_out == {}


# Names and what stands there share no character: where a secret stands within a name, the name goes too. And names
# are too short to be secrets themselves, which a name of eight letters and digits within a hidden value may be.
plain = string.ascii_letters + string.digits
names = st.text(st.characters(exclude_characters=plain, codec="utf-8"), min_size=1, max_size=7)
secrets = st.booleans() | st.integers(-(2**53), 2**53) | st.text(plain, max_size=20)


@unhurried
@given(bodies, st.lists(names, min_size=1, max_size=3), secrets)
def test_whatever_stands_at_a_named_place_goes(body, place, secret):
    inner = secret
    for name in reversed(place[1:]):
        inner = {name: inner}
    steps = [f"[{json.canonical(name)}]" for name in place]
    for depth in range(1, len(steps) + 1):
        found, hidden = kept({**body, place[0]: inner}, path("$" + "".join(steps[:depth])))
        assert hidden  # more than one place where the same text stands elsewhere
        there = functools.reduce(operator.getitem, place[:depth], found)
        assert there.startswith("redacted:")
        assert found != {**body, place[0]: inner}


@unhurried
@given(
    bodies,
    st.text(min_size=5, max_size=30).filter(lambda text: "redacted" not in text and text not in "0123456789abcdef:k"),
)
def test_no_secret_is_left_anywhere(body, secret):
    arguments = {**body, "password": secret, "again": [secret, f"<{secret}>", {secret: secret}]}
    found, _ = kept(arguments, path("$.password"))

    def texts(value):
        if isinstance(value, dict):
            for key, child in value.items():
                yield key
                yield from texts(child)
        elif isinstance(value, list):
            for child in value:
                yield from texts(child)
        elif isinstance(value, str):
            yield value

    assert not [text for text in texts(found) if secret in text]


def test_hidden_says_whether_anything_is():
    hidden = Hidden(KEYS)
    assert not hidden
    hidden.take_out({"a": "b"}, Redactor([path("$.a")], {}, KEYS)._in_arguments)
    assert hidden


@pytest.mark.parametrize("name", ["passwort", "Password", "pass_word", "passwd", "pasword", "apssword", "PASSWORD"])
def test_misspelt_name_of_a_marked_member_is_taken_out_as_well(name):
    marked = {"type": "object", "properties": {"password": {"writeOnly": True}, "user": {}}}
    for found, places in (kept({name: "hunter2"}, schema=marked), kept({name: "hunter2"}, path("$.password"))):
        assert "hunter2" not in repr(found)
        assert len(places) == 1


@pytest.mark.parametrize("name", ["passage", "pass", "user", "words", "p"])
def test_other_names_stay(name):
    assert kept({name: "hunter2"}, path("$.password"))[0] == {name: "hunter2"}


def test_name_that_the_tool_has_itself_is_not_taken_for_a_marked_one():
    schema = {"properties": {"token": {"writeOnly": True}, "tokens": {"type": "string"}}}
    assert kept({"token": "a-b-c-d", "tokens": "many"}, schema=schema)[0]["tokens"] == "many"


_names = st.text(string.ascii_lowercase, min_size=8, max_size=20)


@given(_names, st.data())
def test_any_slip_in_a_marked_name_is_seen_through(name, data):
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from(string.ascii_lowercase))
    slips = [
        name[:at] + name[at + 1 :],
        name[:at] + letter + name[at:],
        name[:at] + letter + name[at + 1 :],
        name[:at] + name[at : at + 2][::-1] + name[at + 2 :],
        name.upper(),
        f"{name[:at]}_{name[at:]}",
    ]
    for slip in slips:
        found, _ = kept({slip: "the value in clear"}, path(f"$.{name}"))
        assert "the value in clear" not in repr(found)


@given(_names, _names)
def test_nearness_is_the_same_both_ways_and_never_between_words_of_other_lengths(one, other):
    assert is_near(one, other) == is_near(other, one)
    assert is_near(one, one)
    if abs(len(one) - len(other)) > 2:
        assert not is_near(one, other)


_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(min_size=1, max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_names, _values, max_size=4))
def test_refused_call_of_no_known_tool_keeps_no_text(arguments):
    redactor = RedactionPolicy((), KEYS).of_refused("unknown", {})
    stored = StoredBodies(arguments, json.canonical(arguments), redactor)

    def texts(value):
        if isinstance(value, str):
            yield value
        for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from texts(child)

    assert all(text.startswith("redacted:") for text in texts(json.loads(stored.arguments.encode())))


def test_schema_of_a_tool_with_a_near_name_marks_too():
    marked = {"inputSchema": {"properties": {"pin": {"x-secret": True}}}}
    policy = RedactionPolicy((), KEYS)
    redactor = policy.of_refused("Login", {"login": marked, "other": {}}, keeps_text=True)
    stored = StoredBodies({"pin": "4711", "a": "b"}, "", redactor)
    assert json.loads(stored.arguments.encode()) == {"pin": tag("4711", KEYS), "a": "b"}
