"""The hub's messages in the form of the client's revision (MCP, schema of each revision).

Every function takes the newest form and gives the revision's. The argument stays as it is; where nothing changes, it
may be returned itself. Content that an older client cannot carry becomes text if a person or a model may read it, and
is omitted otherwise, so that no client receives a message that it cannot parse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sessions_app.protocol.errors import URL_ELICITATION_REQUIRED
from sessions_app.protocol.json import Json, dumps
from sessions_app.protocol.revisions import KNOWN, Revision

Object = dict[str, Json]

RESOURCE_NOT_FOUND = -32002
_INTERNAL_ERROR = -32603
_STATELESS_RESULT_MEMBERS = frozenset({"resultType", "ttlMs", "cacheScope"})


# What lists name ---------------------------------------------------------------------------------


def tool_for(rev: Revision, tool: Mapping[str, Json]) -> Object:
    """The Tool object. An output schema that does not describe an object is for stateless clients only."""
    shown = _only(rev, "tool", tool)
    if rev.any_structured_content:
        return shown
    if "inputSchema" in shown:
        shown["inputSchema"] = _plain_properties(shown["inputSchema"])
    if "outputSchema" in shown:
        schema = shown["outputSchema"]
        if isinstance(schema, dict) and schema.get("type") == "object":
            shown["outputSchema"] = _plain_properties(schema)
        else:
            del shown["outputSchema"]
    return shown


def resource_for(rev: Revision, resource: Mapping[str, Json]) -> Object:
    return _annotated(rev, _only(rev, "resource", resource))


def template_for(rev: Revision, template: Mapping[str, Json]) -> Object:
    return _annotated(rev, _only(rev, "template", template))


def prompt_for(rev: Revision, prompt: Mapping[str, Json]) -> Object:
    shown = _only(rev, "prompt", prompt)
    if isinstance(shown.get("arguments"), list):
        shown["arguments"] = [_without_later(rev, "prompt argument", each) for each in shown["arguments"]]
    return shown


# Results -----------------------------------------------------------------------------------------


def result_for(rev: Revision, result: Object) -> Object:
    """The result of `tools/call`, or of any method with converted items."""
    if rev.result_type:
        return result if "resultType" in result else {"resultType": "complete", **result}
    converted = {name: value for name, value in result.items() if name not in _STATELESS_RESULT_MEMBERS}
    content = converted.get("content")
    if isinstance(content, list) and not rev.tool_icons:
        converted["content"] = content = [block_for(rev, block) for block in content]
    if "structuredContent" in converted:
        structured = converted["structuredContent"]
        if not rev.structured_content or not isinstance(structured, dict):
            del converted["structuredContent"]
            if not content:
                converted["content"] = [_text(dumps(structured).decode())]
    return converted


def carries(rev: Revision, result: Mapping[str, Json]) -> bool:
    """Return whether a tool's result goes to this revision with every member as it is."""
    if rev.any_structured_content:
        return "resultType" not in result
    return rev.tool_icons and isinstance(result.get("structuredContent", {}), dict)


def prompt_result_for(rev: Revision, result: Object) -> Object:
    """The result of `prompts/get`."""
    return {**result_for(rev, result), "messages": [prompt_message_for(rev, each) for each in result["messages"]]}


def read_result_for(rev: Revision, result: Object) -> Object:
    """The result of `resources/read`."""
    return {**result_for(rev, result), "contents": [contents_for(rev, each) for each in result["contents"]]}


def initialize_for(rev: Revision, result: Object) -> Object:
    """The result of `initialize`: capabilities and identity as the revision knows them."""
    return {
        **result,
        "capabilities": capabilities_for(rev, result["capabilities"]),
        "serverInfo": _only(rev, "implementation", result["serverInfo"]),
    }


def capabilities_for(rev: Revision, capabilities: Mapping[str, Json]) -> Object:
    return _only(rev, "capabilities", capabilities)


# Content -----------------------------------------------------------------------------------------


def block_for(rev: Revision, block: Json) -> Json:
    """A content block. Content without a block in the revision becomes a text that describes it."""
    if not isinstance(block, dict):
        return _text(block if isinstance(block, str) else dumps(block).decode())
    kind = block.get("type")
    if kind == "text" and len(block) == 2:
        return block
    if not rev.members.get(f"{kind} block"):
        return _noted(rev, block)
    shown = _annotated(rev, _without_later(rev, f"{kind} block", block))
    if kind == "resource" and isinstance(shown.get("resource"), dict):
        shown["resource"] = contents_for(rev, shown["resource"])
    return shown


def contents_for(rev: Revision, contents: Mapping[str, Json]) -> Object:
    """One text or blob of a resource."""
    return _without_later(rev, "contents", contents)


def prompt_message_for(rev: Revision, message: Mapping[str, Json]) -> Object:
    return {**message, "content": block_for(rev, message["content"])}


# What the hub says and asks on its own ------------------------------------------------------------


def progress_for(rev: Revision, params: Mapping[str, Json]) -> Object:
    """The params of `notifications/progress`."""
    return _only(rev, "progress", params)


