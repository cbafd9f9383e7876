"""/api/schema and /api/docs: true, complete, and served without the internet."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from drf_spectacular.validation import validate_schema
from rest_framework.test import APIClient

from mcphub.rest.api import SchemaView
from tests.factories import (
    HttpServiceFactory,
    McpPromptFactory,
    McpRequestEnvelopeFactory,
    McpResourceFactory,
    McpToolDefinitionFactory,
    McpToolInvocationFactory,
    McpToolsetFactory,
)
from tests.rest import by_key, error_of

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture(scope="module")
def schema():
    return json.loads(APIClient().get("/api/schema").content)


@pytest.mark.parametrize("path", ["/api/schema", "/api/schema/"])
def test_the_schema_is_json_and_yaml(path):
    response = Client().get(path)
    assert response["Content-Type"].startswith("application/json")
    assert response.json()["openapi"] == "3.1.0"
    for yaml in (Client().get(path, {"format": "yaml"}), Client().get(path, headers={"accept": "application/yaml"})):
        assert yaml.status_code == 200
        assert yaml.content.startswith(b"openapi: 3.1.0")
    assert Client().get(path, {"format": "json"}).json()["openapi"] == "3.1.0"
    error_of(Client().get(path, {"format": "xml"}), 404, "not_found")


def test_the_schema_is_made_once_in_each_language():
    SchemaView._made.clear()
    asked = [Client().get("/api/schema", {"lang": name}) for name in ("", "en", "ru", "xx", "en", "ru")]
    assert {answer.status_code for answer in asked} == {200}
    assert [language for language, _, _ in SchemaView._made] == ["en", "ru"]
    assert asked[1].content == asked[4].content != asked[2].content == asked[5].content


def test_the_schema_is_valid(schema):
    validate_schema(schema)


def test_every_address_is_described(schema):
    assert {(path, method) for path, item in schema["paths"].items() for method in item} == {
        ("/api/", "get"),
        ("/api/query", "post"),
        ("/api/session", "post"),
        ("/api/session/{id}", "get"),
        ("/api/session/{id}", "delete"),
        ("/api/tools", "get"),
        ("/api/health", "get"),
        ("/api/audit/archive/", "get"),
        ("/api/audit/checkpoints/", "get"),
        ("/api/audit/checkpoints/{size}/", "get"),
        ("/api/audit/consistency/{old}/{new}/", "get"),
        ("/api/audit/events/", "get"),
        ("/api/audit/events/{sequence}/", "get"),
        ("/api/audit/events/{sequence}/proof/", "get"),
        ("/api/audit/proofs/{invocation_id}/", "get"),
        ("/api/allowed-hosts/", "get"),
        ("/api/allowed-hosts/", "post"),
        ("/api/allowed-hosts/{id}/", "get"),
        ("/api/allowed-hosts/{id}/", "put"),
        ("/api/allowed-hosts/{id}/", "patch"),
        ("/api/allowed-hosts/{id}/", "delete"),
        ("/api/accounts/", "get"),
        ("/api/accounts/{id}/", "get"),
        ("/api/accounts/{id}/", "delete"),
        ("/api/approvals/", "get"),
        ("/api/approvals/{id}/", "get"),
        ("/api/approvals/{id}/approve/", "post"),
        ("/api/approvals/{id}/deny/", "post"),
        ("/api/errors/", "get"),
        ("/api/errors/{id}/", "get"),
        ("/api/errors/{id}/mute/", "post"),
        ("/api/errors/{id}/reopen/", "post"),
        ("/api/errors/{id}/resolve/", "post"),
        ("/api/audit/shipping/", "get"),
        ("/api/audit/shipping/{name}/", "get"),
        ("/api/audit/verifications/", "get"),
        ("/api/invocations/{invocation_id}/replay/", "post"),
        ("/api/invocations/stream/", "get"),
        ("/api/audit/export/", "get"),
        ("/api/launch-profiles/", "get"),
        ("/api/launch-profiles/{name}/", "get"),
        ("/api/launch-profiles/", "post"),
        ("/api/launch-profiles/{name}/", "put"),
        ("/api/launch-profiles/{name}/", "patch"),
        ("/api/secrets/", "get"),
        ("/api/secrets/{name}/", "get"),
        ("/api/secrets/", "post"),
        ("/api/secrets/{name}/", "put"),
        ("/api/secrets/{name}/", "patch"),
        ("/api/secrets/{name}/", "delete"),
        ("/api/offers/", "get"),
        ("/api/offers/{id}/", "get"),
        ("/api/offers/{id}/approve/", "post"),
        ("/api/offers/{id}/reject/", "post"),
        ("/api/keys/", "get"),
        ("/api/keys/", "post"),
        ("/api/audit/holds/", "get"),
        ("/api/audit/holds/", "post"),
        ("/api/audit/holds/{name}/", "get"),
        ("/api/audit/holds/{name}/release/", "post"),
        ("/api/audit/retention/", "get"),
        ("/api/audit/retention/", "patch"),
        ("/api/keys/{prefix}/accountable/", "post"),
        ("/api/access-reviews/", "get"),
        ("/api/access-reviews/", "post"),
        ("/api/access-reviews/{id}/", "get"),
        ("/api/access-reviews/{id}/close/", "post"),
        ("/api/access-reviews/{id}/decide/", "post"),
        ("/api/reviewed-grants/", "get"),
        ("/api/reviewed-grants/{id}/", "get"),
        ("/api/embedding-models/", "get"),
        ("/api/embedding-models/{id}/", "get"),
        ("/api/alerts/", "get"),
        ("/api/alerts/", "post"),
        ("/api/alerts/{id}/preview/", "get"),
        ("/api/write-stops/", "get"),
        ("/api/write-stops/", "post"),
        ("/api/write-stops/{id}/", "get"),
        ("/api/write-stops/{id}/allow/", "post"),
        ("/api/skills/", "get"),
        ("/api/skills/", "post"),
        ("/api/skills/{id}/", "get"),
        ("/api/skills/{id}/", "put"),
        ("/api/skills/{id}/", "patch"),
        ("/api/skills/{id}/", "delete"),
        ("/api/skills/{id}/versions/", "get"),
        ("/api/upstream-events/", "get"),
        ("/api/upstream-events/{id}/", "get"),
        ("/api/upstream-events/{id}/approve/", "post"),
        ("/api/upstream-events/{id}/stop/", "post"),
        ("/api/event-subscriptions/", "get"),
        ("/api/event-subscriptions/", "post"),
        ("/api/event-subscriptions/{id}/", "get"),
        ("/api/event-subscriptions/{id}/", "delete"),
        ("/api/keys/{prefix}/revoke/", "post"),
        ("/api/keys/{prefix}/rotate/", "post"),
        ("/api/keys/{prefix}/", "get"),
        ("/api/connections/", "get"),
        ("/api/connections/", "post"),
        ("/api/connections/{slug}/", "get"),
        ("/api/connections/{slug}/", "put"),
        ("/api/connections/{slug}/", "patch"),
        ("/api/error-mappings/", "get"),
        ("/api/error-mappings/{internal_code}/", "get"),
        ("/api/error-mappings/{internal_code}/", "put"),
        ("/api/error-mappings/{internal_code}/", "patch"),
        ("/api/invocations/", "get"),
        ("/api/invocations/facets/", "get"),
        ("/api/invocations/statistics/", "get"),
        ("/api/invocations/{invocation_id}/", "get"),
        ("/api/notice-deliveries/", "get"),
        ("/api/notice-deliveries/{id}/", "get"),
        ("/api/notices/", "get"),
        ("/api/notices/{id}/", "get"),
        ("/api/processes/", "get"),
        ("/api/processes/{process_id}/", "get"),
        ("/api/sessions/", "get"),
        ("/api/sessions/{session_id}/", "get"),
        ("/api/sessions/{session_id}/", "patch"),
        ("/api/tasks/", "get"),
        ("/api/tasks/{task_id}/", "get"),
        ("/api/tool-definitions/", "get"),
        ("/api/tool-definitions/", "post"),
        ("/api/tool-definitions/{name}/", "get"),
        ("/api/tool-definitions/{name}/", "put"),
        ("/api/tool-definitions/{name}/", "patch"),
        ("/api/tool-definitions/{name}/versions/", "get"),
        *(
            (path, method)
            for path in ("/api/resources/", "/api/prompts/", "/api/services/", "/api/toolsets/", "/api/policy-rules/")
            for method in ("get", "post")
        ),
        ("/api/guardrails/", "get"),
        ("/api/guardrails/", "post"),
        ("/api/guardrails/try/", "post"),
        ("/api/quotas/", "get"),
        ("/api/quotas/", "post"),
        ("/api/quotas/usage/", "get"),
        ("/api/people/", "get"),
        ("/api/people/{username}/", "get"),
        ("/api/people/{username}/", "patch"),
        ("/api/people/{username}/end/", "post"),
        *(
            (f"/api/{part}/", method)
            for part in ("groups", "models", "providers", "redaction-rules", "saved-views")
            for method in ("get", "post")
        ),
        ("/api/providers/{slug}/test/", "post"),
        ("/api/connections/{slug}/test/", "post"),
        ("/api/connections/{slug}/refresh/", "post"),
        ("/api/model-prices/", "get"),
        ("/api/model-prices/", "post"),
        *(
            (path, method)
            for path in (
                "/api/resources/{id}/",
                "/api/prompts/{name}/",
                "/api/toolsets/{slug}/",
                "/api/policy-rules/{name}/",
                "/api/guardrails/{name}/",
                "/api/quotas/{name}/",
                "/api/alerts/{id}/",
                "/api/model-prices/{name}/",
                "/api/providers/{slug}/",
                "/api/models/{id}/",
                "/api/groups/{name}/",
                "/api/redaction-rules/{id}/",
                "/api/saved-views/{id}/",
            )
            for method in ("get", "put", "patch", "delete")
        ),
        *(("/api/services/{slug}/", method) for method in ("get", "put", "patch")),
        ("/api/waiting-changes/", "get"),
        ("/api/waiting-changes/{id}/", "get"),
        ("/api/workspaces/", "get"),
        ("/api/workspaces/", "post"),
        ("/api/workspaces/{slug}/", "get"),
        ("/api/workspaces/{slug}/", "put"),
        ("/api/workspaces/{slug}/", "patch"),
    }


def test_every_operation_declares_its_errors_and_keys(schema):
    for item in schema["paths"].values():
        for operation in item.values():
            if operation["tags"] == ["chat"]:  # which has errors of its own, and keys alone
                answer = operation["responses"]["500"]["content"]["application/problem+json"]["schema"]
                assert answer == {"$ref": "#/components/schemas/ChatFailure"}
                assert operation["security"] in ([{"key": []}], [])
                continue
            assert {"400", "401", "403", "500", "503"} <= set(operation["responses"])
            answer = operation["responses"]["400"]["content"]["application/problem+json"]["schema"]
            assert answer == {"$ref": "#/components/schemas/Error"}
            assert operation["security"] == [{"key": []}, {"cookieAuth": []}]
            assert operation["summary"]


def test_answers_keep_to_the_schema(schema):
    call = McpToolInvocationFactory(failed=True, request_id="a")
    McpToolInvocationFactory(request_id=None)
    McpRequestEnvelopeFactory(invocation_id=call.invocation_id)
    McpToolDefinitionFactory(name="weather")
    McpResourceFactory(uri="x://{id}", annotations={"priority": 1}, icons=[{"src": "https://x.example"}])
    McpPromptFactory(name="greet", arguments=[{"name": "who"}])
    HttpServiceFactory(headers={"X-Key": "{secret:KEY}"})
    McpToolsetFactory(slug="few", patterns="weather.*").tools.add(McpToolDefinitionFactory())
    operator, lister = by_key("audit:read", "catalog:write", "tools:list"), by_key("tools:list")
    for client, url, path in [
        (operator, "/api/invocations/", "/api/invocations/"),
        (operator, "/api/invocations/?limit=1", "/api/invocations/"),
        (operator, "/api/invocations/facets/", "/api/invocations/facets/"),
        (operator, "/api/invocations/statistics/?by=hour", "/api/invocations/statistics/"),
        (operator, "/api/invocations/?fields=sequence,error", "/api/invocations/"),
        (operator, f"/api/invocations/{call.invocation_id}/", "/api/invocations/{invocation_id}/"),
        (operator, "/api/sessions/", "/api/sessions/"),
        (operator, "/api/error-mappings/", "/api/error-mappings/"),
        (operator, "/api/tool-definitions/", "/api/tool-definitions/"),
        (lister, "/api/tool-definitions/weather/", "/api/tool-definitions/{name}/"),
        (lister, "/api/tool-definitions/weather/versions/", "/api/tool-definitions/{name}/versions/"),
        (operator, "/api/resources/", "/api/resources/"),
        (lister, "/api/resources/", "/api/resources/"),
        (operator, "/api/prompts/", "/api/prompts/"),
        (lister, "/api/prompts/greet/", "/api/prompts/{name}/"),
        (operator, "/api/services/", "/api/services/"),
        (operator, "/api/toolsets/", "/api/toolsets/"),
        (lister, "/api/toolsets/few/", "/api/toolsets/{slug}/"),
        (operator, "/api/invocations/?tool=", "/api/invocations/"),
        (lister, "/api/invocations/", "/api/invocations/"),
    ]:
        response = client.get(url)
        answer = schema["paths"][path]["get"]["responses"][str(response.status_code)]
        shape = answer["content"][response["Content-Type"]]["schema"]
        jsonschema.Draft202012Validator({**shape, "components": schema["components"]}).validate(response.json())


def test_bodies_are_free_and_requests_are_closed(schema):
    parts = schema["components"]["schemas"]
    assert parts["Invocation"]["properties"]["arguments"]["type"] == ["object", "null"]
    assert parts["Invocation"]["properties"]["request_id"]["type"] == ["string", "integer", "null"]
    assert parts["ToolDefinitionRequest"]["additionalProperties"] is False
    assert parts["ToolDefinitionRequest"]["properties"]["configuration"]["type"] == "object"
    assert parts["ToolDefinition"]["properties"]["configuration"]["type"] == ["object", "null"]
    assert "reason" not in parts["ToolDefinition"]["properties"]


def test_parameters_that_may_not_be_empty_say_so(schema):
    told = {
        parameter["name"]: parameter["schema"]
        for parameter in schema["paths"]["/api/invocations/"]["get"]["parameters"]
    }
    assert told["tool"]["items"]["minLength"] == 1
    assert "minLength" not in told["status"]["items"]
    error_of(by_key("audit:read").get("/api/invocations/?tool="), 400, "invalid_params")


@pytest.mark.parametrize("path", ["/api/docs", "/api/docs/"])
def test_the_docs_ask_nothing_of_the_internet(path):
    response = Client().get(path)
    assert response.status_code == 200
    page = response.content.decode()
    script = re.search(r'src="([^"]+\?script=[^"]*)"', page)
    assert script is not None
    page += Client().get(script[1]).content.decode()
    assert not re.findall(r"""(?:https?:)?//[\w.-]+\.\w+""", page)
    assert re.search(r'"validatorUrl":\s*null', page)
    assert "unsafe" not in response.headers["Content-Security-Policy"]
    files = re.findall(r'(?:src|href)="/static/([^"?]+)"', page)
    assert len(files) >= 3
    assert all(finders.find(name) for name in files)
    assert "/api/schema" in page
