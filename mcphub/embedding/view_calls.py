"""A call of a viewset's action: a request by the caller's person, and its response as a result."""

from __future__ import annotations

import binascii
import contextlib
import io
import mimetypes
import re
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import SimpleUploadedFile, UploadedFile
from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import Http404, HttpResponseBase
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser, DataAndFiles, JSONParser
from rest_framework.views import exception_handler

from mcphub.checks import is_host_under_test
from mcphub.embedding.view_schemas import ViewOperation
from sessions_app.protocol import json
from sessions_app.protocol.errors import ArgumentsInvalid, ProtocolError
from sessions_app.protocol.json import Json
from tools_catalog.backends.python import ToolError
from tools_catalog.backends.threads import SyncContext
from tools_catalog.call.content import Audio, ContentBlock, Image, Resource

_LONGEST_REASON: Final = 2000
_UNKNOWN: Final = "application/octet-stream"
_TEXTS: Final = ("application/xml", "application/javascript", "application/yaml", "application/x-yaml")
_IN_TESTS: Final = "http://testserver"


class ByCaller(BaseAuthentication):
    """The person of the call, in place of the viewset's own authentication."""

    def authenticate(self, request: Any) -> tuple[Any, None] | None:
        person = request._request.hub_person
        return None if person is None else (person, None)


class _Files(dict[str, Any]):
    """The files of a request, each by its name, alone or in a list."""

    def getlist(self, name: str, default: Any = None) -> list[Any]:
        found = self.get(name, [] if default is None else default)
        return found if isinstance(found, list) else [found]


class FilesParser(BaseParser):
    """The JSON of a request, with uploaded files in place of the files of its schema.

    No JSONParser: its bodies are bounded by Django's DATA_UPLOAD_MAX_MEMORY_SIZE, which does not count files.
    """

    media_type = JSONParser.media_type

    operation: ViewOperation

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        data = self.operation.with_files(JSONParser().parse(stream, media_type, parser_context), _uploaded)
        members = data.items() if isinstance(data, dict) else ()
        return DataAndFiles(data, _Files((name, value) for name, value in members if _is_uploaded(value)))


def _is_uploaded(value: Any) -> bool:
    return any(isinstance(each, UploadedFile) for each in (value if isinstance(value, list) else [value]))


def _uploaded(member: str, value: dict[str, Any]) -> UploadedFile[Any]:
    try:
        raw = b64decode(value["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise ParseError({member: "data is not base64."}) from error
    if not (name := _base_name(value["name"])):
        raise ParseError({member: "name is no name of a file."})
    return SimpleUploadedFile(name, raw, value.get("mimeType") or mimetypes.guess_type(name)[0] or _UNKNOWN)


def _base_name(text: str) -> str:
    """Return the printable characters of a path's last part, as Django does for uploads; empty for none."""
    name = "".join(filter(str.isprintable, re.split(r"[/\\]", text)[-1])).strip()
    return "" if name in (".", "..") else name


@dataclass(frozen=True, slots=True)
class ViewCall:
    """Calls one action."""

    view: Any
    method: str
    operation: ViewOperation

    def __call__(self, hub_call: SyncContext, /, arguments: dict[str, Any]) -> Json | ContentBlock:
        taken, operation = dict(arguments), self.operation
        kwargs = {keyword: str(taken.pop(name)) for name, keyword in operation.path.items()}
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


def _result(response: HttpResponseBase) -> Json | ContentBlock:
    """Return the data or the file of a response; raise its refusal."""
    if getattr(response, "is_rendered", True) is False:
        response.render()  # type: ignore[attr-defined]  # only template responses have `is_rendered`
    raw = _content(response)
    kind = response.get("Content-Type", "").partition(";")[0].strip().lower()
    is_text = "json" in kind or kind.startswith("text/") or kind in ("", *_TEXTS)
    if response.status_code < 400 and raw and not is_text:
        return _file(kind, raw, response.get("Content-Disposition", ""))
    if 300 <= response.status_code < 400 and response.get("Location"):
        return f"The result is at {response['Location']}"
    data = _data(kind, raw, response) if raw else "Done."
    if response.status_code < 400:
        return data
    reason = "; ".join(_reasons(data))[:_LONGEST_REASON]
    if response.status_code == 400:
        raise ArgumentsInvalid(reason)
    raise ToolError(reason)


def _data(kind: str, raw: bytes, response: HttpResponseBase) -> Json:
    """Return the JSON of a response, else its text."""
    if kind.endswith(("/json", "+json")):
        with contextlib.suppress(ProtocolError):
            return json.loads(raw)
    try:
        return raw.decode(response.charset, "replace")
    except LookupError:
        return raw.decode("utf-8", "replace")


def _content(response: Any) -> bytes:
    """Return the bytes of a response; raise ToolError for more than a resource may have."""
    most = settings.MCPHUB_MAX_RESOURCE_BYTES
    if getattr(response, "is_async", False) or response.get("Content-Type", "").startswith("text/event-stream"):
        raise ToolError("This action streams, which a tool cannot. Ask the tool's author for another one.")
    raw = bytearray()
    for chunk in response.streaming_content if response.streaming else [response.content]:
        raw += chunk
        if response.streaming and len(raw) > most:
            raise ToolError(f"The file has more than {most} bytes, which is the most that a tool returns.")
    return bytes(raw)


def _file(kind: str, raw: bytes, disposition: str) -> ContentBlock:
    """Return a file as MCP has files of its kind."""
    if len(raw) > (most := settings.MCPHUB_MAX_RESOURCE_BYTES):
        raise ToolError(f"The file has {len(raw)} bytes; a tool returns at most {most}.")
    if kind.startswith("image/"):
        return Image(raw, kind)
    if kind.startswith("audio/"):
        return Audio(raw, kind)
    message = Message()
    message["Content-Disposition"] = disposition
    name = _base_name(message.get_filename("")) or "file" + (mimetypes.guess_extension(kind) or "")
    return Resource(f"file:///{quote(name)}", raw, kind)


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
