"""The OpenAPI description of the hub's own contract. Its endpoints are no views, so it is written by hand."""

from __future__ import annotations

from django.conf import settings

from mcphub.features.chat.errors import ERROR_CODES
from mcphub.features.chat.models.conversations import MOST_MESSAGES
from mcphub.features.chat.query_requests import TRANSPORTS
from sessions_app.kit.rest.errors import NO_TYPE, PROBLEM
from sessions_app.kit.rest.schema import event_shape
from sessions_app.protocol.json import Json

_TEXT, _WHOLE, _YES, _MOMENT = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "string", "format": "date-time"},
)
_WORD = {"type": "string", "minLength": 1}
_ID = {"type": "string", "format": "uuid"}
_ANY_OBJECT = {"type": "object", "additionalProperties": True}


def _or_null(shape: dict[str, Json]) -> dict[str, Json]:
    return {**shape, "type": [shape["type"], "null"]}


def _object(properties: dict[str, Json], required: tuple[str, ...] | None = None, **more: Json) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else list(required),
        **more,
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


_SCHEMAS: dict[str, Json] = {
    "ChatQueryRequest": _object(
        {
            "content": {
                "type": "string",
                "minLength": 1,
                "maxLength": settings.MCPHUB_CHAT_MAX_CONTENT,
                "pattern": r"\S",
                "description": "What the user asks.",
            },
            "session_id": _or_null(_WORD),
            "provider": _or_null(_WORD),
            "model": _or_null(_WORD),
            "transport": {"enum": [*TRANSPORTS, None], "description": "Tools behind these alone."},
            "tools": {
                "type": ["array", "null"],
                "items": _TEXT,
                "description": "Names; absent: all that the key may call.",
            },
            "stream": _or_null(_YES),
            "metadata": _or_null(_ANY_OBJECT),
        },
        ("content",),
        additionalProperties=False,
    ),
    "ChatToolCall": _object(
        {
            "id": {"type": "string", "description": "The invocation in the audit."},
            "tool_name": _TEXT,
            "arguments": {},
            "result": _or_null(_TEXT),
            "error": {"oneOf": [_object({"code": _TEXT, "message": _TEXT}), {"type": "null"}]},
            "started_at": _MOMENT,
            "completed_at": _MOMENT,
            "duration_ms": _WHOLE,
        }
    ),
    "ChatAnswer": _object(
        {
            "id": _ID,
            "query_id": _ID,
            "session_id": _or_null(_ID),
            "content": _TEXT,
            "tool_calls": {"type": "array", "items": _ref("ChatToolCall")},
            "failed_tools": {"type": "array", "items": _TEXT},
            "provider_used": _TEXT,
            "model": _TEXT,
            "usage": {
                "oneOf": [
                    _object({"prompt_tokens": _WHOLE, "completion_tokens": _WHOLE, "total_tokens": _WHOLE}),
                    {"type": "null"},
                ]
            },
            "timestamp": _MOMENT,
            "duration_ms": _WHOLE,
            "finish_reason": _TEXT,
            "stop_reason": _or_null(_TEXT),
            "quotas": {"type": "array", "items": _ANY_OBJECT},
        }
    ),
    "ChatSessionRequest": _object(
        {
            "provider_preference": _or_null(_WORD),
            "context": _or_null(_ANY_OBJECT),
            "max_messages": {"type": "integer", "minimum": 1, "maximum": MOST_MESSAGES, "default": 20},
        },
        (),
        additionalProperties=False,
    ),
    "ChatSession": _object(
        {
            "id": _ID,
            "created_at": _MOMENT,
            "updated_at": _MOMENT,
            "expires_at": _MOMENT,
            "max_messages": _WHOLE,
            "provider_preference": _or_null(_TEXT),
            "context": _ANY_OBJECT,
            "messages": {
                "type": "array",
                "items": _object(
                    {
                        "role": {"type": "string", "enum": ["system", "developer", "user", "assistant", "tool"]},
                        "content": {},
                        "tool_calls": {"type": ["array", "null"], "items": _ANY_OBJECT},
                        "tool_call_id": _or_null(_TEXT),
                        "error_code": _or_null(_TEXT),
                    }
                ),
            },
        }
    ),
    "ChatTools": _object(
        {
            "count": _WHOLE,
            "tools": {
                "type": "array",
                "items": _object(
                    {
                        "name": _TEXT,
                        "title": _or_null(_TEXT),
                        "description": _TEXT,
                        "input_schema": _ANY_OBJECT,
                        "output_schema": {"type": ["object", "null"], "additionalProperties": True},
                        "transport": {"type": "string", "enum": list(TRANSPORTS)},
                        "connection": _or_null(_TEXT),
                    }
                ),
            },
        }
    ),
    "ChatHealth": _object(
        {
            "status": {"type": "string", "enum": ["healthy", "degraded", "unhealthy"]},
            "version": _TEXT,
            "timestamp": _MOMENT,
            "components": {
                "type": "object",
                "additionalProperties": _object(
                    {
                        "status": {"type": "string", "enum": ["healthy", "degraded", "unhealthy", "not_configured"]},
                        "detail": _TEXT,
                    }
                ),
            },
        }
    ),
    "ChatFailure": _object(
        {
            "error": _object(
                {
                    "code": {"type": "string", "enum": sorted(ERROR_CODES)},
                    "message": _TEXT,
                    "details": _ANY_OBJECT,
                    "retryable": _YES,
                    "jsonrpc_code": _WHOLE,
                    "invocation_id": _or_null(_TEXT),
                }
            ),
            "type": {"type": "string", "enum": [NO_TYPE]},
            "title": _TEXT,
            "status": _WHOLE,
            "detail": _TEXT,
        }
    ),
}

