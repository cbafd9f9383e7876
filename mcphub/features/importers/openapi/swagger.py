"""Swagger 2.0 documents as OpenAPI 3, as far as an import reads them. Pure.

References keep their place: `definitions` and `parameters` stay where they are.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mcphub.features.importers.documents import DocumentRefused
from mcphub.features.importers.openapi.arguments import TABS
from mcphub.features.importers.openapi.inlining import OperationRefused, Resolver

_FORM, _FILES = "application/x-www-form-urlencoded", "multipart/form-data"
_NOT_SCHEMA = frozenset({"name", "in", "description", "required", "collectionFormat", "allowEmptyValue"})
_KEPT = ("name", "in", "description", "required")
_STYLES: dict[str, dict[str, dict[str, Any]]] = {
    "query": {
        "csv": {"style": "form", "explode": False},
        "ssv": {"style": "spaceDelimited", "explode": False},
        "pipes": {"style": "pipeDelimited", "explode": False},
        "multi": {"style": "form", "explode": True},
    },
    "path": {"csv": {"style": "simple"}},
    "header": {"csv": {"style": "simple"}},
}
"""Place -> collectionFormat -> its OpenAPI 3 form."""


def converted(document: dict[str, Any], methods: Collection[str]) -> dict[str, Any]:
    """Return the document as OpenAPI 3. An inexpressible operation becomes its reason instead of an object."""
    resolver = Resolver(document)
    paths = document.get("paths")
    made = {name: value for name, value in document.items() if name not in ("swagger", "paths", "host", "basePath")}
    made["servers"] = _servers(document)
    schemes = document.get("securityDefinitions")
    made["components"] = {
        "securitySchemes": {name: _scheme(each) for name, each in schemes.items()} if isinstance(schemes, dict) else {}
    }
    if isinstance(paths, dict):
        made["paths"] = {path: _item(item, document, resolver, methods) for path, item in paths.items()}
    return made


def _servers(document: dict[str, Any]) -> list[dict[str, str]]:
    host, base = document.get("host"), document.get("basePath")
    end = base if isinstance(base, str) else ""
    end = f"/{end.strip('/')}" if end.strip("/") else ""
    if not isinstance(host, str) or not host:
        return [{"url": end}] if end else []
    given = document.get("schemes")
    schemes = [each for each in given if each in ("https", "http")] if isinstance(given, list) else []
    scheme = "https" if "https" in schemes or not schemes else schemes[0]
    return [{"url": f"{scheme}://{host.rstrip('/')}{end}"}]


def _scheme(scheme: Any) -> Any:
    if isinstance(scheme, dict) and scheme.get("type") == "basic":
        return {"type": "http", "scheme": "basic"}
    if isinstance(scheme, dict) and scheme.get("type") == "oauth2":
        name = {"accessCode": "authorizationCode", "application": "clientCredentials"}.get(str(scheme.get("flow")))
        return {"type": "oauth2", "flows": {name: scheme} if name else {}}
    return scheme


def _item(item: Any, document: dict[str, Any], resolver: Resolver, methods: Collection[str]) -> Any:
    try:
        item = resolver.resolve(item)
    except OperationRefused:
        return item
    if not isinstance(item, dict):
        return item
    shared = item.get("parameters")
    made = {name: value for name, value in item.items() if name not in ("parameters", "$ref")}
    for method in methods:
        operation = item.get(method) if method != "query" else None
        if isinstance(operation, dict):
            made[method] = _operation(operation, shared, document, resolver)
    return made


def _operation(operation: dict[str, Any], shared: Any, document: dict[str, Any], resolver: Resolver) -> Any:
    """Write one operation; its body is made of the parameters in `body` and `formData`."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    broken: list[Any] = []
    for given in (shared, operation.get("parameters")):
        for parameter in given if isinstance(given, list) else ():
            try:
                parameter = resolver.resolve(parameter)
            except DocumentRefused:
                broken.append(parameter)  # told when the operation is read
                continue
            if isinstance(parameter, dict):
                found[str(parameter.get("name")), str(parameter.get("in"))] = parameter
    made = {name: value for name, value in operation.items() if name not in ("consumes", "produces", "schemes")}
    plain = [each for (_, place), each in found.items() if place not in ("body", "formData")]
    made["parameters"] = [*(_parameter(each) for each in plain), *broken]
    consumes = operation.get("consumes", document.get("consumes"))
    kinds = [kind for kind in consumes if isinstance(kind, str)] if isinstance(consumes, list) else []
    bodies = [each for (_, place), each in found.items() if place == "body"]
    fields = [each for (_, place), each in found.items() if place == "formData"]
    if bodies:
        schema = bodies[0].get("schema", {})
        content = {kind: {"schema": schema} for kind in kinds or ["application/json"]}
        made["requestBody"] = {"required": bodies[0].get("required") is True, "content": content}
    elif fields:
        made["requestBody"] = _form(fields, kinds)
    return made


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    place = str(parameter.get("in"))
    made: dict[str, Any] = {name: parameter[name] for name in _KEPT if name in parameter}
    made["schema"] = _schema(parameter)
    if parameter.get("type") == "array" and place in _STYLES:
        made |= _STYLES[place].get(str(parameter.get("collectionFormat", "csv")), {"style": TABS})
    return made


def _form(fields: list[dict[str, Any]], kinds: list[str]) -> dict[str, Any]:
    has_file = any(each.get("type") == "file" for each in fields)
    kind = _FILES if has_file or (_FILES in kinds and _FORM not in kinds) else _FORM
    required = [each["name"] for each in fields if each.get("required") is True and isinstance(each.get("name"), str)]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {str(each.get("name")): _schema(each, words=True) for each in fields},
        **({"required": required} if required else {}),
    }
    lists = [each for each in fields if each.get("type") == "array"]
    encoding = {
        str(each.get("name")): _STYLES["query"].get(str(each.get("collectionFormat", "csv")), {}) for each in lists
    }
    return {"required": bool(required), "content": {kind: {"schema": schema, "encoding": encoding}}}


def _schema(parameter: dict[str, Any], *, words: bool = False) -> dict[str, Any]:
    made = {name: value for name, value in parameter.items() if name not in _NOT_SCHEMA}
    if words and "description" in parameter:
        made["description"] = parameter["description"]
    return made
