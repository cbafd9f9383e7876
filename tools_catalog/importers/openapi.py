"""OpenAPI 3.0 and 3.1 documents as HTTP tools: one candidate an operation. Pure: nothing is fetched or stored.

Only what a call needs is read: paths, parameters, bodies, security. Answers are passed on as they come, for what a
document promises of them is often not so, and a promise that is broken would fail the call.
"""

from __future__ import annotations

import re
from typing import Any

from sessions_app.protocol import schemas
from tools_catalog.backends.http.configuration import HttpConfiguration, Service
from tools_catalog.importers.candidates import Candidate, Found, argument_name, tool_name, words
from tools_catalog.importers.credentials import Security
from tools_catalog.importers.documents import DocumentRefused
from tools_catalog.importers.inlining import OperationRefused, Resolver
from tools_catalog.importers.servers import Servers

MOST_OPERATIONS = 3_000
_METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
_OWN_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Parameters of these names are ignored, says OpenAPI."""
_FORM = "application/x-www-form-urlencoded"
_DEEPEST_SPREAD = 4
"""Levels of objects in objects that become arguments of their own."""


def read(document: dict[str, Any], *, slug: str, prefix: str, source: str = "") -> Found:
    """Give what the document offers; raises DocumentRefused for one that is no OpenAPI 3.0 or 3.1.

    `slug` names the service that the tools will call, `source` is the address of the document, if it has one.
    """
    version = document.get("openapi")
    version = str(version) if isinstance(version, float) else version  # YAML without quotes
    if not isinstance(version, str) or not re.match(r"3\.[01]\.", version + "."):
        kind = f"OpenAPI {version}" if version else "Swagger 2" if "swagger" in document else "no OpenAPI"
        raise DocumentRefused(f"The document is {str(kind)[:50]}. Documents of OpenAPI 3.0 and 3.1 are read.")
    info = document.get("info")
    found = Found(title=words(info.get("title") if isinstance(info, dict) else "")[:200])
    servers = Servers(document, source)
    found.url = servers.url
    found.notes += [servers.note] if servers.note else []
    resolver = Resolver(document)
    security = Security(document, resolver, slug)
    found.headers = security.shared.headers
    secrets = dict.fromkeys(security.shared.secrets)
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
                servers.check(item, item[method])
                made = _Operation(resolver, item, item[method], path, method, slug, security)
                definition = made.definition()
                name = tool_name(prefix, made.called, taken)
                secrets |= dict.fromkeys(made.secrets)
                found.candidates.append(Candidate(key=key, name=name, definition=definition))
            except OperationRefused as error:
                found.refused.append((key[:300], str(error)))
            except ValueError as error:
                if isinstance(error, DocumentRefused):
                    raise
                found.refused.append((key[:300], str(error)))
    if secrets:
        which = "the secret" if len(secrets) == 1 else "the secrets"
        found.notes.append(f"Credentials: add {which} {', '.join(secrets)} for the origin of service:{slug}.")
    if security.lacking:
        found.notes.append(
            "Credentials: it wants some of a kind that is not known here. Write a header at the service."
        )
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
        security: Security,
    ) -> None:
        if not isinstance(operation, dict):
            raise OperationRefused("It is no object.")
        self._resolver = resolver
        self._item, self._operation, self._path, self._method = item, operation, path, method
        self._taken: set[str] = set()
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []
        own = security.of(operation)
        self._sends_shared = own is None
        self._query: dict[str, str] = dict((own or security.shared).query)
        self._headers: dict[str, str] = dict(own.headers) if own else {}
        self.secrets = own.secrets if own else ()
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
        configuration |= {} if self._sends_shared else {"credentials": False}
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
                    raise OperationRefused("One of its parameters has no name.")
                found[parameter["name"], parameter.get("in")] = parameter
        return list(found.values())

    def _take(self, parameter: dict[str, Any]) -> None:
        name, place = parameter["name"], parameter.get("in")
        required = parameter.get("required") is True or place == "path"
        if place == "header" and name.lower() in _OWN_HEADERS:
            return
        if place == "cookie":
            if required:
                raise OperationRefused(f"It needs the cookie {name[:50]}, and tools send none.")
            return
        if place not in ("path", "query", "header"):
            raise OperationRefused(
                f"Its parameter {name[:50]} is in {str(place)[:20]!r}, not in path, query or header."
            )
        schema = self._schema_of(parameter)
        style, explode = parameter.get("style"), parameter.get("explode")
        if place == "path" and style in ("label", "matrix"):
            raise OperationRefused(
                f"Its parameter {name[:50]} is written in the style {style}, which tools do not write."
            )
        if place == "query" and self._is_spread(parameter, schema):
            if not schema.get("properties") and required:
                raise OperationRefused(
                    f"Its parameter {name[:50]} is an object of any names, which tools do not write so."
                )
            self._query |= self._spread(name if style == "deepObject" else "", schema, place, required=required)
            return
        if _is(schema, "array") and "content" in parameter:
            schema = {"type": "string", "description": "A list, as JSON."}
        elif _is(schema, "array") and (place != "query" or explode is False or style not in (None, "form")):
            schema = {"type": "string", "description": _several(schema, str(style))}
        argument = self._argument(name, place, schema, words(parameter.get("description")), required=required)
        if place == "path":
            self._in_path[name] = argument
        else:
            (self._query if place == "query" else self._headers)[name] = f"{{{argument}}}"

    @staticmethod
    def _is_spread(parameter: dict[str, Any], schema: dict[str, Any]) -> bool:
        """Whether an object goes into the query as a parameter for each of its properties."""
        if "content" in parameter:
            return False
        if parameter.get("style") == "deepObject":
            return True
        is_form = parameter.get("style") in (None, "form") and parameter.get("explode") is not False
        return is_form and bool(schema.get("properties"))

    def _spread(
        self, stem: str, schema: dict[str, Any], place: str, *, required: bool, depth: int = 0
    ) -> dict[str, str]:
        """Make an argument of each property of an object; gives templates by name, which is `stem[property]`."""
        written: dict[str, str] = {}
        wanted = schema.get("required", []) if required else ()
        for part, inner in schema.get("properties", {}).items():
            key = f"{stem}[{part}]" if stem else part
            must = part in wanted
            if stem and _is(inner, "object") and inner.get("properties") and depth < _DEEPEST_SPREAD:
                written |= self._spread(key, inner, place, required=must, depth=depth + 1)
                continue
            written[key] = f"{{{self._argument(_plain(key), place, inner, '', required=must)}}}"
        return written

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
        kind = next((kind for kind in kinds if kind == "application/json"), "")
        kind = kind or next((kind for kind in kinds if kind.endswith("+json")), "")
        kind = kind or next((kind for kind in kinds if kind == _FORM), "")
        kind = kind or next((kind for kind in kinds if kind.startswith("text/")), "")
        kind = kind or next((kind for kind in kinds if kind == "*/*"), "")
        if not kind:
            raise OperationRefused(f"It takes {', '.join(kinds)[:100]}, and tools send JSON, forms or text.")
        required = body.get("required") is True
        media = kinds[kind] if isinstance(kinds[kind], dict) else {}
        schema = self._resolver.schema(media.get("schema", {}))
        if kind not in ("application/json", "text/plain", "*/*", _FORM) and "*" not in kind:
            self._headers["Content-Type"] = kind
        if kind.startswith("text/"):
            argument = self._argument("body", "body", {"type": "string"}, "The text that is sent.", required=required)
            self._body = {"body": f"{{{argument}}}", "body_encoding": "text"}
            return
        if kind == _FORM:
            if not schema.get("properties"):
                raise OperationRefused("Its form has no properties to fill.")
            self._body = {"body": self._form(media, schema, required=required), "body_encoding": "form"}
        elif _is_plain_object(schema) and (required or not schema.get("required")):
            self._body = {"body": self._spread("", schema, "body", required=required)}
        else:
            # What may be left out but not in part stays one argument.
            argument = self._argument("body", "body", schema, "What is sent.", required=required)
            self._body = {"body": f"{{{argument}}}"}

    def _form(self, media: dict[str, Any], schema: dict[str, Any], *, required: bool) -> dict[str, str]:
        encoding = media.get("encoding")
        encoding = encoding if isinstance(encoding, dict) else {}
        written: dict[str, str] = {}
        for part, inner in schema["properties"].items():
            how = encoding.get(part)
            must = required and part in schema.get("required", [])
            if isinstance(how, dict) and how.get("style") == "deepObject" and inner.get("properties"):
                written |= self._spread(part, inner, "body", required=must)
            else:
                written[part] = f"{{{self._argument(part, 'body', inner, '', required=must)}}}"
        return written

    def _url(self) -> str:
        def argument(match: re.Match[str]) -> str:
            if match[1] not in self._in_path:
                raise OperationRefused(f"Its path has {{{match[1][:50]}}}, and no parameter of that name.")
            return f"{{{self._in_path[match[1]]}}}"

        path = self._path if self._path.startswith("/") else f"/{self._path}"
        return re.sub(r"\{([^{}]+)\}", argument, path.partition("#")[0])


def _is(schema: Any, kind: str) -> bool:
    """Whether a value may be of the kind, perhaps beside null."""
    given = schema.get("type") if isinstance(schema, dict) else None
    return given == kind or (isinstance(given, list) and kind in given)


def _several(schema: dict[str, Any], style: str) -> str:
    """Say how a list is written as one text, and of what."""
    sign = {"spaceDelimited": "blanks", "pipeDelimited": "|"}.get(style, "commas")
    items = schema.get("items")
    choices = items.get("enum") if isinstance(items, dict) else None
    of = f" of {', '.join(map(str, choices))}"[:500] if choices else ""
    return f"Several{of} are separated by {sign}."


def _plain(key: str) -> str:
    """Write `filter[state]` as filter_state."""
    return key.replace("[", "_").replace("]", "")


def _is_plain_object(schema: dict[str, Any]) -> bool:
    """Whether each property can be an argument of its own."""
    parts = {"allOf", "anyOf", "oneOf", "not"} & schema.keys()
    is_open = schema.get("additionalProperties", False) is not False
    return bool(schema.get("properties")) and not parts and not is_open