_REFUSALS = {
    "400": "INVALID_QUERY: `details.param` names what is wrong.",
    "401": "No key, or one that is not valid.",
    "403": "The key lacks a scope.",
    "404": "SESSION_NOT_FOUND, TOOL_NOT_FOUND, MODEL_NOT_FOUND or NOT_FOUND; foreign and ended ones too.",
    "409": "SESSION_BUSY: the session answers another request.",
    "413": "INVALID_QUERY: the body is too large.",
    "415": "INVALID_QUERY: the body is not application/json.",
    "429": "RATE_LIMITED, with Retry-After; QUOTA_REACHED, likewise; or QUOTA_EXCEEDED at the provider.",
    "500": "SERVER_ERROR: the hub failed.",
    "502": "AUTHENTICATION_FAILED: the provider does not accept the hub's key.",
    "503": "PROVIDER_UNAVAILABLE, with Retry-After; SERVER_BUSY or AUDIT_UNAVAILABLE.",
    "504": "TIMEOUT: the request took too long as a whole.",
}


def _json(name: str) -> dict[str, Json]:
    return {"application/json": {"schema": _ref(name)}}


def _operation(
    summary: str, id_: str, answers: dict[str, Json], refusals: str, *, body: str = "", **more: Json
) -> dict[str, Json]:
    content = {PROBLEM: {"schema": _ref("ChatFailure")}}
    refused = {code: {"description": _REFUSALS[code], "content": content} for code in refusals.split()}
    asked = {"requestBody": {"required": True, "content": _json(body)}} if body else {}
    return {
        "operationId": id_,
        "summary": summary,
        "tags": ["chat"],
        "security": [{"key": []}],
        **asked,
        "responses": {**answers, **refused},
        **more,
    }


_CALLED = {"call_id": {"type": "string", "description": "The model's own id of the call."}, "tool_name": _TEXT}
_EVENTS = {
    "oneOf": [
        event_shape("delta", _object({"content": _TEXT})),
        event_shape("tool_started", _object({**_CALLED, "arguments": _TEXT})),
        event_shape(
            "tool_finished",
            _object(
                {
                    **_CALLED,
                    "id": _or_null(_TEXT),
                    "is_error": _YES,
                    "error_code": _or_null(_TEXT),
                    "duration_ms": _WHOLE,
                }
            ),
        ),
        event_shape("approval_needed", _object({**_CALLED, "approval_id": _TEXT})),
        event_shape("response", _ref("ChatAnswer")),
        event_shape("error", _ref("ChatFailure")),
    ]
}

_BY_ID = [{"name": "id", "in": "path", "required": True, "schema": _ID}]
_PATHS: dict[str, Json] = {
    "/api/query": {
        "post": _operation(
            "Answer a question",
            "chat_query",
            {
                "200": {
                    "description": "With `stream` the events `delta`, `tool_started`, `tool_finished`, "
                    "`approval_needed`, and at last `response`, which holds the same, or `error`.",
                    "content": {**_json("ChatAnswer"), "text/event-stream": {"schema": _EVENTS}},
                }
            },
            "400 401 403 404 409 413 415 429 500 502 503 504",
            body="ChatQueryRequest",
        )
    },
    "/api/session": {
        "post": _operation(
            "Begin a conversation",
            "chat_session_create",
            {"201": {"description": "It was begun.", "content": _json("ChatSession")}},
            "400 401 403 404 413 415 500 503",
            body="ChatSessionRequest",
        )
    },
    "/api/session/{id}": {
        "get": _operation(
            "A conversation",
            "chat_session_retrieve",
            {"200": {"description": "With what it still sends to models.", "content": _json("ChatSession")}},
            "400 401 403 404 500 503",
            parameters=_BY_ID,
        ),
        "delete": _operation(
            "End a conversation",
            "chat_session_destroy",
            {"204": {"description": "It has ended."}},
            "400 401 403 404 409 500 503",
            parameters=_BY_ID,
        ),
    },
    "/api/tools": {
        "get": _operation(
            "What a question may use",
            "chat_tools",
            {"200": {"description": "Tools that the key sees.", "content": _json("ChatTools")}},
            "400 401 403 500 503",
            parameters=[{"name": "transport", "in": "query", "schema": {"type": "string", "enum": list(TRANSPORTS)}}],
        )
    },
    "/api/health": {
        "get": {
            **_operation(
                "How each part is",
                "chat_health",
                {
                    "200": {"description": "Questions can be answered.", "content": _json("ChatHealth")},
                    "503": {"description": "They cannot.", "content": _json("ChatHealth")},
                },
                "400 500",
            ),
            "security": [],
        }
    },
}


def add_endpoints(result: dict[str, Json], generator: Json, request: Json, public: bool) -> dict[str, Json]:
    """Add the endpoints to the OpenAPI document; a postprocessing hook."""
    result["paths"].update(_PATHS)
    result["components"]["schemas"].update(_SCHEMAS)
    return result
