"""OpenAPI documents as HTTP tools: one candidate an operation. Pure: nothing is fetched or stored.

Only the parts for a call are read: paths, parameters, bodies, security. Answers are passed on unchanged: descriptions
of them are often wrong, and a violated schema would fail the call.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from mcphub.features.importers.candidates import Candidate, Found, says_enough, tool_name, words
from mcphub.features.importers.documents import DocumentRefused
from mcphub.features.importers.effects import effects_of
from mcphub.features.importers.openapi import bodies, page_sizes, pruning, questions, swagger
from mcphub.features.importers.openapi.arguments import Arguments
from mcphub.features.importers.openapi.credentials import Security
from mcphub.features.importers.openapi.inlining import OperationRefused, Resolver
from mcphub.features.importers.openapi.servers import Servers
from sessions_app.protocol import schemas
from tools_catalog.backends.http.configuration import HttpConfiguration, Service
from tools_catalog.catalog.searching import EXAMPLES

MOST_OPERATIONS = 30_000
METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace", "query")
_NOT_SENT = frozenset({"trace", "query"})
_MOST_TAGS = 10
_MOST_PATTERNS_TOLD = 20
_MOST_SIZES_TOLD = 10


def needed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the required part of a document, as OpenAPI 3; raises DocumentRefused if it is not OpenAPI."""
    version = document.get("openapi")
    version = str(version) if isinstance(version, float) else version  # YAML without quotes
    document = _lowered(document)
    if isinstance(version, str) and re.match(r"3\.[012]\.", version + "."):
        return pruning.pruned(document, METHODS)
    if str(document.get("swagger")) in ("2", "2.0"):
        return pruning.pruned(swagger.converted(document, METHODS), METHODS)
    kind = f"OpenAPI {version}" if version else f"Swagger {document.get('swagger')}" if "swagger" in document else ""
    raise DocumentRefused(
        f"The document is {(kind or 'no OpenAPI')[:50]}. Documents of OpenAPI 3.0 to 3.2 and of Swagger 2.0 are read."
    )


