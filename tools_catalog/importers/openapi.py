"""OpenAPI 3.0 and 3.1 documents as HTTP tools: one candidate an operation. Pure: nothing is fetched or stored.

Only what a call needs is read: paths, parameters, bodies, security. Answers are passed on as they come, for what a
document promises of them is often not so, and a promise that is broken would fail the call.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from sessions_app.protocol import schemas
from tools_catalog.backends.http_configuration import HttpConfiguration, Service
from tools_catalog.importers.candidates import Candidate, Found, argument_name, tool_name, words
from tools_catalog.importers.documents import DocumentRefused
from tools_catalog.importers.inlining import Refused, Resolver

MOST_OPERATIONS = 3_000
_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_OWN_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Parameters of these names are ignored, says OpenAPI."""


def read(document: dict[str, Any], *, slug: str, prefix: str, source: str = "") -> Found:
    """Give what the document offers; raises DocumentRefused for one that is no OpenAPI 3.0 or 3.1.

    `slug` names the service that the tools will call, `source` is the address of the document, if it has one.
    """
    version = document.get("openapi")
    if not isinstance(version, str) or not re.match(r"3\.[01]\.", version + "."):
        told = f"OpenAPI {version}" if version else "Swagger 2" if "swagger" in document else "no OpenAPI"
        raise DocumentRefused(f"The document is {str(told)[:50]}. Documents of OpenAPI 3.0 and 3.1 are read.")
    info = document.get("info")
    found = Found(title=words(info.get("title") if isinstance(info, dict) else "")[:200])
    found.url = _server(document, source, found)
    resolver = Resolver(document)
    scheme = _security(document, resolver, slug, found)
    paths = document.get("paths")
    if not isinstance(paths, dict) or not paths:
        raise DocumentRefused("The document has no paths, so there is nothing to call.")
    taken: set[str] = set()
    count = 0
    for path, given in paths.items():
        item = given
        for method in _METHODS:
            key = f"{method.upper()} {path}"
            try:
                item = resolver.resolve(given)
                if not isinstance(item, dict) or method not in item:
                    continue
                count += 1
                if count > MOST_OPERATIONS:
                    raise DocumentRefused(f"The document has more than {MOST_OPERATIONS} operations.")
                made = _Operation(resolver, item, item[method], path, method, slug, scheme)
                definition = made.definition()
                name = tool_name(prefix, made.called, taken)
                found.candidates.append(Candidate(key=key, name=name, definition=definition))
            except Refused as error:
                found.refused.append((key[:300], str(error)))
            except ValueError as error:
                if isinstance(error, DocumentRefused):
                    raise
                found.refused.append((key[:300], str(error)))
    return found


