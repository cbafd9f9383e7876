"""GET /api/tasks/: filters, and who reads what."""

from __future__ import annotations

import pytest

from tests.factories import McpTaskFactory
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

LIST = "/api/tasks/"


def ids(response):
    assert response.status_code == 200, response.content
    return [row["task_id"] for row in response.json()["results"]]


def test_tasks_are_listed_newest_first_and_filtered():
    client = by_key("audit:read")
    one = McpTaskFactory(tool_name="add", principal="key:7")
    two = McpTaskFactory(over=True)
    assert ids(client.get(LIST)) == [two.task_id, one.task_id]
    for query in (
        {"state": "working"},
        {"tool": "add"},
        {"principal": "key:7"},
        {"session": one.session_id},
        {"invocation_id": one.invocation_id},
    ):
        assert ids(client.get(LIST, query)) == [one.task_id]
    error_of(client.get(LIST, {"colour": "red"}), 400, "invalid_params")


def test_one_task_is_read_whole():
    task = McpTaskFactory(over=True, input_requests={"a": {}}, input_responses={"a": {"result": {}}})
    found = by_key("audit:read").get(f"{LIST}{task.task_id}/").json()
    assert (found["state"], found["result"], found["error"]) == ("completed", task.result, None)
    assert (found["input_requests"], found["bodies_hidden"]) == ({"a": {}}, False)
    error_of(by_key("audit:read").get(f"{LIST}nowhere/"), 404, "not_found")


def test_bodies_and_the_list_itself_need_their_rights():
    task = McpTaskFactory(over=True, input_requests={"a": {}})
    viewer = by_person("invocations.view_mcptask")
    found = viewer.get(f"{LIST}{task.task_id}/").json()
    assert (found["result"], found["input_requests"], found["bodies_hidden"]) == (None, None, True)
    error_of(by_key("tools:call").get(LIST), 403, "forbidden")
    assert by_key("audit:read").delete(f"{LIST}{task.task_id}/").status_code == 405
