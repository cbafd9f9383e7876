"""The shapes that each revision publishes, in our own words: JSON Schemas that admit nothing else.

The published ones let unknown members pass. These do not, because the hub promises to leave them out.
"""

from functools import cache
from typing import Any

import jsonschema

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
OBJECT: Schema = {"type": "object"}
ROLE: Schema = {"enum": ["user", "assistant"]}


def members(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object with these members and no others."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "required": [*required], "properties": properties, "additionalProperties": False}


def const(value: str) -> Schema:
    return {"const": value}


def items(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def published(version: str, what: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(_shapes(version)[what])


@cache
def _shapes(version: str) -> dict[str, Schema]:
    audio, links, icons, modern = (version >= each for each in ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"))
    titled = {"title": TEXT, "_meta": OBJECT} if links else {}
    meta = {"_meta": OBJECT} if links else {}
    if icons:
        icon = members({"src": TEXT}, {"mimeType": TEXT, "sizes": items(TEXT), "theme": {"enum": ["light", "dark"]}})
        titled = {**titled, "icons": items(icon)}
    modified = {"lastModified": TEXT} if links else {}
    annotations = members({}, {"audience": items(ROLE), "priority": NUMBER, **modified})
    about = {"description": TEXT, "mimeType": TEXT, "annotations": annotations, **titled}
    resource = ({"uri": TEXT, "name": TEXT}, {**about, "size": {"type": "integer"}})
    kind = {"mimeType": TEXT, **meta}
    contents = {"anyOf": [members({"uri": TEXT, "text": TEXT}, kind), members({"uri": TEXT, "blob": TEXT}, kind)]}
    marked = {"annotations": annotations, **meta}
    blocks = [
        members({"type": const("text"), "text": TEXT}, marked),
        members({"type": const("image"), "data": TEXT, "mimeType": TEXT}, marked),
        members({"type": const("audio"), "data": TEXT, "mimeType": TEXT}, marked),
        members({"type": const("resource"), "resource": contents}, marked),
        members({"type": const("resource_link"), **resource[0]}, resource[1]),
    ]
    media = blocks[: 3 if audio else 2]
    known = {"anyOf": blocks if links else [*media, blocks[3]]}
    result: tuple[dict[str, Schema], dict[str, Schema]] = ({}, {"_meta": OBJECT})
    if modern:
        result[0]["resultType"] = TEXT
    structured: dict[str, Schema] = {"structuredContent": {} if modern else OBJECT} if links else {}
    hints = {"ttlMs": {"type": "integer", "minimum": 0}, "cacheScope": {"enum": ["public", "private"]}}
    return {
        "tool": _tool(links, icons, modern, audio, titled),
        "resource": members(*resource),
        "template": members({"uriTemplate": TEXT, "name": TEXT}, about),
        "prompt": members(
            {"name": TEXT},
            {
                "description": TEXT,
                "arguments": items(
                    members(
                        {"name": TEXT}, {"description": TEXT, "required": BOOLEAN, **({"title": TEXT} if links else {})}
                    )
                ),
                **titled,
            },
        ),
        "call result": members({"content": items(known), **result[0]}, {"isError": BOOLEAN, **structured, **result[1]}),
        "prompt result": members(
            {"messages": items(members({"role": ROLE, "content": known})), **result[0]},
            {"description": TEXT, **result[1]},
        ),
        "read result": members({"contents": items(contents), **result[0], **(hints if modern else {})}, result[1]),
        "initialize": _initialize(audio, links, icons, modern),
        "progress": members(
            {"progressToken": {"type": ["string", "integer"]}, "progress": NUMBER},
            {"total": NUMBER, **({"message": TEXT} if audio else {})},
        ),
        "sampling": _sampling(media, icons),
        "elicitation": _elicitation(icons),
    }


def _tool(links: bool, icons: bool, modern: bool, annotated: bool, titled: dict[str, Schema]) -> Schema:
    described: Schema = {"type": "object", "required": ["type"], "properties": {"type": const("object")}}
    if not modern:
        described["properties"] |= {
            "properties": {"type": "object", "additionalProperties": OBJECT},
            "required": items(TEXT),
        }
    more: dict[str, Schema] = {"description": TEXT, **titled}
    if annotated:
        more["annotations"] = OBJECT
    if links:
        more["outputSchema"] = OBJECT if modern else described
    if icons and not modern:
        more["execution"] = members({}, {"taskSupport": {"enum": ["forbidden", "optional", "required"]}})
    return members({"name": TEXT, "inputSchema": described}, more)


def _initialize(audio: bool, links: bool, icons: bool, modern: bool) -> Schema:
    capabilities = ["experimental", "logging", "prompts", "resources", "tools"]
    capabilities += ["completions"] if audio else []
    capabilities += (["extensions"] if modern else ["tasks"]) if icons else []
    identity: dict[str, Schema] = {"title": TEXT} if links else {}
    if icons:
        identity |= {"description": TEXT, "websiteUrl": TEXT, "icons": {"type": "array"}}
    return members(
        {
            "capabilities": members({}, dict.fromkeys(capabilities, OBJECT)),
            "serverInfo": members({"name": TEXT, "version": TEXT}, identity),
        },
        {"instructions": TEXT},
    )


def _sampling(media: list[Schema], several: bool) -> Schema:
    content: Schema = {"anyOf": media}
    if several:
        content = {"anyOf": [content, items(content)]}
    more = {
        "systemPrompt": TEXT,
        "temperature": NUMBER,
        "includeContext": {"enum": ["none", "thisServer", "allServers"]},
        "stopSequences": items(TEXT),
        "modelPreferences": OBJECT,
        "metadata": OBJECT,
        **({"tools": {"type": "array"}, "toolChoice": OBJECT} if several else {}),
    }
    messages = items(members({"role": ROLE, "content": content}))
    return members({"maxTokens": {"type": "integer"}, "messages": messages}, more)


def _elicitation(rich: bool) -> Schema:
    labels = {"title": TEXT, "description": TEXT}
    choice = members({"const": TEXT, "title": TEXT})

    def default(schema: Schema) -> dict[str, Schema]:
        return {"default": schema} if rich else {}

    kinds = [
        members(
            {"type": const("string")},
            {
                **labels,
                "minLength": NUMBER,
                "maxLength": NUMBER,
                "format": {"enum": ["email", "uri", "date", "date-time"]},
                **default(TEXT),
            },
        ),
        members(
            {"type": {"enum": ["number", "integer"]}},
            {**labels, "minimum": NUMBER, "maximum": NUMBER, **default(NUMBER)},
        ),
        members({"type": const("boolean")}, {**labels, "default": BOOLEAN}),
        members({"type": const("string"), "enum": items(TEXT)}, {**labels, "enumNames": items(TEXT), **default(TEXT)}),
    ]
    if rich:
        one = members({"type": const("string"), "enum": items(TEXT)})
        several = {"minItems": NUMBER, "maxItems": NUMBER, "default": items(TEXT)}
        listed = {"anyOf": [one, members({"anyOf": items(choice)})]}
        kinds += [
            members({"type": const("string"), "oneOf": items(choice)}, {**labels, **default(TEXT)}),
            members({"type": const("array"), "items": listed}, {**labels, **several}),
        ]
    form = members(
        {"type": const("object"), "properties": {"type": "object", "additionalProperties": {"anyOf": kinds}}},
        {"required": items(TEXT)},
    )
    return members({"message": TEXT, "requestedSchema": form}, {"mode": const("form")} if rich else {})