class _Operation:
    """One operation on its way to a tool."""

    def __init__(
        self,
        resolver: Resolver,
        item: dict[str, Any],
        operation: Any,
        path: str,
        method: str,
        slug: str,
        query_key: dict[str, str],
    ) -> None:
        if not isinstance(operation, dict):
            raise Refused("It is no object.")
        self._resolver = resolver
        self._item, self._operation, self._path, self._method = item, operation, path, method
        self._taken: set[str] = set()
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        self._query: dict[str, str] = dict(query_key)
        self._headers: dict[str, str] = {}
        self._in_path: dict[str, str] = {}
        self._body: dict[str, Any] = {}
        self._slug = slug
        self.called = words(operation.get("operationId")) or f"{method}_{path}"

    def definition(self) -> dict[str, Any]:
        for parameter in self._parameters():
            self._take(parameter)
        if "requestBody" in self._operation:
            self._take_body(self._resolver.resolve(self._operation["requestBody"]))
        configuration: dict[str, Any] = {"service": self._slug, "method": self._method.upper(), "url": self._url()}
        configuration |= {name: value for name, value in (("query", self._query), ("headers", self._headers)) if value}
        configuration |= self._body
        schema: dict[str, Any] = {"type": "object", "properties": self._properties, "additionalProperties": False}
        if self._required:
            schema["required"] = self._required
        schemas.check(schema, input=True)
        HttpConfiguration.parse(configuration, Service(slug=self._slug, url="https://service.invalid", headers={}))
        operation = self._operation
        told = words(operation.get("description"), operation.get("summary"), self._item.get("summary"))
        told = told or f"{self._method.upper()} {self._path}"
        if operation.get("deprecated") is True:
            told = f"Deprecated. {told}"
        return {
            "title": words(operation.get("summary"))[:200],
            "description": told,
            "input_schema": schema,
            "configuration": configuration,
            "destructive": self._method == "delete",
            "idempotent": self._method in ("get", "head", "options", "put", "delete"),
        }

    def _parameters(self) -> list[dict[str, Any]]:
        """Give the parameters of the path, those of the operation put over them."""
        found: dict[tuple[Any, Any], dict[str, Any]] = {}
        for holder in (self._item, self._operation):
            given = holder.get("parameters", [])
            for parameter in given if isinstance(given, list) else ():
                parameter = self._resolver.resolve(parameter)
                if not isinstance(parameter, dict) or not isinstance(parameter.get("name"), str):
                    raise Refused("One of its parameters has no name.")
                found[parameter["name"], parameter.get("in")] = parameter
        return list(found.values())

    def _take(self, parameter: dict[str, Any]) -> None:
        name, place = parameter["name"], parameter.get("in")
        required = parameter.get("required") is True or place == "path"
        if place == "header" and name.lower() in _OWN_HEADERS:
            return
        if place == "cookie":
            if required:
                raise Refused(f"It needs the cookie {name[:50]}, and tools send none.")
            return
        if place not in ("path", "query", "header"):
            raise Refused(f"Its parameter {name[:50]} is in {str(place)[:20]!r}, not in path, query or header.")
        schema = self._schema_of(parameter)
        style, explode = parameter.get("style"), parameter.get("explode")
        if place == "query" and style == "deepObject":
            for part, inner in schema.get("properties", {}).items():
                argument = self._argument(f"{name}_{part}", place, inner, "", required=False)
                self._query[f"{name}[{part}]"] = f"{{{argument}}}"
            return
        if schema.get("type") == "array" and (place != "query" or explode is False or style not in (None, "form")):
            sign = {"spaceDelimited": "blanks", "pipeDelimited": "|"}.get(str(style), "commas")
            schema = {"type": "string", "description": f"Several are separated by {sign}."}
        argument = self._argument(name, place, schema, words(parameter.get("description")), required=required)
        if place == "path":
            self._in_path[name] = argument
        else:
            (self._query if place == "query" else self._headers)[name] = f"{{{argument}}}"

    def _schema_of(self, parameter: dict[str, Any]) -> dict[str, Any]:
        content = parameter.get("content")
        if isinstance(content, dict) and content:
            given = next(iter(content.values()))
            return self._resolver.schema(given.get("schema", {}) if isinstance(given, dict) else {})
        return self._resolver.schema(parameter.get("schema", {}))

    def _argument(self, name: str, place: str, schema: dict[str, Any], told: str, *, required: bool) -> str:
        argument = argument_name(name, place, self._taken)
        said = [text for text in (told, schema.get("description")) if text]
        self._properties[argument] = {**schema, "description": " ".join(said)} if said else schema
        if required:
            self._required.append(argument)
        return argument

    def _take_body(self, body: Any) -> None:
        content = body.get("content") if isinstance(body, dict) else None
        if not isinstance(content, dict) or not content:
            return
        kinds = {kind.partition(";")[0].strip().lower(): given for kind, given in content.items()}
        kind = next((kind for kind in kinds if kind == "application/json" or kind.endswith("+json")), "")
        kind = kind or next((kind for kind in kinds if kind == "application/x-www-form-urlencoded"), "")
        kind = kind or next((kind for kind in kinds if kind.startswith("text/")), "")
        required = body.get("required") is True
        if not kind:
            if "*/*" not in kinds and required:
                raise Refused(f"It takes {', '.join(kinds)[:100]}, and tools send JSON, forms or text.")
            if "*/*" not in kinds:
                return
            kind = "*/*"
        given = kinds[kind]
        schema = self._resolver.schema(given.get("schema", {}) if isinstance(given, dict) else {})
        if kind.startswith("text/"):
            argument = self._argument("body", "body", {"type": "string"}, "The text that is sent.", required=required)
            self._body = {"body": f"{{{argument}}}", "body_encoding": "text"}
            return
        encoding = {"body_encoding": "form"} if kind == "application/x-www-form-urlencoded" else {}
        if _is_plain_object(schema):
            wanted = set(schema.get("required", [])) if required else set()
            told = {
                part: self._argument(part, "body", inner, "", required=part in wanted)
                for part, inner in schema["properties"].items()
            }
            self._body = {"body": {part: f"{{{argument}}}" for part, argument in told.items()}, **encoding}
        elif encoding:
            raise Refused("Its form has no properties to fill.")
        else:
            argument = self._argument("body", "body", schema, "What is sent.", required=required)
            self._body = {"body": f"{{{argument}}}"}

    def _url(self) -> str:
        def argument(match: re.Match[str]) -> str:
            if match[1] not in self._in_path:
                raise Refused(f"Its path has {{{match[1][:50]}}}, and no parameter of that name.")
            return f"{{{self._in_path[match[1]]}}}"

        path = self._path if self._path.startswith("/") else f"/{self._path}"
        return re.sub(r"\{([^{}]+)\}", argument, path.partition("#")[0])


