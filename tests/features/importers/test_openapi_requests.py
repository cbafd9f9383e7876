"""What the operations of a description send: bodies, parameters that are objects or lists, credentials, addresses."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from mcphub.features.importers import operations
from mcphub.features.importers.candidates import Candidate, Found
from sessions_app.protocol.errors import ArgumentsInvalid
from tools_catalog.backends.http.backend import Service, request_of
from tools_catalog.backends.http.configuration import HttpConfiguration
from tools_catalog.backends.http.template import Values
from tools_catalog.bindings import Destination

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
    """Return query, headers and body of a call."""
    service = Service(slug="s", url=BASE, headers={})
    configuration = HttpConfiguration.parse(candidate.definition["configuration"], service)
    values = Values(arguments, lambda name, _: name, Destination("https://h.example"))
    body = configuration.body.render(values, configuration.used_arguments)
    headers = {name: template.fill(values, lambda _, value: value) or "" for name, template in configuration.headers}
    return configuration.url.render(values).query.decode(), headers, None if body is None else body[1].decode()


def path_of(candidate: Candidate, **arguments: Any) -> str:
    service = Service(slug="s", url=BASE, headers={})
    configuration = HttpConfiguration.parse(candidate.definition["configuration"], service)
    values = Values(arguments, lambda name, _: name, Destination("https://h.example"))
    return configuration.url.render(values).raw_path.decode()


def cookies(candidate: Candidate, **arguments: Any) -> str | None:
    """Return the header Cookie of a call."""
    service = Service(slug="s", url=BASE, headers={})
    configuration = HttpConfiguration.parse(candidate.definition["configuration"], service)
    values = Values(arguments, lambda name, _: name, Destination("https://h.example"))
    return request_of(configuration, values).headers.get("Cookie")


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
    assert listed.definition["input_schema"]["properties"]["p"] == TEXTS
    assert sent(listed, p=["a"])[0] == "p=%5B%22a%22%5D"
    assert sent(querying(content={"application/json": {"schema": POINT}}), p={"x": 1})[0] == "p=%7B%22x%22%3A1%7D"


LIST, OBJECT = ["blue", "a,b /", 3], {"R": 100, "G": "x y"}


@pytest.mark.parametrize(
    ("style", "explode", "listed", "mapped"),
    [
        ("simple", False, "/blue,a%2Cb%20%2F,3", "/R,100,G,x%20y"),
        ("simple", True, "/blue,a%2Cb%20%2F,3", "/R=100,G=x%20y"),
        ("label", False, "/.blue,a%2Cb%20%2F,3", "/.R,100,G,x%20y"),
        ("label", True, "/.blue.a%2Cb%20%2F.3", "/.R=100.G=x%20y"),
        ("matrix", False, "/;p=blue,a%2Cb%20%2F,3", "/;p=R,100,G,x%20y"),
        ("matrix", True, "/;p=blue;p=a%2Cb%20%2F;p=3", "/;R=100;G=x%20y"),
    ],
)
def test_lists_and_objects_are_written_into_the_path(style: str, explode: bool, listed: str, mapped: str) -> None:
    for schema, value, wanted in ((TEXTS, LIST, listed), ({"type": "object"}, OBJECT, mapped)):
        parameter = {"name": "p", "in": "path", "required": True, "style": style, "explode": explode, "schema": schema}
        made = only(look({"/{p}": {"get": {"parameters": [parameter]}}}))
        assert made.definition["input_schema"]["properties"]["p"] == schema
        assert path_of(made, p=value) == wanted


def test_a_scalar_has_the_style_of_its_path_too() -> None:
    for style, wanted in (("simple", "/x"), ("label", "/.x"), ("matrix", "/;p=x")):
        parameter = {"name": "p", "in": "path", "style": style, "schema": {"type": "string"}}
        assert path_of(only(look({"/{p}": {"get": {"parameters": [parameter]}}})), p="x") == wanted


@pytest.mark.parametrize("value", [[".."], ["a", "../b"], [], "..", {"..": "x"}])
def test_no_style_leads_out_of_the_path(value: Any) -> None:
    parameter = {"name": "p", "in": "path", "style": "simple", "schema": {}}
    with pytest.raises(ArgumentsInvalid):
        path_of(only(look({"/a/{p}/b": {"get": {"parameters": [parameter]}}})), p=value)


@pytest.mark.parametrize(
    ("style", "explode", "listed", "mapped"),
    [
        ("form", True, "p=blue&p=a%2Cb%20%2F&p=3", "R=100&G=x%20y"),
        ("form", False, "p=blue,a%2Cb%20%2F,3", "p=R,100,G,x%20y"),
        ("spaceDelimited", False, "p=blue%20a%2Cb%20%2F%203", "p=R%20100%20G%20x%20y"),
        ("pipeDelimited", False, "p=blue%7Ca%2Cb%20%2F%7C3", "p=R%7C100%7CG%7Cx%20y"),
        ("spaceDelimited", True, "p=blue&p=a%2Cb%20%2F&p=3", "R=100&G=x%20y"),
        ("deepObject", True, "p%5B0%5D=blue&p%5B1%5D=a%2Cb%20%2F&p%5B2%5D=3", "p%5BR%5D=100&p%5BG%5D=x%20y"),
    ],
)
def test_lists_and_objects_are_written_into_the_query(style: str, explode: bool, listed: str, mapped: str) -> None:
    for schema, value, wanted in ((TEXTS, LIST, listed), ({"type": "object"}, OBJECT, mapped)):
        made = querying(style=style, explode=explode, schema=schema)
        assert sent(made, p=value)[0] == wanted
        assert sent(made)[0] == ""


def test_lists_and_objects_are_written_into_headers_and_cookies() -> None:
    def held(place: str, explode: bool) -> Candidate:
        parameter = {"name": "p", "in": place, "explode": explode, "schema": {}}
        return only(look({"/a": {"get": {"parameters": [parameter]}}}))

    assert sent(held("header", False), p=["a", "b"])[1] == {"p": "a,b"}
    assert sent(held("header", True), p={"a": 1})[1] == {"p": "a=1"}
    assert cookies(held("cookie", False), p=["a", "b; c"]) == "p=a,b%3B%20c"
    assert cookies(held("cookie", True), p={"a": 1, "b": 2}) == "a=1; b=2"
    assert cookies(held("cookie", True)) is None


def test_a_cookie_stands_beside_those_of_the_credentials() -> None:
    parameter = {"name": "p", "in": "cookie", "required": True, "schema": {"type": "string"}}
    paths = {"/a": {"get": {"parameters": [parameter], "security": [{"session": []}]}}}
    assert cookies(only(look(paths, components=SCHEMES)), p="x") == "SID=s-session; p=x"


def test_an_object_of_any_names_sets_nothing_that_the_tool_sets() -> None:
    """Else a model could give another key than the operator's."""
    anything = {"name": "p", "in": "query", "schema": {"type": "object"}}
    made = only(look({"/a": {"get": {"parameters": [anything]}}}, components=SCHEMES, security=[{"app": []}]))
    assert sent(made, p={"x": 1, "p": 2})[0] == "app=s&x=1&p=2"
    with pytest.raises(ArgumentsInvalid, match="cannot set app"):
        sent(made, p={"app": "stolen"})
    anything = {**anything, "in": "cookie", "explode": True}
    paths = {"/a": {"get": {"parameters": [anything], "security": [{"session": []}]}}}
    with pytest.raises(ArgumentsInvalid, match="cannot set SID"):
        cookies(only(look(paths, components=SCHEMES)), p={"SID": "stolen"})


