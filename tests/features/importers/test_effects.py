"""What an operation does, read from its method and its words: what is unsure writes and may destroy."""

from __future__ import annotations

import json

import pytest

from mcphub.features.importers import operations

READS, WRITES, DESTROYS = (True, False), (False, False), (False, True)


@pytest.mark.parametrize(
    ("method", "path", "called", "told", "parameters", "effects"),
    [
        ("get", "/tickets", "listTickets", "List tickets", [], READS),
        ("get", "/settings", "getSettings", "", [], READS),
        ("get", "/deleted", "", "Tickets that were deleted", [], READS),
        ("get", "/runs/{id}", "getRun", "", [], READS),
        ("head", "/files/{name}", "", "", [], READS),
        ("get", "/orders/search", "search", "Find orders", ["query"], READS),
        ("get", "/tickets/export", "exportTickets", "Download all tickets", [], READS),
        ("get", "/cache/purge", "", "", [], DESTROYS),
        ("get", "/admin/reset", "adminReset", "", [], DESTROYS),
        ("get", "/reload", "", "Reloads the configuration", [], DESTROYS),
        ("get", "/jobs/{id}/run", "", "", [], DESTROYS),
        ("get", "/users/{id}/delete", "getUsersDelete", "", [], DESTROYS),
        ("get", "/data", "data", "Rows of a statement", ["sql"], DESTROYS),
        ("get", "/ping", "sendPing", "", [], DESTROYS),
        ("delete", "/tickets/{id}", "get", "", [], DESTROYS),
        ("post", "/tickets", "createTicket", "Create a ticket", ["title"], WRITES),
        ("post", "/search", "searchTickets", "", ["query"], WRITES),
        ("post", "/tickets/{id}/comments", "", "Adds a comment", [], WRITES),
        ("post", "/tickets/delete", "createDeletion", "", [], DESTROYS),
        ("post", "/tickets/purge", "", "", [], DESTROYS),
        ("post", "/tickets", "createTickets", "Create tickets in bulk", [], DESTROYS),
        ("post", "/settings", "createSettings", "", [], DESTROYS),
        ("post", "/query", "queryRows", "", ["sql"], DESTROYS),
        ("post", "/messages/send", "newMessage", "", [], DESTROYS),
        ("post", "/payments", "createPayment", "", [], DESTROYS),
        ("post", "/reload", "", "Checks and reloads", [], DESTROYS),
        ("post", "/things", "doThings", "", [], DESTROYS),
        ("put", "/tickets/{id}", "getOrCreate", "", [], DESTROYS),
        ("patch", "/tickets/{id}", "updateTicket", "", [], DESTROYS),
    ],
)
def test_an_operation_of_an_api(
    method: str, path: str, called: str, told: str, parameters: list[str], effects: tuple[bool, bool]
) -> None:
    asked = [{"name": each, "in": "query", "schema": {"type": "string"}} for each in parameters]
    operation = {"operationId": called, "summary": told, "parameters": asked}
    document = {"openapi": "3.1.0", "servers": [{"url": "https://a.example"}], "paths": {path: {method: operation}}}
    found = operations.look(json.dumps(document).encode(), operations.OPENAPI, slug="reset", prefix="delete_")
    [candidate] = found.candidates
    assert (candidate.definition["read_only"], candidate.definition["destructive"]) == effects


@pytest.mark.parametrize(
    ("verb", "field", "told", "effects"),
    [
        ("queryType", "books", "", READS),
        ("queryType", "resetAll", "", DESTROYS),
        ("mutationType", "addBook", "", WRITES),
        ("mutationType", "updateBook", "", DESTROYS),
        ("mutationType", "createRefund", "", DESTROYS),
    ],
)
def test_a_field_of_graphql(verb: str, field: str, told: str, effects: tuple[bool, bool]) -> None:
    kind = {"kind": "SCALAR", "name": "String", "ofType": None}
    fields = [{"name": field, "description": told, "args": [], "type": kind}]
    other = [{"name": "version", "description": "", "args": [], "type": kind}]
    types = [
        {"kind": "OBJECT", "name": "Q", "fields": fields if verb == "queryType" else other},
        {"kind": "OBJECT", "name": "M", "fields": fields if verb == "mutationType" else []},
        {"kind": "SCALAR", "name": "String"},
    ]
    schema = {"__schema": {"queryType": {"name": "Q"}, "mutationType": {"name": "M"}, "types": types}}
    found = operations.look(json.dumps(schema).encode(), operations.GRAPHQL, slug="books", prefix="")
    [candidate] = [each for each in found.candidates if each.name == field]
    assert (candidate.definition["read_only"], candidate.definition["destructive"]) == effects