def _is_plain_object(schema: dict[str, Any]) -> bool:
    """Whether each property can be an argument of its own."""
    parts = {"allOf", "anyOf", "oneOf", "not"} & schema.keys()
    is_open = schema.get("additionalProperties", False) is not False
    return bool(schema.get("properties")) and not parts and not is_open


def _server(document: dict[str, Any], source: str, found: Found) -> str:
    servers = document.get("servers")
    first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], dict) else {}
    url = words(first.get("url"))
    variables = first.get("variables")
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        default = variable.get("default") if isinstance(variable, dict) else None
        url = url.replace(f"{{{name}}}", str(default or ""))
    try:
        if not urlsplit(url).netloc:
            url = urljoin(source, url) if source else ""
    except ValueError as error:
        raise DocumentRefused(f"The address of its server is none: {url[:100]!r}.") from error
    if not url:
        found.notes.append("The document names no server: the service needs an address.")
    return url.rstrip("/")


def _security(document: dict[str, Any], resolver: Resolver, slug: str, found: Found) -> dict[str, str]:
    """Write the first kind of credentials that the document names into the headers; give a query key, if it is one."""
    components = document.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    if not isinstance(schemes, dict) or not schemes:
        return {}
    wanted = document.get("security")
    named = [name for each in wanted if isinstance(each, dict) for name in each] if isinstance(wanted, list) else []
    chosen = next((name for name in named if name in schemes), next(iter(schemes)))
    scheme = resolver.resolve(schemes[chosen])
    kind = scheme.get("type") if isinstance(scheme, dict) else None
    if kind == "apiKey" and isinstance(scheme.get("name"), str):
        if scheme.get("in") == "query":
            return {scheme["name"]: f"{{secret:{slug}}}"}
        if scheme.get("in") == "header":
            found.headers = {scheme["name"]: f"{{secret:{slug}}}"}
    elif kind == "http" and str(scheme.get("scheme")).lower() == "basic":
        found.headers = {"Authorization": f"Basic {{basic:{slug}}}"}
    elif kind in ("http", "oauth2", "openIdConnect"):
        found.headers = {"Authorization": f"Bearer {{secret:{slug}}}"}
    if found.headers:
        found.notes.append(f"Credentials: add the secret {slug} for the host of the service.")
    return {}
