"""What the operations of a description send: bodies, parameters that are objects or lists, credentials, addresses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tools_catalog.backends.http.backend import Service
from tools_catalog.backends.http.configuration import HttpConfiguration
from tools_catalog.backends.http.template import Values
from tools_catalog.bindings import Destination
from tools_catalog.importers import operations
from tools_catalog.importers.candidates import Candidate, Found

BASE = "https://h.example"
TEXTS = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"]}


def look(paths: dict[str, Any], *, source: str = "", **more: Any) -> Found:
    document = {"openapi": "3.1.0", "servers": [{"url": BASE}], "paths": paths, **more}
    return operations.look(json.dumps(document).encode(), operations.OPENAPI, slug="s", prefix="", source=source)


def only(found: Found) -> Candidate:
    assert not found.refused
    [candidate] = found.candidates
    return candidate


def sent(candidate: Candidate, **arguments: Any) -> tuple[str, dict[str, str], str | None]:
    """Give query, headers and body of a call."""
    service = Service(slug="s", url=BASE, headers={})
    configuration = HttpConfiguration.parse(candidate.definition["configuration"], service)
    values = Values(arguments, lambda name, _: name, Destination("https://h.example"))
    body = configuration.body.render(values, configuration.used_arguments)
    headers = {name: template.fill(values, lambda _, value: value) or "" for name, template in configuration.headers}
    return configuration.url.render(values).query.decode(), headers, None if body is None else body[1].decode()


def querying(**parameter: Any) -> Candidate:
    return only(look({"/a": {"get": {"parameters": [{"name": "p", "in": "query", **parameter}]}}}))


def posting(kind: str, schema: Any, *, required: bool = True, **media: Any) -> Candidate:
    body = {"required": required, "content": {kind: {"schema": schema, **media}}}
    return only(look({"/a": {"post": {"requestBody": body}}}))


def test_an_object_in_the_query_is_a_parameter_for_each_property() -> None:
    made = querying(schema=POINT, required=True)
    assert made.definition["input_schema"]["required"] == ["x"]
    assert sent(made, x=1, y=2)[0] == "x=1&y=2"
    assert sent(querying(schema=POINT, style="deepObject"), p_x=1)[0] == "p%5Bx%5D=1"
    nested = querying(schema={"type": "object", "properties": {"at": POINT}}, style="deepObject")
    assert sent(nested, p_at_y=3)[0] == "p%5Bat%5D%5By%5D=3"


def test_a_parameter_of_json_is_sent_as_json() -> None:
    listed = querying(content={"application/json": {"schema": TEXTS}})
    assert listed.definition["input_schema"]["properties"]["p"] == {"type": "string", "description": "A list, as JSON."}
    assert sent(listed, p='["a"]')[0] == "p=%5B%22a%22%5D"
    assert sent(querying(content={"application/json": {"schema": POINT}}), p={"x": 1})[0] == "p=%7B%22x%22%3A1%7D"


def test_a_list_that_is_one_text_says_of_what() -> None:
    may_be_null = {**TEXTS, "type": ["array", "null"]}
    made = querying(schema=may_be_null, explode=False)
    assert made.definition["input_schema"]["properties"]["p"] == {
        "type": "string",
        "description": "Several of a, b are separated by commas.",
    }


@pytest.mark.parametrize(
    "parameter",
    [
        {"in": "query", "style": "deepObject", "required": True, "schema": {"type": "object"}},
        {"in": "path", "style": "matrix", "required": True, "schema": {"type": "string"}},
    ],
)
def test_a_parameter_that_cannot_be_written_leaves_the_operation_out(parameter: Any) -> None:
    found = look({"/a/{p}": {"get": {"parameters": [{"name": "p", **parameter}]}}})
    assert not found.candidates
    assert "Its parameter p" in found.refused[0][1]


@pytest.mark.parametrize("kind", ["application/vnd.api+json", "application/merge-patch+json", "text/csv"])
def test_a_body_is_sent_as_the_kind_that_the_description_names(kind: str) -> None:
    made = posting(kind, {"type": "string"})
    assert sent(made, body="x")[1] == {"Content-Type": kind}


@pytest.mark.parametrize("kind", ["application/json", "application/*+json", "text/plain", "*/*"])
def test_a_body_of_the_usual_kind_needs_no_header(kind: str) -> None:
    assert "headers" not in posting(kind, {"type": "string"}).definition["configuration"]


def test_plain_json_is_chosen_before_its_kin() -> None:
    content = {kind: {"schema": {"type": "string"}} for kind in ("application/x+json", "application/json")}
    made = only(look({"/a": {"post": {"requestBody": {"content": content}}}}))
    assert "headers" not in made.definition["configuration"]


def test_a_body_that_is_left_out_is_not_sent() -> None:
    listed = posting("application/json", TEXTS, required=False)
    assert sent(listed)[2] is None
    assert sent(listed, body=[])[2] == "[]"
    # A body that has to be whole where it is sent at all is one argument.
    whole = posting("application/json", POINT, required=False)
    assert sent(whole)[2] is None
    assert whole.definition["input_schema"]["properties"]["body"]["required"] == ["x"]
    assert sent(posting("text/plain", {}, required=False))[2] is None


def test_an_object_in_a_form_is_written_with_brackets_where_the_description_says_so() -> None:
    schema = {"type": "object", "properties": {"at": POINT, "n": {"type": "integer"}}}
    plain = posting("application/x-www-form-urlencoded", schema)
    assert sent(plain, at={"x": 1}, n=2)[2] == "at=%7B%22x%22%3A1%7D&n=2"
    deep = posting("application/x-www-form-urlencoded", schema, encoding={"at": {"style": "deepObject"}})
    assert sent(deep, at_x=1, n=2)[2] == "at%5Bx%5D=1&n=2"


def test_what_sends_files_is_left_out_even_where_the_body_may_be_missing() -> None:
    found = look({"/a": {"post": {"requestBody": {"content": {"multipart/form-data": {}}}}}})
    assert [(key, why[:27]) for key, why in found.refused] == [("POST /a", "It takes multipart/form-dat")]


SCHEMES = {
    "securitySchemes": {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "app": {"type": "apiKey", "in": "query", "name": "app"},
        "session": {"type": "apiKey", "in": "cookie", "name": "SID"},
        "odd": {"type": "mutualTLS"},
    }
}


def secured(security: Any = None, own: Any = None, components: Any = SCHEMES) -> Found:
    operation = {} if own is None else {"security": own}
    return look(
        {"/a": {"get": operation}}, components=components, **({} if security is None else {"security": security})
    )


def test_credentials_that_belong_together_are_all_sent() -> None:
    found = secured([{"key": [], "app": []}])
    assert found.headers == {"X-Key": "{secret:s}"}
    assert sent(only(found))[0] == "app=s-app"
    assert found.notes == ["Credentials: add the secrets s, s-app for the origin of service:s."]


def test_the_first_credentials_that_can_be_sent_are_taken() -> None:
    assert secured([{"odd": []}, {"session": []}]).headers == {"Cookie": "SID={secret:s}"}
    lacking = secured([{"odd": []}])
    assert lacking.headers == {}
    assert "of a kind that is not known here" in lacking.notes[0]


def test_an_operation_with_credentials_of_its_own_sends_them() -> None:
    found = secured([{"key": []}], [{"session": []}])
    assert found.headers == {"X-Key": "{secret:s}"}
    assert sent(only(found))[1] == {"Cookie": "SID=s-session"}
    assert found.notes == ["Credentials: add the secrets s, s-session for the origin of service:s."]
    for shared in ([{"key": []}], [{}, {"key": []}], [{"odd": []}, {"key": []}], [{"odd": []}]):
        configuration = only(secured([{"key": []}], shared)).definition["configuration"]
        assert configuration.keys() == {"service", "method", "url"}


@pytest.mark.parametrize("shared", ["key", "app"])
@pytest.mark.parametrize("own", [[], [{}], [{}, {"odd": []}]])
def test_an_operation_that_wants_no_credentials_sends_none(shared: str, own: Any) -> None:
    """Those of the service are written there, maybe later, and go with all of its other tools."""
    open_to_all = only(secured([{shared: []}], own)).definition["configuration"]
    assert credentials_sent(open_to_all) == ""
    assert credentials_sent({**open_to_all, "credentials": True}) == "X-Key"
    by_the_document = only(secured([], None)).definition["configuration"]
    assert credentials_sent(by_the_document) == ""
    instead = only(secured([{shared: []}], [{"session": []}])).definition["configuration"]
    assert credentials_sent(instead) == "Cookie"


def credentials_sent(configuration: dict[str, Any]) -> str:
    """The headers and parameters with secrets that a tool sends of a service with a key."""
    service = Service(slug="s", url=BASE, headers={"X-Key": "{secret:s}", "X-Plain": "as ever"})
    parsed = HttpConfiguration.parse(configuration, service)
    assert "X-Plain" in dict(parsed.headers)
    found = [name for name, template in (*parsed.headers, *parsed.url.query) if any(template.secrets)]
    return ", ".join(found)


def test_a_secret_in_the_query_is_told_of() -> None:
    assert secured([{"app": []}]).notes == ["Credentials: add the secret s for the origin of service:s."]


@pytest.mark.parametrize("broken", [{"$ref": "#/nowhere"}, 5, None, {"type": "apiKey", "name": 5}])
def test_a_broken_scheme_breaks_nothing_else(broken: Any) -> None:
    found = secured([{"key": []}], components={"securitySchemes": {**SCHEMES["securitySchemes"], "x": broken}})
    assert found.headers == {"X-Key": "{secret:s}"}


def test_an_operation_that_is_served_elsewhere_is_left_out() -> None:
    there = {"servers": [{"url": "https://upload.example/v1"}]}
    here = {"servers": [{"url": BASE + "/"}]}
    paths = {"/a": {**there, "get": here, "post": {}}, "/b": {"get": there}, "/c": {**here, "get": {}}}
    found = look(paths)
    assert [each.key for each in found.candidates] == ["GET /a", "GET /c"]
    assert [key for key, _ in found.refused] == ["POST /a", "GET /b"]
    assert "https://upload.example/v1" in found.refused[0][1]


def test_an_address_that_only_the_paths_name_is_that_of_the_service() -> None:
    there = {"servers": [{"url": "https://upload.example/v1"}]}
    found = look({"/a": {**there, "get": {}}, "/b": {"get": there}}, servers=[])
    assert (found.url, len(found.candidates), found.refused) == ("https://upload.example/v1", 2, [])


def test_the_end_of_an_address_is_told_where_its_begin_is_not_known() -> None:
    found = look({"/a": {"get": {}}}, servers=[{"url": "/api/v3"}])
    assert found.url == ""
    assert "/api/v3" in found.notes[0]
    assert look({"/a": {"get": {}}}, servers=[{"url": "/api/v3"}], source="https://x.example/o.json").notes == []


def test_an_address_that_is_none_costs_its_operation_only() -> None:
    found = look({"/a": {"get": {"servers": [{"url": "https://[x"}]}, "post": {}}})
    assert [each.key for each in found.candidates] == ["POST /a"]