def _lowered(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document whose methods are in small letters, as OpenAPI has them, however they were written."""
    paths = document.get("paths")
    if not isinstance(paths, dict):
        return document

    def item(given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name.lower() if name.lower() in METHODS else name: value for name, value in given.items()}

    return {**document, "paths": {path: item(given) for path, given in paths.items()}}


def read(document: dict[str, Any], *, slug: str, prefix: str, source: str = "") -> Found:
    """Return the operations of the document, as reduced by `needed`; raises DocumentRefused.

    `slug` names the service that the tools will call, `source` is the address of the document, if it has one.
    """
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
    unread: dict[str, str] = {}
    sizes: Counter[str] = Counter()
    operations: list[Any] = []
    count = 0
    for path, given in paths.items():
        item = given
        found.refused += _additional(resolver, given, path)
        for method in METHODS:
            key = f"{method.upper()} {path}"
            try:
                item = resolver.resolve(given)
                if not isinstance(item, dict) or method not in item:
                    continue
                count += 1
                if count > MOST_OPERATIONS:
                    raise DocumentRefused(f"The document has more than {MOST_OPERATIONS} operations.")
                servers.check(item, item[method])
                resolver.unread.clear()
                operations.append(item[method])
                made = _Operation(resolver, item, item[method], path, method, slug, security)
                definition = made.definition()
                name = tool_name(prefix, made.called, taken)
                secrets |= dict.fromkeys(made.secrets)
                sizes.update(made.page_sizes)
                if made.left_out:
                    found.notes.append(
                        f"{key[:200]}: without {', '.join(made.left_out)[:300]}, which tools do not send."
                    )
                unread |= dict.fromkeys(resolver.unread, key)
                found.candidates.append(Candidate(key=key, name=name, definition=definition, tags=made.tags))
            except DocumentRefused as error:
                if not isinstance(error, OperationRefused):
                    raise
                found.refused.append((key[:300], str(error)))
            except ValueError as error:
                found.refused.append((key[:300], str(error)))
    found.account = security.oauth(operations)
    found.notes += _notes(secrets, unread, security, slug)
    found.notes += [
        f"Page size: operations that send {size[:100]} unless a call has another: {count}."
        for size, count in sizes.most_common(_MOST_SIZES_TOLD)
    ]
    return found


def _additional(resolver: Resolver, item: Any, path: str) -> list[tuple[str, str]]:
    """Return the operations of OpenAPI 3.2 with methods of their own, each with why it is left out."""
    try:
        item = resolver.resolve(item)
    except OperationRefused:
        return []  # told of each method
    given = item.get("additionalOperations") if isinstance(item, dict) else None
    names = given if isinstance(given, dict) else ()
    return [(f"{name} {path}"[:300], f"Tools do not send {str(name)[:40]}.") for name in names]


def _notes(secrets: dict[str, None], unread: dict[str, str], security: Security, slug: str) -> list[str]:
    notes: list[str] = []
    if secrets:
        which = "the secret" if len(secrets) == 1 else "the secrets"
        notes.append(f"Credentials: add {which} {', '.join(secrets)} for the origin of service:{slug}.")
    if security.lacking:
        notes.append("Credentials: it wants some of a kind that is not known here. Write a header at the service.")
    for pattern, key in list(unread.items())[:_MOST_PATTERNS_TOLD]:
        notes.append(f"{key[:200]}: the pattern {pattern[:100]!r} cannot be read, and arguments are taken without it.")
    if len(unread) > _MOST_PATTERNS_TOLD:
        notes.append(f"As many as {len(unread) - _MOST_PATTERNS_TOLD} further patterns cannot be read.")
    return notes


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
        if method in _NOT_SENT:
            raise OperationRefused(f"Tools do not send {method.upper()}.")
        self._resolver = resolver
        self._item, self._operation, self._path, self._method = item, operation, path, method
        own = security.of(operation)
        self._sends_shared = own is None
        self._arguments = Arguments(resolver, own, security.shared)
        self.secrets = own.secrets if own else ()
        self.page_sizes: list[str] = []
        self._slug = slug
        by_path = f"{method}_{path}"
        called = words(operation.get("operationId"))
        self._is_renamed = bool(called) and not says_enough(called)
        self.called = by_path if not says_enough(called) and says_enough(by_path) else called or by_path
        given = operation.get("tags")
        tags = given if isinstance(given, list) else []
        self.tags = tuple(tag[:100] for tag in tags if isinstance(tag, str) and tag)[:_MOST_TAGS]

    @property
    def left_out(self) -> list[str]:
        """Return the parameters that may be missing and cannot be sent."""
        return self._arguments.left_out

    def definition(self) -> dict[str, Any]:
        arguments = self._arguments
        for parameter in self._parameters():
            arguments.take(parameter)
        if self._method == "get":
            self.page_sizes = page_sizes.bound(arguments)
        body: dict[str, Any] = {}
        if "requestBody" in self._operation:
            given = self._resolver.resolve(self._operation["requestBody"])
            body = bodies.written(given, self._method, arguments, self._resolver)
        configuration: dict[str, Any] = {"service": self._slug, "method": self._method.upper(), "url": self._url()}
        configuration |= {} if self._sends_shared else {"credentials": False}
        held = {"query": arguments.query, "headers": arguments.headers, "cookies": arguments.cookies}
        configuration |= {name: value for name, value in held.items() if value} | body
        schema: dict[str, Any] = {"type": "object", "properties": arguments.properties, "additionalProperties": False}
        if arguments.required:
            schema["required"] = arguments.required
        schemas.check(schema, input=True)
        HttpConfiguration.parse(configuration, Service(slug=self._slug, url="https://service.invalid", headers={}))
        operation = self._operation
        told = words(operation.get("description"), operation.get("summary"), self._item.get("summary"))
        told = told or f"{self._method.upper()} {self._path}"
        if operation.get("deprecated") is True:
            told = f"Deprecated. {told}"
        asked = operation.get(questions.EXTENSION)
        return {
            "title": words(operation.get("summary"), operation.get("operationId") if self._is_renamed else "")[:200],
            "description": told,
            "input_schema": schema,
            "configuration": configuration,
            **effects_of(
                self._method,
                called=words(operation.get("operationId")),
                told=words(operation.get("summary")) or words(operation.get("description")),
                path=self._path,
                parameters=arguments.properties,
            ),
            "idempotent": self._method in ("get", "head", "options", "put", "delete"),
            **({"meta": {EXAMPLES: asked}} if asked else {}),
        }

    def _parameters(self) -> list[dict[str, Any]]:
        """Return the parameters of the path, those of the operation put over them."""
        found: dict[tuple[Any, Any], dict[str, Any]] = {}
        for holder in (self._item, self._operation):
            given = holder.get("parameters") or []
            if isinstance(given, dict):  # by their names
                given = [{"name": name, **each} if isinstance(each, dict) else each for name, each in given.items()]
            if not isinstance(given, list):
                raise OperationRefused("Its parameters are no list.")
            for parameter in given:
                parameter = self._resolver.resolve(parameter)
                if not isinstance(parameter, dict) or not isinstance(parameter.get("name"), str):
                    raise OperationRefused("One of its parameters has no name.")
                found[parameter["name"], str(parameter.get("in"))] = parameter
        return list(found.values())

    def _url(self) -> str:
        def template(match: re.Match[str]) -> str:
            # `{id:[0-9]+}`, `{*path}` and `{path*}` are of frameworks' routes.
            name = match[1] if match[1] in self._arguments.in_path else match[1].partition(":")[0].strip("+*/? ")
            name = name or match[1]
            if name not in self._arguments.in_path:
                # The address cannot do without it, whether the document describes it or not.
                self._arguments.take({"name": name, "in": "path", "schema": {"type": "string"}})
            return self._arguments.in_path[name]

        path = self._path if self._path.startswith("/") else f"/{self._path}"
        return re.sub(r"\{([^{}]+(?:\{[^{}]*\}[^{}]*)*)\}", template, path.partition("#")[0])
