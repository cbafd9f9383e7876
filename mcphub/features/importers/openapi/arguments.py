"""The arguments of one operation, and where each is written: parameters by place and style. Pure."""

from __future__ import annotations

from typing import Any

from mcphub.features.importers.candidates import argument_name, is_told_by, words
from mcphub.features.importers.openapi.credentials import Credentials
from mcphub.features.importers.openapi.inlining import OperationRefused, Resolver
from tools_catalog.backends.http.configuration import CONNECTION_HEADERS, HEADER_NAME

_STYLES = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form",),
}
"""Place -> its styles in OpenAPI; the first is the default."""
TABS = "tabs"
"""A style that only Swagger 2.0 has."""
_FORM = "application/x-www-form-urlencoded"
_IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Parameters of these names are ignored according to OpenAPI."""
_DEEPEST_SPREAD = 4
"""Levels of objects in objects that become arguments of their own."""
_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})


class Arguments:
    """The input of a tool, and the templates made of it."""

    def __init__(self, resolver: Resolver, own: Credentials | None, shared: Credentials) -> None:
        """`own` are the credentials of the operation, where it has others than the `shared` ones of the service."""
        self._resolver = resolver
        self._taken: set[str] = set()
        sent = own or shared
        self._credentials = {("query", name) for name in sent.query}
        self._credentials |= {("header", name.lower()) for name in sent.headers}
        self.properties: dict[str, Any] = {}
        self.required: list[str] = []
        self.query: dict[str, str] = dict(sent.query)
        self.headers: dict[str, str] = dict(own.headers) if own else {}
        self.cookies: dict[str, str] = {}
        self.in_path: dict[str, str] = {}
        """Name of a parameter -> its template."""
        self.left_out: list[str] = []
        """Parameters that may be missing and cannot be sent."""

    def take(self, parameter: dict[str, Any]) -> None:
        """Make an argument of a parameter, or several; raises OperationRefused."""
        name, place = parameter["name"], str(parameter.get("in"))
        required = parameter.get("required") is True or place == "path"
        if (place, name.lower() if place == "header" else name) in self._credentials:
            return
        if place == "header" and name.lower() in {*_IGNORED_HEADERS, *(each.lower() for each in self.headers)}:
            return
        problem = _problem(name, place, parameter)
        if problem and required:
            raise OperationRefused(problem)
        if problem:
            self.left_out.append(f"{place} {name}"[:100])
            return
        schema = self._schema_of(parameter)
        if place == "querystring":
            self._take_query(name, parameter, schema, required=required)
            return
        style = _style_of(parameter, place, schema)
        told = words(parameter.get("description"))
        if place == "query" and schema.get("properties") and style in ("deepObject", "form*"):
            stem = name if style == "deepObject" else ""
            self.query |= self.spread(stem, schema, place, required=required)
            return
        argument = self.add(name, place, schema, told, required=required)
        if style.startswith("matrix") and argument != name:
            raise OperationRefused(f"Its parameter {name[:50]} has the style matrix and a name that no argument has.")
        # Without a style a list is repeated in the query, and a single value is written as it is.
        is_plain = is_scalar(schema) or (place == "query" and style == "form*" and _is(schema, "array"))
        template = f"{{{argument}}}" if is_plain and style[:5] not in ("label", "matri") else f"{{{argument}|{style}}}"
        held = {"path": self.in_path, "query": self.query, "header": self.headers, "cookie": self.cookies}[place]
        held[name] = template

    def _take_query(self, name: str, parameter: dict[str, Any], schema: dict[str, Any], *, required: bool) -> None:
        """Make arguments of the whole query, where a form with known fields describes it."""
        if next(iter(parameter["content"]), "") == _FORM and schema.get("properties"):
            self.query |= self.spread("", schema, "query", required=required)
        elif required:
            raise OperationRefused(f"Its parameter {name[:50]} is the whole query, and no form with named fields.")
        else:
            self.left_out.append(f"querystring {name}"[:100])

    def add(self, name: str, place: str, schema: dict[str, Any], told: str, *, required: bool) -> str:
        """Make an argument and give its name."""
        argument = argument_name(name, place, self._taken)
        said = [text for text in (told, schema.get("description")) if text]
        if not is_told_by(argument, name):
            said.append(f"(Sent as {name[:200]}.)")
        self.properties[argument] = {**schema, "description": " ".join(said)} if said else schema
        if required:
            self.required.append(argument)
        return argument

    def spread(
        self, stem: str, schema: dict[str, Any], place: str, *, required: bool, depth: int = 0
    ) -> dict[str, str]:
        """Make an argument of each property of an object; gives templates by name, which is `stem[property]`."""
        written: dict[str, str] = {}
        wanted = schema.get("required", []) if required else ()
        for part, inner in schema.get("properties", {}).items():
            key = f"{stem}[{part}]" if stem else part
            must = part in wanted
            if stem and _is(inner, "object") and inner.get("properties") and depth < _DEEPEST_SPREAD:
                written |= self.spread(key, inner, place, required=must, depth=depth + 1)
                continue
            argument = self.add(_plain(key), place, inner, "", required=must)
            written[key] = f"{{{argument}}}" if not stem or is_scalar(inner) else f"{{{argument}|deepObject}}"
        return written

    def _schema_of(self, parameter: dict[str, Any]) -> dict[str, Any]:
        content = parameter.get("content")
        if isinstance(content, dict) and content:
            given = self._resolver.resolve(next(iter(content.values())))
            return self._resolver.schema(given.get("schema", {}) if isinstance(given, dict) else {})
        return self._resolver.schema(parameter.get("schema", {}))


def is_scalar(schema: dict[str, Any]) -> bool:
    """Return whether no value that fits is a list or an object."""
    given = schema.get("type")
    if isinstance(given, str | list):
        return {given} <= _SCALARS if isinstance(given, str) else set(given) <= _SCALARS
    if isinstance(schema.get("enum"), list):
        return not any(isinstance(value, dict | list) for value in schema["enum"])
    if isinstance(schema.get("allOf"), list):
        return any(is_scalar(part) for part in schema["allOf"])
    parts = schema.get("oneOf") or schema.get("anyOf") or []
    return bool(parts) and all(is_scalar(part) for part in parts)


def _problem(name: str, place: str, parameter: dict[str, Any]) -> str:
    """Return the reason if no tool can send a parameter; nothing otherwise."""
    if place == "querystring" and isinstance(parameter.get("content"), dict) and parameter["content"]:
        return ""
    if place not in _STYLES:
        return f"Its parameter {name[:50]} is in {place[:20]!r}, not in path, query, header or cookie."
    if parameter.get("style") == TABS:
        return f"Its parameter {name[:50]} is a list with tabs between, which tools do not write."
    if place == "query" and ("{" in name or "}" in name):
        return f"Its parameter {name[:50]} has a name with braces: what it is called is decided at each call."
    if place in ("header", "cookie") and not HEADER_NAME.match(name):
        return f"Its parameter {name[:50]!r} has a name that no {place} can have."
    if place == "header" and name.lower() in CONNECTION_HEADERS:
        return f"Its header {name[:50]} belongs to the connection, which tools do not set."
    return ""


def _style_of(parameter: dict[str, Any], place: str, schema: dict[str, Any]) -> str:
    """Return the style as templates name it. One that the place does not have is taken as the usual one."""
    content = parameter.get("content")
    if isinstance(content, dict) and content:
        usual = "json" if not is_scalar(schema) else _STYLES[place][0]
        return usual
    known = _STYLES[place]
    style = str(parameter.get("style"))
    style = style if style in known else known[0]
    explode = parameter.get("explode")
    is_exploded = style == "form" if not isinstance(explode, bool) else explode
    if style == "deepObject":
        return style
    if style in ("spaceDelimited", "pipeDelimited"):
        return "form*" if is_exploded else style
    return f"{style}*" if is_exploded else style


def _is(schema: Any, kind: str) -> bool:
    """Return whether a value may be of the kind, perhaps beside null."""
    given = schema.get("type") if isinstance(schema, dict) else None
    return given == kind or (isinstance(given, list) and kind in given)


def _plain(key: str) -> str:
    """Write `filter[state]` as filter_state."""
    return key.replace("[", "_").replace("]", "")
