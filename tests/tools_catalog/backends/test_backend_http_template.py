"""Configuration and URL building of HTTP tools: an argument stays where the template put it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sessions_app.protocol import errors
from tools_catalog.backends.http.backend import HttpConfiguration, Service
from tools_catalog.backends.http.template import Values
from tools_catalog.bindings import Destination
from tools_catalog.secrets import SecretError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ESCAPES = st.lists(
    st.sampled_from(
        [
            "..",
            ".",
            "/",
            "\\",
            "%2e",
            "%2E",
            "%2f",
            "%5c",
            "%",
            "%25",
            "?",
            "#",
            "@",
            ":",
            ";",
            "//",
            "\x00",
            "\r\n",
            "\ud800",
            "…",
            "a",
            "{id}",
            "{secret:KEY}",
        ]
    ),
    max_size=8,
).map("".join)

ITEM = HttpConfiguration.parse(
    {
        "method": "GET",
        "url": "https://api.example.com:8443/v1/items/{id}/x{part}.json?fixed=1&q={q}",
        "query": {"tags": "{tags}", "mixed": "a-{q}-b", "key": "{secret:KEY}"},
    }
)
TO = Destination("https://api.example.com")


def no_secrets(name: str, host: str) -> str:
    raise LookupError(name)


def damaged_secret(name: str, host: str) -> str:
    raise SecretError("damaged")


def some_secret(name: str, host: str) -> str:
    assert host.origin == TO.origin
    return "s3cr&t value"


def url_of(configuration: HttpConfiguration, **arguments: Any) -> str:
    return str(configuration.url.render(Values(arguments, some_secret, TO)))


@given(identifier=JSON | ESCAPES, part=JSON | ESCAPES, q=JSON | ESCAPES, tags=JSON | st.lists(ESCAPES))
@example(identifier="..", part="", q="", tags=[])
@example(identifier="%2e%2e", part="%252e%252e", q="&fixed=2#", tags="x")
@example(identifier="..\\..", part="/../..", q="?", tags="y")
@example(identifier="a/../../admin", part="1", q="x", tags=None)
def test_no_argument_moves_the_url(identifier: Any, part: Any, q: Any, tags: Any) -> None:
    """CVE-2026-32871: path parameters escaped the API's prefix with the provider's credentials."""
    values = Values({"id": identifier, "part": part, "q": q, "tags": tags}, some_secret, TO)
    try:
        url = ITEM.url.render(values)
    except errors.ArgumentsInvalid:
        return
    assert (url.scheme, url.raw_host, url.port, url.userinfo) == ("https", b"api.example.com", 8443, b"")
    assert not url.fragment
    path = url.raw_path.partition(b"?")[0].decode("ascii")
    segments = path.split("/")
    assert segments[:4] == ["", "v1", "items", segments[3]]
    assert len(segments) == 5
    assert segments[4].startswith("x")
    assert segments[4].endswith(".json")
    seen = path
    for _ in range(3):
        seen = unquote(seen)
        assert not {".", ".."} & set(seen.replace("\\", "/").split("/"))
    pairs = parse_qsl(url.query.decode("ascii"), keep_blank_values=True)
    assert pairs[0] == ("fixed", "1")
    assert {name for name, _ in pairs} <= {"fixed", "q", "tags", "mixed", "key"}
    assert [value for name, value in pairs if name == "key"] == ["s3cr&t value"]


@given(st.text(min_size=1).filter(lambda text: text.isalnum()) | st.integers())
def test_path_argument_arrives_as_it_was(value: Any) -> None:
    segment = url_of(ITEM, id=value, part="p").split("/")[5]
    assert unquote(segment) == str(value)


FILES = HttpConfiguration.parse(
    {"service": "git", "url": "/repos/{repo}/raw/{+path}"},
    Service(slug="git", url="https://api.example.com:8443/base/", headers={}),
)


@given(repo=JSON | ESCAPES, path=JSON | ESCAPES)
@example(repo="r", path="a/../../..")
@example(repo="..", path="a")
@example(repo="r", path="%2e%2e/%252e%252e")
@example(repo="r", path="//evil.example/x")
@example(repo="r", path="a\\..\\b")
def test_no_path_argument_leaves_the_service(repo: Any, path: Any) -> None:
    try:
        url = FILES.url.render(Values({"repo": repo, "path": path}, no_secrets, TO))
    except errors.ArgumentsInvalid:
        return
    assert (url.scheme, url.raw_host, url.port, url.userinfo) == ("https", b"api.example.com", 8443, b"")
    assert url.query == b""
    whole = url.raw_path.decode("ascii")
    assert whole.startswith("/base/repos/")
    seen = whole
    for _ in range(3):
        seen = unquote(seen)
        assert not {".", ".."} & set(seen.replace("\\", "/").split("/"))
    assert "" not in whole.split("/")[1:]


def test_a_path_of_several_segments_arrives_as_it_was() -> None:
    url = FILES.url.render(Values({"repo": "r", "path": "docs/a b#.md"}, no_secrets, TO))
    assert str(url) == "https://api.example.com:8443/base/repos/r/raw/docs/a%20b%23.md"


def test_doubled_braces_are_braces() -> None:
    body = {"query": "query($id: ID!) {{ node(id: $id) {{ name }} }}", "variables": {"id": "{id}"}}
    made = request({"body": body}, id=7)
    assert made is not None
    assert made[1] == b'{"query":"query($id: ID!) { node(id: $id) { name } }","variables":{"id":7}}'


def test_one_argument_can_be_the_whole_body() -> None:
    assert request({"body": "{items}"}, items=[1, 2]) == ("application/json", b"[1,2]")
    assert request({"body": "Hi {who}", "body_encoding": "text"}, who="you") == ("text/plain; charset=utf-8", b"Hi you")


def test_absent_argument_leaves_its_query_parameter_out() -> None:
    assert url_of(ITEM, id=1, part=2).endswith("/v1/items/1/x2.json?fixed=1&key=s3cr%26t%20value")


def test_list_repeats_its_query_parameter() -> None:
    assert "&tags=a&tags=b%20c&tags=3&" in url_of(ITEM, id=1, part=2, tags=["a", "b c", 3])


def test_argument_that_looks_like_a_placeholder_is_text() -> None:
    assert "secret" in url_of(ITEM, id=1, part=2, q="{secret:KEY}")
    assert "s3cr" not in url_of(ITEM, id="{secret:KEY}", part=2).split("?")[0]


@pytest.mark.parametrize("value", ["", "..", ".", None, [1], {"a": 1}, "a/../b", "%2e%2e", "a\\..\\b", "a\x00"])
def test_value_that_cannot_be_a_segment_is_explained(value: Any) -> None:
    with pytest.raises(errors.ArgumentsInvalid, match="id"):
        url_of(ITEM, id=value, part=2)


def request(configuration: dict[str, Any], **arguments: Any) -> tuple[str, bytes] | None:
    parsed = HttpConfiguration.parse({"method": "POST", "url": "https://h.example/{id}", **configuration})
    return parsed.body.render(Values(arguments, some_secret, TO), parsed.used_arguments)


def test_remaining_arguments_are_the_body() -> None:
    assert request({"body": "arguments"}, id=1, a=[1, None], b={"c": True}) == (
        "application/json",
        b'{"a":[1,null],"b":{"c":true}}',
    )


def test_template_leaf_keeps_the_type_and_drops_the_absent() -> None:
    body = {"n": "{n}", "text": "n is {n}", "deep": [{"x": "{x}"}, "{gone}", "lit", 7], "gone": "{gone}"}
    assert request({"body": body}, n=5, x=None) == (
        "application/json",
        b'{"n":5,"text":"n is 5","deep":[{"x":null},"lit",7]}',
    )


def test_body_arguments_are_not_templates() -> None:
    assert request({"body": {"x": "{x}"}}, x="{secret:KEY}") == ("application/json", b'{"x":"{secret:KEY}"}')


def test_form_encodes_scalars_lists_and_objects() -> None:
    assert request({"body": "arguments", "body_encoding": "form"}, a="x y", b=[1, 2], c=True, d={"e": 1}, f=None) == (
        "application/x-www-form-urlencoded",
        b"a=x+y&b=1&b=2&c=true&d=%7B%22e%22%3A1%7D",
    )


def test_missing_secret_is_named_to_the_operator() -> None:
    for secret in (no_secrets, damaged_secret):
        with pytest.raises(errors.ExecutionError, match="KEY"):
            ITEM.url.render(Values({"id": 1, "part": 2}, secret, TO))


@pytest.mark.parametrize(
    ("member", "configuration"),
    [
        ("configuration", []),
        ("surprise", {"surprise": 1}),
        ("method", {"method": "TRACE"}),
        ("url", {"url": None}),
        ("url", {"url": "ftp://h/"}),
        ("url", {"url": "https://{host}/"}),
        ("url", {"url": "https://h.{tld}/x"}),
        ("url", {"url": "https://h:{port}/"}),
        ("url", {"url": "{url}"}),
        ("url", {"url": "https:///x"}),
        ("url", {"url": "https://u:p@h/"}),
        ("url", {"url": "https://h/#f"}),
        ("url", {"url": "https://h/a/../b"}),
        ("url", {"url": "https://h/%2e%2e/b"}),
        ("url", {"url": "https://h/{a"}),
        ("url", {"url": "https://h/{secret:KEY}"}),
        ("url", {"url": "https://h/a b"}),
        ("url", {"url": "https://h:99999/"}),
        ("query", {"query": []}),
        ("query", {"query": {"a": 1}}),
        ("query.{x}", {"query": {"{x}": "a"}}),
        ("headers.Host", {"headers": {"Host": "x"}}),
        ("headers.content-length", {"headers": {"content-length": "1"}}),
        ("headers.A B", {"headers": {"A B": "x"}}),
        ("headers.X", {"headers": {"X": "a\r\nY: b"}}),
        ("headers.x", {"headers": {"X": "a", "x": "b"}}),
        ("headers.X", {"headers": {"X": "{a"}}),
        ("body", {"body": "arguments", "method": "GET"}),
        ("body", {"body": "x {x}", "method": "POST"}),
        ("body", {"body": {"x": "{x}"}, "method": "POST", "body_encoding": "text"}),
        ("url", {"url": "https://h/{{x}}"}),
        ("url", {"url": "https://h/a{+x}"}),
        ("query.q", {"query": {"q": "{+x}"}}),
        ("service", {"service": "nowhere"}),
        ("retries", {"retries": 6}),
        ("retries", {"retries": True}),
        ("response.fields.a", {"response": {"fields": {"a": "b"}}}),
        ("pages", {"pages": {"items": "/values"}}),
        ("pages", {"pages": {"next": "/next", "number": 1, "query": "page"}}),
        ("pages.query", {"pages": {"number": 1}}),
        ("pages.most", {"pages": {"next": "/next", "most": 0}}),
        ("pages", {"method": "POST", "pages": {"next": "/next"}}),
        ("body", {"body": [], "method": "POST", "body_encoding": "form"}),
        ("body.a.0", {"body": {"a": ["{"]}, "method": "POST"}),
        ("body_encoding", {"body_encoding": "xml"}),
        ("response", {"response": {"pluck": ""}}),
        ("response.as", {"response": {"as": "xml"}}),
        ("response.pick", {"response": {"pick": "data"}}),
        ("response.pick", {"response": {"pick": "/data", "as": "text"}}),
        ("timeout_seconds", {"timeout_seconds": 0}),
        ("timeout_seconds", {"timeout_seconds": True}),
        ("max_response_bytes", {"max_response_bytes": "1"}),
        ("success", {"success": []}),
        ("success", {"success": ["1xx"]}),
    ],
)
def test_faulty_configuration_names_the_member(member: str, configuration: Any) -> None:
    raw = {"url": "https://h/", **configuration} if isinstance(configuration, dict) else configuration
    with pytest.raises(ValueError) as caught:
        HttpConfiguration.parse(raw)
    assert str(caught.value).startswith(f"{member}:")


def test_configuration_tells_its_arguments_and_secrets() -> None:
    assert ITEM.used_arguments == {"id", "part", "q", "tags"}
    assert ITEM.secret_uses == {("KEY", "query.key")}


@pytest.mark.parametrize("where", [{"query": {"n": "{n|=25}"}}, {"url": "https://h.example/a?n={n|=25}"}])
def test_the_query_has_the_usual_value_of_an_absent_argument(where: dict[str, Any]) -> None:
    url = HttpConfiguration.parse({"method": "GET", "url": "https://h.example/a", **where}).url
    to = Destination("https://h.example")

    def query(**arguments: Any) -> list[tuple[str, str]]:
        values = Values(arguments, lambda name, _: name, to)
        return parse_qsl(url.render(values).query.decode(), keep_blank_values=True)

    assert query() == query(n=None) == [("n", "25")]
    assert query(n=0) == [("n", "0")]
    assert query(n="") == [("n", "")]
    assert query(n=[1, 2]) == [("n", "1"), ("n", "2")]
