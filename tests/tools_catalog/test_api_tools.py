"""/api/tool-definitions/: what can be called, changed by the rules of the admin, shown to whom it is open."""

from __future__ import annotations

import pytest
from django.test import Client

from sessions_app.history.reading import history_of
from sessions_app.models import ApiKey
from tests.factories import GroupFactory, McpToolDefinitionFactory
from tests.rest import by_key, by_person, by_token, error_of
from tools_catalog.models import McpToolDefinition, Secret

pytestmark = pytest.mark.django_db

LIST = "/api/tool-definitions/"
VIEW = "tools_catalog.view_mcptooldefinition"
ADD = "tools_catalog.add_mcptooldefinition"
CHANGE = "tools_catalog.change_mcptooldefinition"
NEW = {
    "name": "weather.now",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    "backend": "http",
    "configuration": {"url": "https://api.example.org/now", "query": {"q": "{city}"}},
}


@pytest.fixture
def operator():
    return by_key("catalog:write", "tools:list")


@pytest.fixture
def tool():
    return McpToolDefinitionFactory(name="weather")


def post(client, **changes):
    return client.post(LIST, {**NEW, **changes}, content_type="application/json")


def patch(client, name="weather", **body):
    return client.patch(f"{LIST}{name}/", body, content_type="application/json")


def names(response):
    assert response.status_code == 200, response.content
    return [row["name"] for row in response.json()["results"]]


@pytest.mark.parametrize("function", [["a"], {"a": 1}, 1, None])
def test_a_function_is_named_by_a_text(function, operator):
    answer = post(operator, backend="python", configuration={"function": function})
    assert "configuration" in error_of(answer, 409, "conflict")["details"]["fields"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["a", "b"]),
        ({"enabled": "true"}, ["a"]),
        ({"enabled": "false"}, ["b"]),
        ({"read_only": "true"}, ["b"]),
        ({"backend": "http"}, ["a", "b"]),
        ({"backend": "python"}, []),
        ({"limit": "1"}, ["a"]),
    ],
)
def test_each_filter_finds_its_tools(operator, query, found):
    McpToolDefinitionFactory(name="a")
    McpToolDefinitionFactory(name="b", enabled=False, read_only=True, destructive=False)
    assert names(operator.get(LIST, query)) == found


def test_a_tool_is_added_with_its_first_version(operator):
    response = post(operator, reason="wanted")
    assert response.status_code == 201, response.content
    assert response.json()["version"] == "1"
    tool = McpToolDefinition.objects.get(name="weather.now")
    version = tool.versions.get()
    assert "auditor" in version.reason
    assert version.reason.endswith("wanted")
    assert version.author is None
    assert operator.get(f"{LIST}weather.now").json() == response.json()


def test_a_change_makes_the_next_version_and_names_who_made_it(tool):
    client = by_person(VIEW, CHANGE, username="olga")
    response = patch(client, description="Tells more.", reason="clearer")
    assert response.status_code == 200, response.content
    assert response.json()["version"] == "2"
    page = client.get(f"{LIST}weather/versions/").json()
    assert [row["version"] for row in page["results"]] == ["2", "1"]
    newest = page["results"][0]
    assert (newest["author_label"], newest["reason"]) == ("olga", "clearer")
    assert newest["definition"]["description"] == "Tells more."
    assert history_of(tool).first().actor_label == "olga"


def test_a_tool_is_disabled_and_stays_at_its_version(operator, tool):
    body = patch(operator, enabled=False).json()
    assert body["enabled"] is False
    assert body["version"] == "1"


def test_what_was_read_can_be_put_back(operator, tool):
    body = operator.get(f"{LIST}weather/").json()
    response = operator.put(f"{LIST}weather/", body, content_type="application/json")
    assert response.status_code == 200, response.content
    assert response.json()["version"] == "1"


def test_groups_are_written_by_name(tool):
    superuser = by_person(is_superuser=True)
    GroupFactory(name="staff")
    assert patch(superuser, groups=["staff"]).json()["groups"] == ["staff"]
    assert patch(superuser, groups=[]).json()["groups"] == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "no blanks"}, "name"),
        ({"description": ""}, "description"),
        ({"title": 5}, "title"),
        ({"groups": {}}, "groups"),
        ({"read_only": "true"}, "read_only"),
        ({"input_schema": "x"}, "input_schema"),
        ({"backend": "pigeon"}, "backend"),
        ({"configuration": "x"}, "configuration"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": "soon"}, "timeout_seconds"),
        ({"timeout_seconds": "5"}, "timeout_seconds"),
        ({"meta": []}, "meta"),
        ({"version": "9"}, "version"),
        ({"surprise": 1}, "surprise"),
        ({"calls_per_minute": -1}, "calls_per_minute"),
    ],
)
def test_a_bad_definition_is_refused_by_its_field(operator, tool, changes, field):
    _refused(operator, changes, field, 400, "invalid_params")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "weather"}, "name"),
        ({"input_schema": {"type": "string"}}, "input_schema"),
        ({"output_schema": {"type": "nonsense"}}, "output_schema"),
        ({"configuration": {"url": "ftp://x"}}, "configuration"),
        ({"configuration": {}}, "configuration"),
        ({"backend": "python", "configuration": {"function": "os:system"}}, "configuration"),
        ({"read_only": True, "destructive": True}, "*"),
        ({"groups": ["nobody"]}, "groups"),
    ],
)
def test_what_keeps_to_the_schema_and_cannot_be_is_a_conflict(operator, tool, changes, field):
    _refused(operator, changes, field, 409, "conflict")