def test_a_list_in_a_form_is_written_as_the_description_says() -> None:
    schema = {"type": "object", "properties": {"a": TEXTS, "b": TEXTS, "c": {"type": "object"}}}
    encoding = {"b": {"style": "form", "explode": False}, "c": {"style": "deepObject"}}
    made = posting("application/x-www-form-urlencoded", schema, encoding=encoding)
    assert sent(made, a=["x", "y"], b=["x", "y"], c={"d": {"e": [1]}})[2] == "a=x&a=y&b=x,y&c%5Bd%5D%5Be%5D%5B0%5D=1"


@pytest.mark.parametrize(
    ("parameter", "why"),
    [
        ({"in": "path", "name": "a b", "style": "matrix"}, "has the style matrix and a name"),
        ({"in": "header", "name": "a b", "required": True}, "has a name that no header can have"),
        ({"in": "header", "name": "Host", "required": True}, "belongs to the connection"),
        ({"in": "query", "name": "{any}", "required": True}, "has a name with braces"),
        ({"in": "querystring", "name": "q", "required": True}, "is in 'querystring'"),
    ],
)
def test_a_parameter_that_cannot_be_written_leaves_the_operation_out(parameter: Any, why: str) -> None:
    found = look({"/a/{a b}": {"get": {"parameters": [{"schema": {}, **parameter}]}}})
    assert not found.candidates
    assert why in found.refused[0][1]


def test_one_that_may_be_left_out_is_left_out_alone() -> None:
    parameters = [{"in": "header", "name": "Host"}, {"in": "cookie", "name": "a b"}, {"in": "querystring", "name": "q"}]
    assert only(look({"/a": {"get": {"parameters": parameters}}})).definition["input_schema"]["properties"] == {}


def test_what_the_address_needs_and_nobody_describes_is_an_argument() -> None:
    made = only(look({"/a/{b}": {"get": {}}}))
    assert made.definition["input_schema"]["required"] == ["b"]
    assert path_of(made, b="x") == "/a/x"