def error_for(rev: Revision, error: Object) -> Object:
    """A JSON-RPC error object as another server sent it, without the codes that the revision does not have."""
    code = error.get("code")
    if code == RESOURCE_NOT_FOUND:
        return {**error, "code": rev.resource_not_found_code}
    if code == URL_ELICITATION_REQUIRED and not rev.url_elicitation_error:
        return {**error, "code": _INTERNAL_ERROR}
    return error


def sampling_for(rev: Revision, params: Mapping[str, Json]) -> Object:
    """The params of `sampling/createMessage`; raises `ValueError` for tools, where the revision has none.

    Before 2025-11-25 a message holds one block, so a list becomes several messages of the same role.
    """
    if params.get("tools") and not rev.sampling_tools:
        raise ValueError(f"Sampling of {rev.version} knows no tools. Ask without them.")
    shown = _only(rev, "sampling", params)
    shown["messages"] = [each for message in shown["messages"] for each in _sampling_messages(rev, message)]
    return shown


def elicitation_for(rev: Revision, params: Mapping[str, Json]) -> Object:
    """The params of `elicitation/create`; raises `ValueError` if the revision cannot ask it.

    That is anything before 2025-06-18, and addresses and multiple choices before 2025-11-25.
    """
    if not rev.elicitation:
        raise ValueError(f"A client of {rev.version} cannot be asked: elicitation came with 2025-06-18.")
    if params.get("mode") == "url":
        if not rev.url_elicitation:
            raise ValueError(f"A client of {rev.version} opens no addresses for the hub: ask with a form.")
        if rev.url_elicitation_error and "elicitationId" not in params:
            raise ValueError(f"A client of {rev.version} needs an elicitationId with the address.")
    shown = _only(rev, "elicitation", params)
    schema = shown.get("requestedSchema")
    if isinstance(schema, dict):
        properties = {name: _asked(rev, name, field) for name, field in schema.get("properties", {}).items()}
        shown["requestedSchema"] = {"type": "object", "properties": properties}
        if "required" in schema:
            shown["requestedSchema"]["required"] = schema["required"]
    return shown


def _sampling_messages(rev: Revision, message: Mapping[str, Json]) -> Iterable[Object]:
    content = message["content"]
    if rev.sampling_tools:
        yield dict(message)
        return
    for block in content if isinstance(content, list) else [content]:
        yield {"role": message["role"], "content": block_for(rev, block)}


def _asked(rev: Revision, name: str, field: Mapping[str, Json]) -> Object:
    kind = field.get("type")
    if kind == "array":
        if not rev.members["asked choices"]:
            raise ValueError(f"A client of {rev.version} cannot choose several of {name!r}: ask for one.")
        return _only(rev, "asked choices", field)
    if kind == "boolean":
        return _only(rev, "asked boolean", field)
    if kind in ("number", "integer"):
        return _only(rev, "asked number", field)
    if "oneOf" in field and "oneOf" not in rev.members["asked choice"]:
        field = {
            **field,
            "enum": [each["const"] for each in field["oneOf"]],
            "enumNames": [each["title"] for each in field["oneOf"]],
        }
    return _only(rev, "asked choice" if "enum" in field or "oneOf" in field else "asked text", field)


# Parts -------------------------------------------------------------------------------------------


def _only(rev: Revision, kind: str, value: Mapping[str, Json]) -> Object:
    members = rev.members[kind]
    return {name: each for name, each in value.items() if name in members}


def _without_later(rev: Revision, kind: str, value: Mapping[str, Json]) -> Object:
    """The object of another server without the additions of later revisions; unknown members stay."""
    members, known = rev.members[kind], KNOWN[kind]
    return {name: each for name, each in value.items() if name in members or name not in known}


def _annotated(rev: Revision, value: Object) -> Object:
    if isinstance(value.get("annotations"), dict):
        value["annotations"] = _without_later(rev, "annotations", value["annotations"])
    return value


def _noted(rev: Revision, block: Object) -> Object:
    kind = block.get("type")
    if kind == "audio":
        text = f"[audio, {block.get('mimeType', 'type unknown')}: this client cannot receive it]"
    elif kind == "resource_link":
        label, uri = block.get("title") or block.get("name"), block.get("uri", "")
        text = f"{label}: {uri}" if label else str(uri)
    else:
        text = dumps(block).decode()
    return _annotated(rev, _text(text, block.get("annotations")))


def _text(text: str, annotations: Json = None) -> Object:
    return {"type": "text", "text": text} | ({"annotations": annotations} if annotations else {})


def _plain_properties(schema: Json) -> Json:
    """The schema with objects for the properties that it writes as true or false, which mean the same.

    The handshake revisions want objects there, and some clients drop the whole list otherwise.
    """
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not any(isinstance(each, bool) for each in properties.values()):
        return schema
    plain: dict[bool, Object] = {True: {}, False: {"not": {}}}
    return {
        **schema,
        "properties": {n: plain[each] if isinstance(each, bool) else each for n, each in properties.items()},
    }
