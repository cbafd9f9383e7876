"""Kinds of misbehaving upstreams, and the bounds that a hub keeps with them."""

from __future__ import annotations

SECONDS = 1.5
"""The timeout of the tool that misbehaves."""

LIMITS = {"max_response_bytes": 300_000, "max_notifications": 300, "connect_seconds": 5}

EVERYWHERE = {
    "hang": {"timeout"},
    "wrong_id": {"timeout", "ok"},  # on a stream of its own an answer can only be to the one request
    "two_answers": {"ok"},
    "garbage": {"ok", "upstream_error", "result_invalid", "transport_error"},
    "invalid_utf8": {"ok", "timeout"},  # over HTTP it is read with replacement characters
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
    "deep": {"result_invalid"},
    "hang_before_headers": {"timeout"},
    "redirect": {"upstream_error", "transport_error"},
    "redirect_inside": {"upstream_error", "transport_error"},
    "status": {"upstream_error"},
    "session_lost": {"connection_failed"},
    "drip": {"timeout"},
    "compressed": {"transport_error"},
    "comments": {"timeout"},
    "html": {"upstream_error", "result_invalid"},
    "head": {"transport_error"},
}

OVER_STDIO = {
    "deaf": {"timeout"},
    "stderr": {"ok"},
    "prattle": {"transport_error"},
    "shut": {"timeout", "transport_error"},
    "mute": {"transport_error"},
}

OVER_SSE = {
    "hang_before_headers": {"timeout"},
    "redirect": {"transport_error"},
    "redirect_inside": {"transport_error"},
    "status": {"transport_error"},
    "session_lost": {"transport_error"},
    "drip": {"timeout"},
    "comments": {"timeout"},
}
"""Mode of the peer -> how the call may end."""

KINDS = {
    "bad_http": EVERYWHERE | OVER_HTTP,
    # There is no session to lose.
    "bad_modern": EVERYWHERE | OVER_HTTP | {"wrong_id": {"transport_error", "ok"}, "session_lost": {"upstream_error"}},
    "bad_sse": EVERYWHERE | OVER_SSE,
    "bad_stdio": EVERYWHERE | OVER_STDIO,
}
