"""The four kinds of JSON-RPC 2.0 message as MCP uses them: parsed precisely, encoded once.

MCP narrows JSON-RPC: `params` and `result` are objects, an id is a string or an integer. The meaning of a message is
decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from sessions_app.protocol.errors import InvalidRequest
from sessions_app.protocol.json import Json, dumps

RequestId: TypeAlias = str | int

_ABSENT = object()
_INITIALIZED = "notifications/initialized"


@dataclass(slots=True)
class Request:
    id: RequestId
    method: str
    params: dict[str, Json]


@dataclass(slots=True)
class Notification:
    method: str
    params: dict[str, Json]


@dataclass(slots=True)
class Response:
    id: RequestId
    result: dict[str, Json]


@dataclass(slots=True)
class ErrorResponse:
    id: RequestId | None
    error: dict[str, Json]


Message: TypeAlias = Request | Notification | Response | ErrorResponse


def parse(value: Json) -> Message:
    """Return the kind of message of a decoded body.

    Raises `InvalidRequest` with one sentence per deviation; its `request_id` is the id if it could be read.
    `notifications/initialized` with a null id is taken as the notification it means to be.
    """
    if not isinstance(value, dict):
        _refuse(value, f"The body must be one JSON object, not {_kind(value)}.")
    if value.get("jsonrpc") != "2.0":
        _refuse(value, 'The member jsonrpc must be the string "2.0".')
    method = value.get("method", _ABSENT)
    if method is _ABSENT:
        return _parse_answer(value)
    if "result" in value or "error" in value:
        _refuse(value, "A message with a method carries neither result nor error.")
    if type(method) is not str or not method:
        _refuse(value, "The member method must be a non-empty string.")
    params = value.get("params", _ABSENT)
    if params is _ABSENT:
        params = {}
    elif type(params) is not dict:
        _refuse(value, f"MCP takes params by name: params must be an object, not {_kind(params)}.")
    request_id = value.get("id", _ABSENT)
    if request_id is _ABSENT or (request_id is None and method == _INITIALIZED):
        return Notification(method, params)
    if type(request_id) is not int and type(request_id) is not str:
        request_id = _checked_id(value, request_id)
    return Request(request_id, method, params)


def is_notification(value: Json) -> bool:
    """Return whether a decoded body is a notification, well or badly: then no error answers it (JSON-RPC 2.0, section
    4.1).
    """
    if not isinstance(value, dict) or not isinstance(value.get("method"), str):
        return False
    return "id" not in value or (value["id"] is None and value["method"] == _INITIALIZED)


def readable_id(value: Json) -> RequestId | None:
    """The id of a message, as far as it can be read at all, for the error that answers it."""
    if isinstance(value, dict):
        found = value.get("id")
        if isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool)):
            return found
    return None


def encode_result(id: RequestId, result: bytes | Json) -> bytes:
    """A response; `bytes` are taken as encoded JSON and spliced in."""
    body = result if isinstance(result, bytes) else dumps(result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (b"%d" % id if type(id) is int else dumps(id), body)


def encode_error(id: RequestId | None, error: Mapping[str, Json], *, null_id: bool = False) -> bytes:
    """An error response. Without an id the member is left out, or null for revisions before 2025-11-25."""
    body = _encoded(error)
    if id is not None:
        return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (dumps(id), body)
    return b'{"jsonrpc":"2.0",%b"error":%b}' % (b'"id":null,' if null_id else b"", body)


def encode_notification(method: str, params: bytes | Mapping[str, Json]) -> bytes:
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (dumps(method), _encoded(params))


def encode_request(id: RequestId, method: str, params: bytes | Mapping[str, Json]) -> bytes:
    parts = (dumps(id), dumps(method), _encoded(params))
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % parts


def _parse_answer(value: dict[str, Json]) -> Response | ErrorResponse:
    answer_id = value.get("id", _ABSENT)
    if "error" in value:
        if "result" in value:
            _refuse(value, "A response carries either result or error, not both.")
        error = value["error"]
        if not isinstance(error, dict):
            _refuse(value, f"The member error must be an object, not {_kind(error)}.")
        code = error.get("code")
        if not isinstance(code, int) or isinstance(code, bool) or not isinstance(error.get("message"), str):
            _refuse(value, "The member error needs an integer code and a string message.")
        if answer_id is _ABSENT or answer_id is None:
            return ErrorResponse(None, error)
        return ErrorResponse(_checked_id(value, answer_id), error)
    if "result" not in value:
        _refuse(value, "The message has neither a method, nor a result, nor an error. Send one of them.")
    if answer_id is _ABSENT:
        _refuse(value, "A response must carry the id of its request.")
    result = value["result"]
    if not isinstance(result, dict):
        _refuse(value, f"MCP results are objects: result must be an object, not {_kind(result)}.")
    return Response(_checked_id(value, answer_id), result)


def _checked_id(value: dict[str, Json], found: Json) -> RequestId:
    if isinstance(found, str) or (isinstance(found, int) and not isinstance(found, bool)):
        return found
    if found is None:
        _refuse(value, "The id is null. Use a string or an integer, or leave it out of a notification.")
    if isinstance(found, float):
        _refuse(value, f"The id {found!r} is not an integer. Write it without fraction or exponent.")
    _refuse(value, f"The id must be a string or an integer, not {_kind(found)}.")


def _refuse(value: Json, sentence: str) -> NoReturn:
    error = InvalidRequest(sentence)
    error.request_id = readable_id(value)
    raise error


def _encoded(value: bytes | Json) -> bytes:
    return value if isinstance(value, bytes) else dumps(value)


def _kind(value: Json) -> str:
    if isinstance(value, list):
        return "an array"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, bool):
        return "a boolean"
    return "null" if value is None else "a number"
