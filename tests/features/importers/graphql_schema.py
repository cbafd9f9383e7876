"""A GraphQL schema to import."""

from __future__ import annotations

from typing import Any


def named(name: str, kind: str = "SCALAR") -> dict[str, Any]:
    return {"kind": kind, "name": name}


def required(inner: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "NON_NULL", "ofType": inner}


def many(inner: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "LIST", "ofType": inner}


BOOK = named("Book", "OBJECT")

SCHEMA: dict[str, Any] = {
    "queryType": {"name": "Query"},
    "mutationType": {"name": "Mutation"},
    "types": [
        {
            "kind": "OBJECT",
            "name": "Query",
            "fields": [
                {
                    "name": "book",
                    "description": "One book.",
                    "type": BOOK,
                    "args": [{"name": "id", "type": required(named("ID"))}],
                },
                {
                    "name": "books",
                    "type": required(many(required(BOOK))),
                    "args": [
                        {"name": "kind", "type": named("Kind", "ENUM")},
                        {"name": "first", "type": required(named("Int")), "defaultValue": "10"},
                    ],
                },
                {"name": "count", "type": required(named("Int")), "args": []},
            ],
        },
        {
            "kind": "OBJECT",
            "name": "Mutation",
            "fields": [
                {
                    "name": "add",
                    "type": BOOK,
                    "args": [{"name": "book", "type": required(named("New", "INPUT_OBJECT"))}],
                }
            ],
        },
        {
            "kind": "OBJECT",
            "name": "Book",
            "fields": [
                {"name": "id", "type": required(named("ID")), "args": []},
                {"name": "kind", "type": named("Kind", "ENUM"), "args": []},
                {"name": "author", "type": named("Author", "OBJECT"), "args": []},
                {"name": "page", "type": named("String"), "args": [{"name": "n", "type": required(named("Int"))}]},
            ],
        },
        {
            "kind": "OBJECT",
            "name": "Author",
            "fields": [
                {"name": "name", "type": named("String"), "args": []},
                {"name": "books", "type": many(BOOK), "args": []},
            ],
        },
        {"kind": "ENUM", "name": "Kind", "enumValues": [{"name": "NOVEL"}, {"name": "POEM"}]},
        {
            "kind": "INPUT_OBJECT",
            "name": "New",
            "inputFields": [
                {"name": "title", "type": required(named("String"))},
                {"name": "like", "type": named("New", "INPUT_OBJECT")},
            ],
        },
        named("Int"),
        named("ID"),
        named("String"),
    ],
}
