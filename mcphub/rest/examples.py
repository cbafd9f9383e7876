"""The examples of the OpenAPI document, as people would send and get them.

A test holds each against its schema. Request bodies are in `sent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from mcphub.parts import RestExamples
from mcphub.rest import sent
from sessions_app.kit.features import declared
from sessions_app.kit.rest import examples
from sessions_app.kit.rest.examples import Written
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

_HASH = "5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456"
_CALL = "0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"
_SESSION = "kB3xw1qTzM5s"
_ENDS = "2027-03-01T12:00:00Z"
_NOTE = f"hub.example\n1042\nmO8Q9v4yJ0m3m2l1uQ==\n\n— hub.example {_HASH[:44]}\n"

FAILED_CALL: Mapping[str, Json] = {
    "request_id": 4,
    "arguments": {"city": 7},
    "status": "error",
    "result": None,
    "error": {
        "code": -32602,
        "message": "city: 7 is not of type 'string'.",
        "data": {"errorCode": "invalid_arguments"},
    },
    "error_code": "invalid_arguments",
    "jsonrpc_code": -32602,
    "retryable": False,
    "duplicate_of": "",
    "session_id": _SESSION,
}
_PROVED: Mapping[str, Json] = {
    "table": "invocations_mcptoolinvocation",
    "covered": _HASH,
    "leaf": _HASH,
    "row_path": [_HASH],
    "block_path": [_HASH],
    "block": {"first": 1001, "last": 1042},
}

_COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "Account": {
        "of": "connection",
        "name": "tickets",
        "state": "connected",
        "failure": "",
        "issuer": "https://id.example",
    },
    "ChatToolCall": {"id": _CALL, "error": None, "result": "Rain", "arguments": {"city": "Oslo"}},
    "Checkpoint": {"note": _NOTE},
    "Connection": {
        **sent.CONNECTION,
        "status": "connected",
        "available_tools": ["search"],
        "error_message": "",
        "prefix": "tickets.",
        "issuer": "",
    },
    "Consistency": {"old": 1000, "new": 1042, "proof": [_HASH]},
    "Delivery": {"way": "webhook", "state": "sent", "error": ""},
    "Difference": {"path": "/content/0/text", "kind": "changed", "original": "Rain", "replay": "Sun"},
    "ErrorMapping": {**sent.MAPPING, "internal_code": "timeout"},
    "Event": {"kind": "tool.changed", "before": {"enabled": True}, "after": {"enabled": False}, "via": "rest"},
    "EventProof": {"checkpoint": _NOTE},
    "FacetsByName": {
        name: {"values": [{"value": value, "count": 2}], "more": False}
        for name, value in {
            "status": "error",
            "tool": "weather",
            "version": "1",
            "client": "inspector",
            "principal": "key:1",
            "allowed_client": "Claude (client 3)",
            "error_code": "invalid_arguments",
            "connection": "tickets",
            "policy_rule": "large-transfers",
            "transport": "streamable-http",
        }.items()
    },
    "Facets": {"rows": 2, "started_before": "2026-03-02T12:00:00Z"},
    "Group": {
        "group": "weather",
        "calls": 41,
        "errors": 2,
        "error_rate": 0.04878,
        "p50_ms": 18,
        "p95_ms": 210,
        "p99_ms": 900,
        "longest_ms": 904,
    },
    "Held": {"subject": "network", "is_held": True, "how": "a namespace of its own"},
    "HeldBack": {
        "detail": "read_only: a second person has to confirm this.",
        "waiting_change": 12,
        "fields_held": ["read_only"],
    },
    "Invocation": FAILED_CALL,
    "InvocationDetail": FAILED_CALL,
    "Envelope": {"params": {"name": "weather", "arguments": {"city": 7}}},
    "Key": {**sent.KEY, "expires_at": _ENDS},
    "KeyWithText": {**sent.KEY, "expires_at": _ENDS, "text": "mcph_1a2b3c4d_the_rest_is_shown_once"},
    "Listed": {
        "name": "sessions",
        "address": "https://hub.example/api/sessions/",
        "about": "Sessions of clients: who is connected, and who was.",
    },
    "LaunchProfile": {**sent.PROFILE, "readable": [], "writable": [], "directory": "", "user": ""},
    "ModelPrice": sent.PRICE,
    "Notice": {
        "kind": "tool.errors",
        "subject": "weather",
        "title": "weather fails often",
        "words": "2 of 41 calls failed in the last hour. Look at them under Calls.",
    },
    "Offer": {
        "kind": "tool",
        "state": "new",
        "name": "tickets.search",
        "upstream_name": "search",
        "connection": "tickets",
        "seen": {"name": "search", "description": "Finds tickets.", "inputSchema": {"type": "object"}},
        "approved": {},
        "digest": sent.DIGEST,
        "remark": "",
        "renamed_from": "",
        "decided_by": "",
    },
    "Person": {
        "username": "ada",
        "principal": "user:2",
        "first_name": "Ada",
        "last_name": "Lovelace",
        "email": "ada@example.org",
        "is_active": True,
        "is_staff": True,
        "groups": ["Operator"],
    },
    "Process": {"status": "running", "protocol_version": "2026-07-28"},
    "Prompt": sent.PROMPT,
    "Proof": {"checkpoint": _NOTE},
    "PeopleGroup": {**sent.GROUP, "people": 3},
    "Model": {**sent.MODEL, "public_id": "openai/gpt-5", "enabled": True, "fallbacks": []},
    "Tried": {"is_good": True},
    "TriedStep": {"kind": "address", "is_good": True, "outcome": "https://mcp.example/mcp", "milliseconds": 12},
    "Provider": {**sent.PROVIDER, "has_key": True, "models": ["local/llama"]},
    "ProviderState": {"failure_code": "TIMEOUT", "failure": "No byte came within 60 seconds."},
    "AllowedHost": dict(sent.ALLOWED_HOST),
    "AccessReview": {
        **sent.ACCESS_REVIEW,
        "state": "open",
        "group": None,
        "started_by": "ada",
        "closed_by": "",
        "closed_at": None,
    },
    "ReviewedGrant": {
        "kind": "membership",
        "principal": "user:2",
        "label": "bob",
        "grant": "payers",
        "through": {"toolsets": ["money"]},
        "tool_names": ["pay.refund"],
        "state": "take_away",
        "reason": "left the team",
        "decided_by": "ada",
    },
    "DecidedGrant": {"id": 17, "state": "take_away", "problem": ""},
    "WriteStop": {**sent.WRITE_STOP, "in_force": True, "stopped_by": "ada", "allowed_by": "", "allowed_at": None},
    "RedactionRule": {**sent.REDACTION, "tool_name": "", "note": ""},
    "SavedView": {
        **sent.VIEW,
        "owner": "ada",
        "is_own": True,
        "address": f"https://hub.example/admin/invocations/mcptoolinvocation/?{sent.VIEW['query']}",
    },
    "Replay": {
        "replay_of": _CALL,
        "invocation_id": None,
        "dry_run": True,
        "valid": True,
        "violations": [],
        "same": None,
        "difference": None,
        "status": None,
    },
    "Resource": {**sent.RESOURCE, "is_template": False},
    "Root": {"document": "https://hub.example/api/schema", "docs": "https://hub.example/api/docs"},
    "RowProof": _PROVED,
    "Secret": {**sent.SECRET, "places": "header"},
    "Service": {**sent.SERVICE, "kind": "", "version": "", "issuer": "", "authorization_url": "", "token_url": ""},
    "Session": {"state": "initialized", "end_reason": "", "client_capabilities": {"elicitation": {}}},
    "ShippingTarget": {
        "position": 1042,
        "name": "siem",
        "kind": "webhook",
        "address": "https://siem.example/audit",
        "problem": "",
    },
    "Statistics": {"started_before": "2026-03-02T12:00:00Z"},
    "Task": {"state": "completed", "message": "", "result": {"content": [{"type": "text", "text": "Rain"}]}},
    "ToolDefinition": sent.TOOL,
    "ToolVersion": {
        "definition": {"name": "weather", "description": "Tells the weather of a city.", "inputSchema": sent.SCHEMA}
    },
    "Workspace": {
        **sent.WORKSPACE,
        "path": "/w/payments/mcp",
        "description": "",
        "members": ["finance"],
        "auditors": [],
        "operators": [],
    },
    "Toolset": {**sent.TOOLSET, "path": "/mcp/s/few", "read_patterns": ""},
    "Transport": {"type": "streamable-http", "is_active": True, "configuration": {"path": "/mcp"}, "last_error": ""},
    "Verification": {"way": "watch", "problem": ""},
    "Violation": {"path": "/city", "message": "7 is not of type 'string'."},
    "WaitingChange": {
        "subject_model": "tools_catalog.mcptooldefinition",
        "before": {"read_only": False},
        "after": {"read_only": True},
        "decided_by": "",
        "answer": "",
    },
}

_MEMBERS: Mapping[str, Json] = {
    "account_name": "Ada",
    "account_scopes": "",
    "actor": "user:2",
    "actor_label": "ada",
    "address": "https://siem.example",
    "arguments_digest": sent.DIGEST,
    "ask_group": "",
    "ask_seconds": 86400,
    "author_label": "ada",
    "begins_at": "2026-03-01T00:00:00Z",
    "blocks": 1042,
    "caller_label": "auditor",
    "calls": 3,
    "checkpoint": _NOTE,
    "client_address": "203.0.113.7",
    "client_id": "",
    "client_name": "inspector",
    "client_secret": "",
    "client_version": "2.3.0",
    "completion_tokens": 9,
    "connect_seconds": 30,
    "connected_by": "ada",
    "connection": "tickets",
    "content": "It rains in Oslo.",
    "decided_by": "grace",
    "description": "Tells the weather of a city.",
    "detail": "",
    "digest": sent.DIGEST,
    "duration_ms": 12,
    "enabled": True,
    "error_code": "invalid_arguments",
    "expires_at": "2026-03-08T12:00:00Z",
    "failures": 0,
    "file_mb": 100,
    "finish_reason": "stop",
    "finished_at": "2026-03-01T12:00:00.012000Z",
    "first_sequence": 12,
    "function": "",
    "given": 0,
    "host": "hub-1",
    "id": 7,
    "idle_seconds": 300,
    "internal_code": "timeout",
    "invocation_id": _CALL,
    "key_id": _HASH[:8],
    "lag_rows": 0,
    "lag_seconds": 0,
    "last_sequence": 42,
    "max_concurrent": 8,
    "max_messages": 20,
    "max_notifications": 1000,
    "max_processes": 32,
    "max_response_bytes": 1048576,
    "memory_mb": 1024,
    "message": "city: 7 is not of type 'string'.",
    "message_id": "n-7-1@hub.example",
    "method": "tools/call",
    "milliseconds": 12,
    "model": "gpt-5",
    "name": "weather",
    "new": "1042",
    "new_root": _HASH,
    "old": "1000",
    "old_root": _HASH,
    "open_files": 256,
    "pid": 4242,
    "poll_ms": 1000,
    "position": 0,
    "prefix": "mcph_1a2b3c4d",
    "principal": "key:1",
    "priority": 0,
    "process_id": "3f2c8a10",
    "prompt_tokens": 212,
    "proposed_by": "user:2",
    "proposer_label": "ada",
    "protocol_version": "2025-11-25",
    "provider_used": "openai",
    "reason": sent.REASON,
    "refresh_seconds": 300,
    "refused_rows": 0,
    "resets_at": "2026-03-02T00:00:00Z",
    "rows": 41,
    "scopes": "read",
    "sequence": 42,
    "service": "",
    "session_id": _SESSION,
    "size": 1042,
    "slug": "tickets",
    "subject": "weather",
    "subject_id": "7",
    "subject_label": "weather",
    "subject_model": "mcptooldefinition",
    "subscription_name": "on call",
    "task_id": "Tq8sW2",
    "timeout_seconds": 30,
    "title": "Weather",
    "tool_digest": sent.DIGEST,
    "tool_name": "weather",
    "tool_version": "1",
    "total_tokens": 221,
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "tree_root": _HASH,
    "ttl_ms": 3600000,
    "unnamed_calls": 0,
    "url": "https://mcp.example/mcp",
    "username": "ada",
    "version": "1",
    "wanted_scopes": "read",
    "words": "",
}

_JSONL: tuple[Json, ...] = (
    {
        "checkpoint": None,
        "export": 1,
        "filters": {},
        "first_block": 0,
        "first_position": 0,
        "frontier": [],
        "keys": [],
        "origin": "hub.example",
        "previous": "",
        "through": {},
    },
    {"end": {"blocks": 0, "rows": 0}},
)
"""The export of a hub that has sealed nothing: its first and its last line."""

_OPERATIONS: Mapping[str, Mapping[str, Json]] = {
    "audit_export_retrieve": {
        "application/jsonl": "".join(json.dumps(line).decode() + "\n" for line in _JSONL),
        "text/csv": 'id,arguments,status,tool_name\r\n42,"{""city"":7}",error,weather\r\n',
    }
}


def add_examples(result: dict[str, Json], generator: object, request: object, public: bool) -> dict[str, Json]:
    """Put an example at every operation; a postprocessing hook, after all that change schemas."""
    requests, components, operations = dict(sent.REQUESTS), dict(_COMPONENTS), dict(_OPERATIONS)
    for part in declared(RestExamples):
        module = import_module(part.module)
        requests |= module.REQUESTS
        components |= module.COMPONENTS
        operations |= getattr(module, "OPERATIONS", {})
    examples.add_examples(
        result, Written(requests=requests, components=components, members=_MEMBERS, operations=operations)
    )
    return result
