"""The body of one operation as members of a tool's configuration. Pure."""

from __future__ import annotations

from typing import Any

from mcphub.features.importers.openapi.arguments import Arguments
from mcphub.features.importers.openapi.inlining import OperationRefused, Resolver

FORM = "application/x-www-form-urlencoded"
_WITHOUT_BODY = ("get", "head")
_MIXED = frozenset({"allOf", "anyOf", "oneOf", "not"})
_PAIRED = ("form", "spaceDelimited", "pipeDelimited", "deepObject")


def written(body: Any, method: str, arguments: Arguments, resolver: Resolver) -> dict[str, Any]:
    """Return `body` and `body_encoding`, nothing where nothing is sent; raises OperationRefused."""
    content = body.get("content") if isinstance(body, dict) else None
    if not isinstance(content, dict) or not content:
        return {}
    required = body.get("required") is True
    if method in _WITHOUT_BODY:
        if required:
            raise OperationRefused(f"It needs a body with {method.upper()}, which tools do not send.")
        return {}  # HTTP gives it no meaning, and OpenAPI says to ignore it
    kinds = {kind.partition(";")[0].strip().lower(): given for kind, given in content.items()}
    kind = _kind(kinds)
    given = resolver.resolve(kinds[kind])  # since OpenAPI 3.2 it may be a reference
    media = given if isinstance(given, dict) else {}
    schema = resolver.schema(media.get("schema", {}))
    if not required and _is_empty(schema, is_form=kind == FORM):
        return {}
    if kind not in ("application/json", "text/plain", "*/*", FORM) and "*" not in kind:
        arguments.headers["Content-Type"] = kind
    if kind.startswith("text/"):
        argument = arguments.add("body", "body", {"type": "string"}, "The text that is sent.", required=required)
        return {"body": f"{{{argument}}}", "body_encoding": "text"}
    if kind == FORM:
        return {"body": _form(media, schema, arguments, required=required), "body_encoding": "form"}
    if _is_empty(schema, is_form=False):
        return {"body": {}}
    if _is_plain_object(schema) and (required or not schema.get("required")):
        return {"body": arguments.spread("", schema, "body", required=required)}
    # What may be left out but not in part stays one argument.
    argument = arguments.add("body", "body", schema, "What is sent.", required=required)
    return {"body": f"{{{argument}}}"}


def _kind(kinds: dict[str, Any]) -> str:
    """Choose the media type: JSON before its kin, then forms, then text."""
    ranks = {kind: rank for kind in kinds if (rank := _rank(kind)) is not None}
    if ranks:
        return min(ranks, key=ranks.__getitem__)
    raise OperationRefused(f"It takes {', '.join(kinds)[:100]}, and tools send JSON, forms or text.")


def _rank(kind: str) -> int | None:
    if kind == "application/json":
        return 0
    if kind.endswith("+json"):
        return 1
    if kind == FORM:
        return 2
    return 3 if kind.startswith("text/") else 4 if kind == "*/*" else None


def _form(media: dict[str, Any], schema: dict[str, Any], arguments: Arguments, *, required: bool) -> dict[str, str]:
    if not schema.get("properties"):
        if _is_empty(schema, is_form=True):
            return {}
        argument = arguments.add("body", "body", schema, "The fields that are sent.", required=required)
        return {"body": f"{{{argument}|form*}}"}
    encoding = media.get("encoding")
    encoding = encoding if isinstance(encoding, dict) else {}
    made: dict[str, str] = {}
    for part, inner in schema["properties"].items():
        given = encoding.get(part)
        how: dict[str, Any] = given if isinstance(given, dict) else {}
        must = required and part in schema.get("required", [])
        if how.get("style") == "deepObject" and inner.get("properties"):
            made |= arguments.spread(part, inner, "body", required=must)
            continue
        argument = arguments.add(part, "body", inner, "", required=must)
        made[part] = f"{{{argument}{_suffix(how, inner)}}}"
    return made


def _suffix(how: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the style of a field. Without one a list is repeated, and an object is written as JSON."""
    style, explode = how.get("style"), how.get("explode")
    kinds = schema.get("type")
    if style not in _PAIRED or (kinds == "array" and style == "form" and explode is not False):
        return ""
    if not isinstance(kinds, str) or kinds in ("array", "object"):
        return f"|{style}*" if style == "form" and explode is not False else f"|{style}"
    return ""


def _is_empty(schema: dict[str, Any], *, is_form: bool) -> bool:
    """Return whether an object has nothing that could be sent: `properties` that are none, and no others."""
    if schema.get("properties") or _MIXED & schema.keys() or schema.get("type", "object") != "object":
        return False
    others = schema.get("additionalProperties")
    if others not in (None, False):
        return False
    return is_form or "properties" in schema or others is False


def _is_plain_object(schema: dict[str, Any]) -> bool:
    """Return whether each property can be an argument of its own."""
    is_open = schema.get("additionalProperties", False) is not False
    return bool(schema.get("properties")) and not _MIXED & schema.keys() and not is_open
