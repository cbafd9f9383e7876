"""Kinds of misbehaving upstreams, and the bounds that a hub keeps with them."""

from __future__ import annotations

SECONDS = 1.5
"""The timeout of the tool that misbehaves."""

LIMITS = {"max_response_bytes": 300_000, "max_notifications": 300, "connect_seconds": 5}

EVERYWHERE = {
    "hang": {"timeout"},
    "wrong_id": {"timeout"},  # an answer to nobody's request is skipped
    "two_answers": {"ok"},
    "garbage": {"ok", "upstream_error", "result_invalid", "transport_error"},
    "invalid_utf8": {"ok"},  # over HTTP it is read with replacement characters
    "not_a_result": {"result_invalid"},
    "deep": {"transport_error"},  # the stream is that of all answers, so it ends with one that is too large
    "flood": {"transport_error"},
    "huge": {"transport_error", "result_invalid"},
    "die": {"transport_error"},
    "error": {"upstream_error"},
    "error -31091": {"upstream_error"},  # the hub's own codes are its own: nobody else says that nothing was sent
    "error -31093": {"upstream_error"},
    "error -32000": {"upstream_error"},
    "stray_progress": {"ok"},
}

OVER_HTTP = {
    "wrong_id": {"transport_error"},  # the stream ends without an answer
    "deep": {"result_invalid"},
    "hang_before_headers": {"timeout"},
    "redirect": {"upstream_error", "transport_error"},
    "redirect_inside": {"upstream_error", "transport_error"},
    "status": {"upstream_error"},
    "session_lost": {"upstream_error"},  # by the new session, too, in which the call is repeated
    "drip": {"timeout"},
    "compressed": {"transport_error"},
    "comments": {"timeout"},
    "html": {"upstream_error", "result_invalid"},
    "head": {"transport_error"},
}

OVER_STDIO = {
    "invalid_utf8": {"result_invalid"},
    "deaf": {"timeout"},
    "stderr": {"ok"},
    "prattle": {"transport_error"},
    "shut": {"timeout", "transport_error"},
    "mute": {"transport_error"},
}

OVER_SSE = {
    "hang_before_headers": {"timeout"},
    "redirect": {"connection_failed"},  # the message was not taken, so the call was not made
    "redirect_inside": {"transport_error"},
    "status": {"transport_error"},
    "session_lost": {"connection_failed"},
    "drip": {"timeout"},
    "comments": {"timeout"},
}
"""Mode of the peer -> how the call may end."""

KINDS = {
    "bad_http": EVERYWHERE | OVER_HTTP,
    "bad_modern": EVERYWHERE | OVER_HTTP,
    "bad_sse": EVERYWHERE | OVER_SSE,
    "bad_stdio": EVERYWHERE | OVER_STDIO,
}

_ANY = {"timeout", "transport_error", "upstream_error", "result_invalid", "connection_failed"}
_SPELLINGS = [
    "text_ids",
    "float_ids",
    "arrays",
    "arrays_with_notes",
    "null_errors",
    "no_version",
    "marks",
    "answers_to_others",
    "heartbeats",
    "progress",
    "half_pairs",
    "more_members",
    "crlf",
]
_LISTS = [
    "php_schemas",
    "dotnet_schemas",
    "empty_schemas",
    "draft_3_schemas",
    "draft_4_schemas",
    "draft_7_schemas",
    "capabilities_array",
    "capabilities_true",
    "capabilities_none",
    "capabilities_empty",
    "capabilities_of_php",
    "names",
    "tools_by_number",
    "pages_repeat",
    "pages_empty",
    "pages_endless",
    "page_fails",
]
_EVENTS = ["ping_events", "keepalives", "comments", "blank_data", "named_events", "other_events"]
_HTTP = [
    "many_data_lines",
    "called_text",
    "type_in_capitals",
    "many_headers",
    "until_closed",
    "http_1_0",
    "drips",
    "chunks",
    "created",
    "continues",
    "notes_refused",
    "delete_500",
    "get_500",
    "get_page",
    "get_ends",
    "get_hangs",
    "redirected",
]
LASTING = {"deaf", "shut", "mute", "flood", "progress_flood", "drip", "newlines"}
"""Modes of which a stream that all calls share may bring more after the call has ended."""
HABITS = {
    "http": [
        *(_SPELLINGS + _LISTS + _EVENTS + _HTTP),
        *["capabilities_absent", "discover_401", "discover_403", "discover_404", "discover_429", "discover_500"],
        "discover_breaks_off",
    ],
    "modern": ["text_ids", "arrays", "ping_events", "chunks", "php_schemas", "capabilities_array"],
    "stdio": [*_SPELLINGS, "chatter", "blank_lines", "mark_first", "stderr", "names", "pages_endless"],
    "sse": [*_SPELLINGS, "ping_events", "comments", "keepalives", "whole_address", "answered_200", "pages_repeat"],
}
"""Way to speak -> what a server of `peers/odd.py` does in all its answers."""

_PARTS = {
    "nan": {"result_invalid"},
    "big": {"result_invalid"},
    "twice": {"result_invalid"},
    "no_utf8": {"result_invalid"},
    "cut": {"result_invalid", "transport_error"},
    "both": {"ok", "upstream_error", "result_invalid"},
    "neither": {"result_invalid"},
    "text_error": {"upstream_error", "result_invalid"},
    "float_code": {"upstream_error", "result_invalid"},
    "null_result": {"result_invalid"},
    "null_id": {"result_invalid", "ok"},
    "null_error": {"upstream_error", "result_invalid"},
    "progress_flood": {"transport_error", "ok", "timeout"},
}
_ODD_HTTP = {
    **_PARTS,
    **dict.fromkeys(
        [
            "limited",
            "away",
            "proxy",
            "octets",
            "nothing",
            "no_content",
            "accepted",
            "no_events",
            "loop",
            "switch",
            "no_http",
            "truncated",
            "truncated_chunks",
            "no_chunks",
            "negative",
            "two_lengths",
            "half_closed",
            "events_cut",
        ],
        _ANY,
    ),
    "rest": {"ok"},
}
_FORGET = {
    f"forget {how}": {"ok"}
    for how in [
        "404",
        "410",
        "typescript",
        "python",
        "not_initialized",
        "plain",
        "bare_400",
        "problem",
        "page_500",
        "error_500",
        "401",
        "bare_401",
        "403",
    ]
}
_FALLING = {"exit": {"transport_error"}, "exit_half": {"transport_error"}, "hang": {"timeout"}}
ODD_TURNS = {
    "bad_http": KINDS["bad_http"]
    | _ODD_HTTP
    | _FORGET
    | {"redirect": _ANY, "flood": {"transport_error", "timeout"}},  # to a path that has no such session
    "bad_modern": KINDS["bad_modern"] | _ODD_HTTP | {"flood": {"transport_error", "timeout"}},
    "bad_sse": KINDS["bad_sse"]
    | _PARTS
    | {
        "flood": {"transport_error", "timeout"},
        "no_utf8": {"ok"},  # an event stream is read with replacement characters
        "events_cut": {"transport_error", "connection_failed"},
    },
    "bad_stdio": KINDS["bad_stdio"]
    | _PARTS
    | {
        "flood": {"transport_error", "timeout"},  # whichever of its bounds comes first
        "exit": {"transport_error"},
        "half_line": {"transport_error"},
        "utf16": {"result_invalid", "timeout"},
        "newlines": _ANY | {"ok"},
    },
    "falling_http": _FALLING,
    "falling_modern": _FALLING,
}
"""Connection -> mode of `peers/odd.py` -> how the one call may end."""
