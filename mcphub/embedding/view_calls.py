"""A call of a viewset's action: a request by the caller's person, and its response as a result."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import Http404, HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException
from rest_framework.views import exception_handler

from mcphub.checks import is_host_under_test
from mcphub.embedding.view_schemas import ViewOperation
from sessions_app.protocol import json
from sessions_app.protocol.errors import ArgumentsInvalid
from sessions_app.protocol.json import Json
from tools_catalog.backends.python import ToolError
from tools_catalog.backends.threads import SyncContext

_LONGEST_REASON: Final = 2000
_IN_TESTS: Final = "http://testserver"


class ByCaller(BaseAuthentication):
    """The person of the call, in place of the viewset's own authentication."""

    def authenticate(self, request: Any) -> tuple[Any, None] | None:
        person = request._request.hub_person
        return None if person is None else (person, None)


@dataclass(frozen=True, slots=True)
class ViewCall:
    """Calls one action."""

    view: Any
    method: str
    lookup: str
    operation: ViewOperation

    def __call__(self, hub_call: SyncContext, /, arguments: dict[str, Any]) -> Json:
        taken, operation = dict(arguments), self.operation
        kwargs = {self.lookup: str(taken.pop(operation.row))} if operation.row else {}
        query = {name: _in_query(taken.pop(name)) for name in operation.query if taken.get(name) is not None}
        for name in operation.query:
            taken.pop(name, None)
        body = taken.get(operation.body_member) if operation.body_member else taken
        request = _request(self.method, query, body if operation.has_body else None)
        request.hub_person = _person(hub_call)
        response = BaseHandler().make_view_atomic(self.view)(request, **kwargs)
        try:
            return _result(response)
        finally:
            response.close()


def handling(view: Any) -> Any:
    """Return an exception handler: that of DRF for exceptions of its own, else the host's."""

    def handler(error: Exception, context: Any) -> Any:
        is_known = isinstance(error, (APIException, Http404, PermissionDenied))
        return (exception_handler if is_known else view.settings.EXCEPTION_HANDLER)(error, context)

    return handler


def _person(call: SyncContext) -> Any:
    """Return the person of a call; None (anonymous to DRF) for a key without an owner and for nobody."""
    kind, _, key = call.caller_principal.partition(":")
    return get_user_model()._default_manager.filter(pk=key, is_active=True).first() if kind == "user" else None


def _in_query(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return [_in_query(each) for each in value] if isinstance(value, list) else value


def _request(method: str, query: Mapping[str, Any], body: Any) -> Any:
    """Return the request that the viewset gets: at the host's public address, in tests at that of Django's client."""
    address = urlsplit(_IN_TESTS if is_host_under_test() else settings.MCPHUB_PUBLIC_URL or "http://127.0.0.1:8000")
    raw = b"" if body is None else json.dumps(body)
    environ = {
        "REQUEST_METHOD": method.upper(),
        "PATH_INFO": "/",
        "QUERY_STRING": urlencode(query, doseq=True),
        "SERVER_NAME": address.hostname or "127.0.0.1",
        "SERVER_PORT": str(address.port or (443 if address.scheme == "https" else 80)),
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_ACCEPT": "application/json",
        "CONTENT_LENGTH": str(len(raw)),
        "wsgi.input": io.BytesIO(raw),
        "wsgi.url_scheme": address.scheme,
    }
    if body is not None:
        environ["CONTENT_TYPE"] = "application/json"
    return WSGIRequest(environ)


def _result(response: HttpResponseBase) -> Json:
    """Return the data of a response; raise its refusal."""
    if getattr(response, "is_rendered", True) is False:
        response.render()  # type: ignore[attr-defined]  # only template responses have `is_rendered`
    if response.streaming:
        raise ToolError("This action returns a file, which a tool cannot. Ask the tool's author for another one.")
    raw: bytes = response.content  # type: ignore[attr-defined]  # it is no streaming response
    is_json = "json" in response.get("Content-Type", "")
    data: Json = json.loads(raw) if is_json and raw else raw.decode("utf-8", "replace") or "Done."
    if response.status_code < 400:
        return data
    reason = "; ".join(_reasons(data))[:_LONGEST_REASON]
    if response.status_code == 400:
        raise ArgumentsInvalid(reason)
    raise ToolError(reason)


def _reasons(data: Json, at: str = "") -> list[str]:
    """Return the sentences of an error of DRF, each behind the member that it is about."""
    if isinstance(data, dict):
        return [
            each
            for name, value in data.items()
            for each in _reasons(value, at if name in ("detail", "non_field_errors") else f"{at}.{name}".lstrip("."))
        ]
    if isinstance(data, list):
        return [each for value in data for each in _reasons(value, at)]
    return [f"{at}: {data}" if at else str(data)]
