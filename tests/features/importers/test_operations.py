"""Imports into the catalogue: new, changed, gone, chosen, and what was written here."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from mcphub.features.importers import operations
from mcphub.features.importers.documents import DocumentRefused
from mcphub.features.importers.operations import Imported
from tests.factories import GroupFactory, McpToolDefinitionFactory
from tools_catalog.bundles import bundle, origins
from tools_catalog.catalog.searching import Index
from tools_catalog.models import HttpService, ImportedOperation, McpToolDefinition, McpToolset
from tools_catalog.models.ruled import definition_of

pytestmark = pytest.mark.django_db

FIRST: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Tickets"},
    "servers": [{"url": "https://tickets.example/v1"}],
    "paths": {
        "/tickets": {"get": {"operationId": "list", "description": "All."}},
        "/tickets/{n}": {
            "get": {
                "operationId": "read",
                "description": "One.",
                "parameters": [{"name": "n", "in": "path", "required": True, "schema": {"type": "integer"}}],
            }
        },
    },
}


def bring(document: Any, **more: Any) -> Imported:
    raw = json.dumps(document).encode()
    found = operations.look(raw, operations.OPENAPI, slug="tickets", prefix="tickets.")
    return operations.bring(found, "tickets", **{"enable": True, **more})


def test_the_first_import_makes_service_and_tools_and_the_second_nothing() -> None:
    report = bring(FIRST)
    assert report.created == ["tickets.list", "tickets.read"]
    assert HttpService.objects.get().url == "https://tickets.example/v1"
    tool = McpToolDefinition.objects.get(name="tickets.read")
    assert (tool.read_only, tool.destructive, tool.idempotent) == (True, False, True)
    newest = tool.versions.first()
    assert newest is not None
    assert newest.reason == "import of tickets"
    again = bring(FIRST)
    assert (again.unchanged, again.created, again.changed) == (["tickets.list", "tickets.read"], [], [])
    assert tool.versions.count() == 1


def test_headers_that_a_service_lacks_are_told_and_not_added() -> None:
    bring(FIRST)
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    keyed = {**FIRST, "components": {"securitySchemes": schemes}}
    told = "the description asks for headers it has not: X-Key: {secret:tickets}"
    assert told in bring(keyed).notes[-1]
    service = HttpService.objects.get()
    assert service.headers == {}
    service.headers = {"x-key": "of our own"}
    service.save()
    assert told not in " ".join(bring(keyed).notes)


def test_what_was_written_here_stays_and_the_rest_follows() -> None:
    bring(FIRST)
    tool = McpToolDefinition.objects.get(name="tickets.read")
    tool.description = "Our words."
    tool.name = "ticket"
    tool.read_only = False
    tool.save()
    changed = copy.deepcopy(FIRST)
    operation = changed["paths"]["/tickets/{n}"]["get"]
    operation["description"] = "Another."
    operation["parameters"][0]["schema"]["minimum"] = 1
    report = bring(changed)
    tool.refresh_from_db()
    assert (tool.name, tool.description, tool.read_only) == ("ticket", "Our words.", False)
    assert tool.input_schema["properties"]["n"] == {"type": "integer", "minimum": 1}
    assert list(report.differences["ticket"]) == ["input_schema"]
    assert sorted(report.overridden["ticket"]) == ["description", "name", "read_only"]
    assert "description" in bring(changed).overridden["ticket"]


def test_a_dry_run_tells_and_changes_nothing() -> None:
    report = bring(FIRST, dry_run=True)
    assert report.created == ["tickets.list", "tickets.read"]
    assert not McpToolDefinition.objects.exists()
    assert not HttpService.objects.exists()


def test_operations_are_chosen_once_and_later_ones_only_offered() -> None:
    report = bring(FIRST, only=["*read"])
    assert (report.created, report.offered) == (["tickets.read"], ["GET /tickets"])
    assert bring(FIRST).offered == ["GET /tickets"]
    assert bring(FIRST, only=["GET /tickets"]).created == ["tickets.list"]


def test_what_the_description_no_longer_has_is_switched_off() -> None:
    bring(FIRST)
    smaller = copy.deepcopy(FIRST)
    del smaller["paths"]["/tickets"]
    assert bring(smaller).gone == ["tickets.list"]
    assert not McpToolDefinition.objects.get(name="tickets.list").enabled
    assert bring(smaller).gone == []


def test_what_comes_back_stays_switched_off_and_is_told() -> None:
    bring(FIRST)
    bring({**FIRST, "paths": {"/tickets/{n}": FIRST["paths"]["/tickets/{n}"]}})
    report = bring(FIRST)
    assert not McpToolDefinition.objects.get(name="tickets.list").enabled
    assert report.notes == ["In the description, and switched off here: tickets.list"]


def test_a_name_that_is_taken_is_refused_and_nothing_comes() -> None:
    McpToolDefinitionFactory(name="tickets.read")
    report = bring(FIRST)
    [(key, why)] = report.refused
    assert key == "GET /tickets/{n}"
    assert "name" in why
    assert McpToolDefinition.objects.count() == 1


def test_new_tools_are_off_and_for_their_groups_and_in_their_toolset() -> None:
    group, toolset = GroupFactory(name="helpers"), McpToolset.objects.create(slug="help", enabled=True)
    bring(FIRST, enable=False, groups=[group], toolset=toolset)
    made = McpToolDefinition.objects.all()
    assert {(tool.enabled, *tool.groups.all(), *tool.toolsets.all()) for tool in made} == {(False, group, toolset)}
    McpToolDefinition.objects.update(enabled=True)
    changed = json.loads(json.dumps(FIRST))
    changed["paths"]["/tickets"]["get"]["description"] = "All of them."
    assert bring(changed, enable=False).changed == ["tickets.list"]
    assert McpToolDefinition.objects.filter(enabled=True).count() == 2, "tools that were there stay on"


def test_a_later_import_marks_what_destroys_and_keeps_what_was_said_to_only_read() -> None:
    bring(FIRST)
    for row in ImportedOperation.objects.all():  # as imports of before wrote them
        row.imported["read_only"] = row.key == "GET /tickets"
        row.save()
    McpToolDefinition.objects.filter(name="tickets.read").update(read_only=False)
    risky = json.loads(json.dumps(FIRST))
    for path in risky["paths"].values():
        path["get"]["summary"] = "Reset it"
    bring(risky)
    tools = McpToolDefinition.objects.order_by("name").values_list("name", "read_only", "destructive")
    assert list(tools) == [("tickets.list", True, False), ("tickets.read", False, True)]


@pytest.mark.parametrize("server", ["", "http://127.0.0.1/", "ftp://h/", "https://u:p@h/", "https://h/{x}"])
def test_a_server_that_must_not_be_called_is_refused(server: str) -> None:
    with pytest.raises(DocumentRefused):
        bring({**FIRST, "servers": [{"url": server}]})
    assert not McpToolDefinition.objects.exists()


def of_another_hub(dump: Callable[[], Any] = bundle.dump, **edited: Any) -> Any:
    """Return the bundle of a hub that imported this and edited one tool; here nothing of it is left."""
    with transaction.atomic():
        bring(FIRST)
        tool = McpToolDefinition.objects.get(name="tickets.read")
        for name, value in edited.items():
            setattr(tool, name, value)
        tool.save()
        dumped = json.loads(json.dumps(dump()))
        transaction.set_rollback(True)
    return dumped


def test_a_bundle_carries_what_was_imported_so_that_the_next_hub_keeps_what_was_written_here() -> None:
    dumped = of_another_hub(name="ticket", description="Our words.", input_schema={"type": "object"})
    said = {entry["name"]: entry["imported"] for entry in dumped["tools"]}
    assert said["tickets.list"] == {"service": "tickets", "key": "GET /tickets"}
    assert set(said["ticket"]["differs"]) == {"name", "description", "inputSchema"}

    assert bundle.load(dumped, reason="bundle x").created == ["tickets", "ticket", "tickets.list"]
    assert json.loads(json.dumps(bundle.dump())) == dumped
    assert bring(FIRST).unchanged == ["tickets.list", "ticket"]
    changed = copy.deepcopy(FIRST)
    operation = changed["paths"]["/tickets/{n}"]["get"]
    operation["description"], operation["parameters"][0]["schema"] = "Another.", {"type": "string"}
    changed["paths"]["/tickets"]["get"]["description"] = "Every one."
    report = bring(changed)
    assert report.changed == ["tickets.list"]
    assert sorted(report.overridden["ticket"]) == ["description", "input_schema", "name"]
    tool = McpToolDefinition.objects.get(name="ticket")
    assert (tool.description, tool.input_schema) == ("Our words.", {"type": "object"})
    assert McpToolDefinition.objects.get(name="tickets.list").description == "Every one."
    del changed["paths"]["/tickets"]
    assert bring(changed).gone == ["tickets.list"]


def test_a_selection_of_tools_carries_it_too() -> None:
    chosen = of_another_hub(lambda: bundle.dump_tools(McpToolDefinition.objects.filter(name="tickets.read")))
    bundle.load(chosen, reason="bundle x")
    assert bring(FIRST).offered == ["GET /tickets"]


def test_what_an_import_here_has_kept_stays_unless_it_is_overwritten() -> None:
    bring(FIRST)
    tool = McpToolDefinition.objects.get(name="tickets.read")
    tool.description = "Our words."
    tool.save()
    dumped = bundle.dump()
    newer = copy.deepcopy(FIRST)
    newer["paths"]["/tickets/{n}"]["get"]["description"] = "Another."
    bring(newer)
    kept = ImportedOperation.objects.get(key="GET /tickets/{n}").imported
    assert kept["description"] == "Another."
    report = bundle.load(dumped, reason="bundle x")
    assert (report.created, report.changed, report.kept) == ([], [], [])
    assert ImportedOperation.objects.get(key="GET /tickets/{n}").imported == kept
    report = bundle.load(dumped, reason="bundle x", overwrite=True)
    assert report.changed == ["tickets.read"]
    assert list(report.differences["tickets.read"]) == ["imported"]
    assert ImportedOperation.objects.get(key="GET /tickets/{n}").imported["description"] == "One."


def test_an_operation_that_is_another_tool_here_stays_that_tools() -> None:
    bring(FIRST)
    dumped = bundle.dump()
    tool = McpToolDefinition.objects.get(name="tickets.read")
    tool.name = "ticket"
    tool.save()
    assert bundle.load(dumped, reason="bundle x").created == ["tickets.read"]
    assert ImportedOperation.objects.get(key="GET /tickets/{n}").tool == tool


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (5, "must be an object"),
        ({"service": "tickets"}, "must be an object"),
        ({"service": "tickets", "key": ""}, "must be texts"),
        ({"service": ["tickets"], "key": "k"}, "must be texts"),
        ({"service": "tickets", "key": "k", "differs": {"enabled": False}}, "an object of these members"),
        ({"service": "nowhere", "key": "k"}, "there is no service 'nowhere'"),
    ],
)
def test_what_says_nothing_of_an_import_is_refused(said: Any, why: str) -> None:
    dumped = of_another_hub()
    dumped["tools"][0]["imported"] = said
    [(name, told)] = bundle.load(dumped, reason="bundle x").refused
    assert name == "tickets.list"
    assert told.startswith("imported: ")
    assert why in told
    assert not McpToolDefinition.objects.exists()


@pytest.mark.parametrize("kind", [operations.OPENAPI, operations.GRAPHQL])
def test_a_bundle_knows_every_column_that_an_import_writes(kind: str) -> None:
    if kind == operations.OPENAPI:
        bring(FIRST)
    else:
        field = {"name": "book", "args": [], "type": {"kind": "SCALAR", "name": "String"}}
        types = [{"kind": "OBJECT", "name": "Query", "fields": [field]}, {"kind": "SCALAR", "name": "String"}]
        schema = {"queryType": {"name": "Query"}, "types": types}
        raw = json.dumps({"data": {"__schema": schema}}).encode()
        found = operations.look(raw, kind, slug="tickets", prefix="tickets.")
        operations.bring(found, "tickets", url="https://tickets.example/graphql")
    for row in ImportedOperation.objects.all():
        assert set(row.imported) == set(origins.COLUMNS)
    assert ImportedOperation.objects.exists()


OAUTH = {
    "type": "oauth2",
    "flows": {
        "authorizationCode": {
            "authorizationUrl": "https://login.example/authorize",
            "tokenUrl": "https://login.example/token",
            "scopes": {"read": "Read", "admin": "Everything"},
        }
    },
}


def test_a_scheme_of_oauth_becomes_a_setting_that_waits_to_be_chosen() -> None:
    document = {**FIRST, "components": {"securitySchemes": {"login": OAUTH}}, "security": [{"login": ["read"]}]}
    report = bring(document)
    row = HttpService.objects.get()
    found = (row.account, row.authorization_url, row.token_url, row.account_scopes)
    assert found == ("none", "https://login.example/authorize", "https://login.example/token", "read")
    assert any("can have an account" in note for note in report.notes)
    row.headers, row.account, row.client_id = {}, "personal", "hub"
    row.full_clean()


def test_openid_connect_names_the_issuer() -> None:
    address = "https://login.example/realms/x/.well-known/openid-configuration"
    scheme = {"type": "openIdConnect", "openIdConnectUrl": address}
    bring({**FIRST, "components": {"securitySchemes": {"login": scheme}}, "security": [{"login": []}]})
    assert HttpService.objects.get().issuer == "https://login.example/realms/x"


def test_swagger_2_says_the_same_of_accounts() -> None:
    flow = {"type": "oauth2", "flow": "accessCode", **OAUTH["flows"]["authorizationCode"]}  # type: ignore[index,dict-item]
    bring(
        {
            "swagger": "2.0",
            "info": {"title": "Tickets"},
            "host": "tickets.example",
            "basePath": "/v1",
            "schemes": ["https"],
            "paths": {"/tickets": {"get": {"operationId": "list", "description": "All.", "responses": {}}}},
            "securityDefinitions": {"login": flow},
            "security": [{"login": ["admin"]}],
        }
    )
    row = HttpService.objects.get()
    assert (row.token_url, row.account_scopes) == ("https://login.example/token", "admin")


def test_addresses_that_the_hub_may_not_request_are_left_out_and_told() -> None:
    flow = {**OAUTH["flows"]["authorizationCode"], "tokenUrl": "http://10.0.0.1/token"}  # type: ignore[index,dict-item]
    scheme = {"type": "oauth2", "flows": {"authorizationCode": flow}}
    report = bring({**FIRST, "components": {"securitySchemes": {"login": scheme}}, "security": [{"login": ["read"]}]})
    assert HttpService.objects.get().token_url == ""
    assert any("left out" in note for note in report.notes)


def test_who_asks_hears_how_many_operations_are_checked_and_written() -> None:
    heard: list[tuple[str, int, int]] = []
    bring(FIRST, told=lambda *words: heard.append(words))
    count = ImportedOperation.objects.count()
    assert heard[0] == ("checked", 0, count)
    assert heard[-1] == ("written", count, count)
    assert heard == sorted(heard)


def test_examples_of_use_follow_the_description_until_somebody_writes_others() -> None:
    bring(FIRST)
    changed = copy.deepcopy(FIRST)
    operation = changed["paths"]["/tickets"]["get"]
    operation["x-examples"] = ["Who waits for an answer?"]
    assert bring(changed).changed == ["tickets.list"]
    tool = McpToolDefinition.objects.get(name="tickets.list")
    assert tool.meta == {"mcphub/examples": ["Who waits for an answer?"]}
    assert Index({"tickets.list": definition_of(tool), "tickets.read": {"name": "tickets.read"}}).rank("waits") == [
        tool.name
    ]
    assert bring(changed).unchanged == ["tickets.list", "tickets.read"]
    assert bring(FIRST).changed == ["tickets.list"]
    tool.refresh_from_db()
    assert tool.meta == {}
    tool.meta = {"mcphub/examples": ["Ours?"]}
    tool.save()
    assert bring(changed).overridden == {"tickets.list": ["meta"]}
    tool.refresh_from_db()
    assert tool.meta == {"mcphub/examples": ["Ours?"]}