def _refused(operator, changes, field, status, code):
    error = error_of(post(operator, **changes), status, code)
    assert field in error["details"]["fields"]
    assert set(error["details"]["fields"]) <= {field, "*"}
    assert not McpToolDefinition.objects.exclude(name="weather").exists()


def test_missing_fields_are_all_named(operator):
    error = error_of(operator.post(LIST, {}, content_type="application/json"), 400, "invalid_params")
    assert set(error["details"]["fields"]) == {"name", "description", "input_schema", "backend", "configuration"}


def test_a_refused_change_leaves_no_version(operator, tool):
    error_of(patch(operator, description="New.", groups=["nobody"]), 409, "conflict")
    assert tool.versions.count() == 1


@pytest.mark.parametrize("path", [f"{LIST}weather/", f"{LIST}weather"])
def test_a_tool_is_not_deleted_but_disabled(operator, tool, path):
    error = error_of(operator.delete(path), 405, "method_not_allowed")
    assert '{"enabled": false}' in error["message"]
    assert McpToolDefinition.objects.filter(name="weather").exists()


def test_a_key_sees_the_tools_of_its_groups():
    staff, others = GroupFactory(name="staff"), GroupFactory(name="others")
    McpToolDefinitionFactory(name="open")
    McpToolDefinitionFactory(name="ours").groups.add(staff, others)
    McpToolDefinitionFactory(name="theirs").groups.add(others)
    assert names(by_key("tools:list").get(LIST)) == ["open"]
    member = by_key("tools:list", groups=(staff,))
    assert names(member.get(LIST)) == ["open", "ours"]
    assert member.get(f"{LIST}ours/versions").status_code == 200
    hidden = error_of(member.get(f"{LIST}theirs/"), 404, "not_found")
    assert hidden == error_of(member.get(f"{LIST}nothing/"), 404, "not_found")
    error_of(member.get(f"{LIST}theirs/versions/"), 404, "not_found")
    assert names(by_key("tools:list", "catalog:write").get(LIST)) == ["open", "ours", "theirs"]
    assert names(by_person(VIEW).get(LIST)) == ["open", "ours", "theirs"]


def test_how_a_tool_is_run_is_shown_to_who_runs_the_catalogue_only(operator, tool):
    assert operator.get(f"{LIST}weather/").json()["configuration"] == tool.configuration
    client = by_key("tools:list")
    assert client.get(f"{LIST}weather/").json()["configuration"] is None
    version = client.get(f"{LIST}weather/versions/").json()["results"][0]
    assert version["definition"]["configuration"] is None


def test_a_secret_is_named_and_never_shown(operator, tool):
    secret = Secret(name="token", origins="api.example.org", places="headers.X-Key", users="tool:weather")
    secret.set_value("very-secret-value")
    secret.save()
    configuration = {"url": "https://api.example.org/", "headers": {"X-Key": "{secret:token}"}}
    response = patch(operator, configuration=configuration)
    assert response.json()["configuration"] == configuration
    for path in (f"{LIST}weather/", f"{LIST}weather/versions/", LIST):
        assert b"very-secret-value" not in operator.get(path).content


def test_a_list_takes_five_queries_beside_the_key(tool, django_assert_num_queries):
    McpToolDefinitionFactory.create_batch(5)
    _, token = ApiKey.issue("lister", scopes=["tools:list"])
    client = by_token(token)
    client.get(LIST)
    with django_assert_num_queries(5):  # one of them for checks that may hide tools
        assert len(names(client.get(LIST))) == 6


def test_who_reads_and_writes_tools(tool):
    error_of(Client().get(LIST), 401, "unauthorized")
    error_of(by_key("audit:read").get(LIST), 403, "forbidden")
    error_of(by_person().get(LIST), 403, "forbidden")
    assert by_person(is_superuser=True).get(LIST).status_code == 200
    error_of(patch(by_key("tools:list"), enabled=False), 403, "forbidden")
    error_of(patch(by_person(VIEW), enabled=False), 403, "forbidden")
    error_of(post(by_person(VIEW, CHANGE)), 403, "forbidden")
    error_of(post(by_key("tools:list", "tools:call")), 403, "forbidden")
    assert patch(by_person(CHANGE), enabled=False).status_code == 200
    assert post(by_person(ADD)).status_code == 201
