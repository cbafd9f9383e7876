"""The port of its own for metrics and probes: whoever may connect to it needs no key, and it serves nothing else.

A network policy controls access by port. Host is not checked: Prometheus and the kubelet come by a pod's address.
"""

from __future__ import annotations

from typing import Any

from mcphub.process import metrics, runtime
from mcphub.transports.health import readiness
from sessions_app.protocol import json

_PATHS = ("/metrics", "/live", "/ready")


async def application(scope: Any, receive: Any, send: Any) -> None:
    status, kind, body = 404, b"text/plain", f"This port serves {', '.join(_PATHS)}.\n".encode()
    path, method = scope["path"].rstrip("/"), scope["method"]
    if path in _PATHS and method not in ("GET", "HEAD"):
        status, body = 405, b"Use GET or HEAD here.\n"
    elif path == "/live":
        status, kind, body = 200, b"application/json", b'{"status":"ok"}'
    elif path in _PATHS:
        hub = runtime.current() or await runtime.ensure()
        if path == "/metrics":
            status, kind, body = 200, metrics.CONTENT_TYPE, await metrics.exposition(hub)
        else:
            is_fine, said = await readiness(hub)
            status, kind, body = 200 if is_fine else 503, b"application/json", json.dumps(said)
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})
