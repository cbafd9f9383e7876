"""Schemas and values that every draft accepts, for the compiler and for its explanations."""

from __future__ import annotations

DRAFTS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2020-12/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
]


def nested(depth: int) -> dict:
    found: dict = {}
    for _ in range(depth):
        found = {"not": found}
    return found


ACCEPTED = {
    "empty": {},
    "no arguments": {"type": "object", "additionalProperties": False},
    "self": {"properties": {"child": {"$ref": "#"}}},
    "definition": {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}},
    "anchor": {"$ref": "#a", "$defs": {"x": {"$anchor": "a"}}},
    "dynamic": {"$dynamicRef": "#n", "$defs": {"x": {"$dynamicAnchor": "n"}}},
    "recursive": {"$schema": DRAFTS[2], "$recursiveAnchor": True, "properties": {"c": {"$recursiveRef": "#"}}},
    "embedded resource": {"$id": "https://x/y", "$ref": "z", "$defs": {"a": {"$id": "z", "type": "string"}}},
    "absolute to itself": {"$id": "https://x/y", "properties": {"c": {"$ref": "https://x/y#"}}},
    "urn": {"$id": "urn:x:y", "properties": {"c": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}},
    "old anchor": {"$schema": DRAFTS[3], "$ref": "#foo", "definitions": {"a": {"$id": "#foo"}}},
    "draft-04 id": {
        "$schema": DRAFTS[6],
        "id": "http://x/y",
        "properties": {"a": {"$ref": "#/definitions/b"}},
        "definitions": {"b": {}},
    },
    "pointer with escapes": {"$ref": "#/$defs/a~1b%20c~0", "$defs": {"a/b c~": {}}},
    "pointer into a list": {"$ref": "#/allOf/0/not", "allOf": [{"not": False}]},
    "pointer under unknown keyword": {"$ref": "#/shared/a", "shared": {"a": {"$ref": "#/shared/b"}, "b": True}},
    "a property called $ref": {"properties": {"$ref": {"type": "string"}}},
    "data that looks like a reference": {"const": {"$ref": "http://127.0.0.1:1/"}, "default": {"$ref": "x"}},
    "look-around": {"properties": {"a": {"type": "string", "pattern": "^(?!x)y"}}},
    "items list": {"$schema": DRAFTS[3], "items": [{"type": "string"}, True], "additionalItems": {"type": "null"}},
    "dependencies": {"$schema": DRAFTS[3], "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
    "ten thousand allOf, less one": {"allOf": [{"type": "object"} for _ in range(9_998)]},
    "tree": {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
    "grammar": {
        "oneOf": [{"properties": {"k": {"const": i}, "of": {"$ref": "#"}}, "required": ["k"]} for i in range(9)]
    },
    "63 deep": nested(63),
}