def test_credentials_are_no_arguments() -> None:
    """Some documents describe the key twice, as a scheme and as a parameter."""
    parameters = [{"name": "x-key", "in": "header", "required": True}, {"name": "other", "in": "header"}]
    made = only(look({"/a": {"get": {"parameters": parameters}}}, components=SCHEMES, security=[{"key": []}]))
    assert list(made.definition["input_schema"]["properties"]) == ["other"]


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded"])
def test_a_body_without_properties_that_may_be_left_out_is_none(kind: str) -> None:
    """Stripe describes one at each of its reads."""
    body = {"content": {kind: {"encoding": {}, "schema": {"type": "object", "properties": {}}}}}
    for method in ("get", "post"):
        made = only(look({"/a": {method: {"requestBody": body}}}))
        assert made.definition["input_schema"]["properties"] == {}
        assert sent(made)[2] is None


def test_a_body_without_properties_that_must_be_there_is_empty() -> None:
    nothing: dict[str, Any] = {"type": "object", "properties": {}}
    assert sent(posting("application/json", nothing))[2] == "{}"
    assert sent(posting("application/x-www-form-urlencoded", nothing))[2] == ""


def test_a_form_of_any_fields_is_one_argument() -> None:
    made = posting("application/x-www-form-urlencoded", {"type": "object", "additionalProperties": {"type": "string"}})
    assert sent(made, body={"a": "1", "b": "x y"})[2] == "a=1&b=x%20y"


def test_a_body_that_a_read_must_send_leaves_it_out() -> None:
    body = {"required": True, "content": {"application/json": {"schema": POINT}}}
    found = look({"/a": {"get": {"requestBody": body}, "trace": {}}})
    assert [why for _, why in found.refused] == [
        "It needs a body with GET, which tools do not send.",
        "Tools do not send TRACE.",
    ]


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


def test_an_address_without_a_scheme_has_that_of_the_document() -> None:
    there = {"servers": [{"url": "https://upload.example/v1"}]}
    found = look({"/a": {"get": there}}, servers=[{"url": "//upload.example/v1"}])
    assert (found.url, found.refused) == ("", []), "a file has no scheme: the operator says the address"
    assert "//upload.example/v1" in found.notes[0]
    source = "http://docs.example/o.json"
    assert look({"/a": {"get": {}}}, servers=[{"url": "//h.example"}], source=source).url == "http://h.example"


@pytest.mark.parametrize(
    ("name", "schema", "size"),
    [
        ("per_page", {"type": "integer", "default": 30}, 25),  # as GitHub describes it
        ("maxResults", {"type": "integer", "format": "int32", "default": 50}, 25),  # Jira
        ("limit", {"type": "integer", "minimum": 1, "maximum": 1000}, 25),
        ("page[size]", {"type": "integer", "maximum": 10}, 10),
        ("$top", {"type": "integer", "minimum": 0}, 25),  # OData
        ("pageSize", {"type": "integer", "minimum": 50, "default": 100}, 50),
        ("limit", {"type": "integer", "exclusiveMaximum": 20}, 19),
        ("limit", {"type": "integer", "minimum": 30.5, "maximum": 1000}, 31),
        ("limit", {"type": "integer", "minimum": 20, "maximum": 10}, None),
        ("limit", {"type": ["integer", "null"], "maximum": 1e300}, None),
        ("limit", {"type": ["integer", "null"]}, 25),
        ("limit", {"type": "integer", "default": 10}, None),
        ("limit", {"type": "integer", "default": 100, "minimum": 100}, None),
        ("limit", {"type": "integer", "enum": [10, 100]}, None),
        ("limit", {"type": "integer", "maximum": 0}, None),
        ("limit", {"type": "string"}, None),
        ("$count", {"type": "boolean"}, None),
        ("page", {"type": "integer"}, None),
        ("offset", {"type": "integer"}, None),
    ],
)
def test_lists_have_a_small_page_unless_a_call_has_another(name: str, schema: Any, size: int | None) -> None:
    parameters = [
        {"name": name, "in": "query", "schema": schema},
        {"name": "state", "in": "query", "schema": {"type": "string"}},
    ]
    found = look({"/a": {"get": {"parameters": parameters}}})
    made = only(found)
    [argument, _] = made.definition["input_schema"]["properties"]
    held = made.definition["input_schema"]["properties"][argument]
    assert held.get("default") == (size if size is not None else schema.get("default"))
    assert {**held, "default": 0} == {**schema, "default": 0} | (
        {"description": held["description"]} if "description" in held else {}
    )
    key = quote(name, safe="")
    assert sent(made, state="open")[0] == (f"{key}={size}&state=open" if size else "state=open")
    assert sent(made, **{argument: 7})[0] == f"{key}=7"
    told = [f"Page size: operations that send {name}={size} unless a call has another: 1."] if size else []
    assert [note for note in found.notes if note.startswith("Page size")] == told


def test_a_page_size_that_a_call_must_have_or_that_is_of_no_list_stays_as_described() -> None:
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer"}}
    deleting = only(look({"/a": {"delete": {"parameters": [limit]}}}))
    assert sent(deleting) == ("", {}, None)
    assert deleting.definition["input_schema"]["properties"]["limit"] == {"type": "integer"}
    required = only(look({"/a": {"get": {"parameters": [{**limit, "required": True}]}}}))
    assert sent(required)[0] == ""
    assert required.definition["input_schema"]["properties"]["limit"] == {"type": "integer"}
