"""The required part of an OpenAPI document: requests, and their references. The rest, mostly answers, is dropped.
Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import unquote

from mcphub.features.importers.openapi import questions

_ITEM = ("$ref", "summary", "servers", "parameters")
_OPERATION = ("operationId", "summary", "description", "deprecated", "tags", "servers", "security", "parameters")
_SCHEMAS = frozenset({"properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "schemas"})
_NAMES = _SCHEMAS | {"content", "encoding", "variables", "parameters", "requestBodies", "headers", "responses"}
"""Members with members named by the document, not by OpenAPI."""
_VALUES = frozenset({"enum", "const", "default"})
_DROPPED = frozenset({"example", "examples", "externalDocs", "xml", "discriminator", "links"})


def pruned(document: dict[str, Any], methods: Collection[str]) -> dict[str, Any]:
    """Return a document with the same operations, reduced to the parts that requests need."""
    kept: dict[str, Any] = {}
    info = document.get("info")
    kept["info"] = {"title": info.get("title")} if isinstance(info, dict) else {}
    for name in ("servers", "security"):
        if name in document:
            kept[name] = _plain(document[name])
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    kept["components"] = {"securitySchemes": _plain(schemes, is_names=True)} if schemes is not None else {}
    paths = document.get("paths")
    kept["paths"] = (
        {path: _item(item, methods) for path, item in paths.items() if _is_path(path)}
        if isinstance(paths, dict)
        else paths
    )
    _bring_targets(document, kept, methods)
    return kept


def _is_path(path: str) -> bool:
    return not path.startswith("x-")


def _item(item: Any, methods: Collection[str]) -> Any:
    if not isinstance(item, dict):
        return item
    made: dict[str, Any] = {name: _plain(item[name]) for name in _ITEM if name in item}
    for method in methods:
        operation = item.get(method)
        if method in item:
            made[method] = _operation(operation) if isinstance(operation, dict) else operation
    if isinstance(item.get("additionalOperations"), dict):
        made["additionalOperations"] = dict.fromkeys(item["additionalOperations"])
    return made


def _operation(operation: dict[str, Any]) -> dict[str, Any]:
    made = {name: _plain(operation[name]) for name in _OPERATION if name in operation}
    if "requestBody" in operation:
        made["requestBody"] = _plain(operation["requestBody"])
    asked = questions.questions(operation.get(questions.EXTENSION))
    if asked:
        made[questions.EXTENSION] = asked
    return made


def _plain(value: Any, *, is_names: bool = False) -> Any:
    """Copy a part of the document without examples and extensions."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for name, item in value.items():
        if is_names:
            made[name] = _plain(item)
        elif name in _VALUES:
            made[name] = item
        elif name not in _DROPPED and not name.startswith("x-"):
            made[name] = _plain(item, is_names=name in _NAMES and isinstance(item, dict))
    return made


def _bring_targets(document: dict[str, Any], kept: dict[str, Any], methods: Collection[str]) -> None:
    """Add the targets of references to `kept`, recursively."""
    waiting: list[Any] = [kept]
    seen: set[str] = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += [item for item in value if isinstance(item, dict | list)]
        if not isinstance(value, dict):
            continue
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/") and reference not in seen:
            seen.add(reference)
            waiting.append(_bring(document, kept, _steps(reference), methods))
        waiting += [item for item in value.values() if isinstance(item, dict | list)]


def _steps(reference: str) -> list[str]:
    return [unquote(step).replace("~1", "/").replace("~0", "~") for step in reference[2:].split("/")]


def _bring(document: dict[str, Any], kept: dict[str, Any], steps: list[str], methods: Collection[str]) -> Any:
    """Copy the target of the steps, and return the addition; None if it exists already, or nowhere."""
    source: Any = document
    place: Any = kept
    for index, step in enumerate(steps):
        if not isinstance(source, dict) or step not in source:
            return None
        source = source[step]
        is_last = index == len(steps) - 1 or isinstance(source, list)
        if not isinstance(place, dict):
            return None
        if step not in place:
            is_item = steps[0] in ("paths", "pathItems") and index == 1
            if is_last:
                place[step] = _item(source, methods) if is_item else _plain(source)
                return place[step]
            place[step] = {}
        place = place[step]
    return None
