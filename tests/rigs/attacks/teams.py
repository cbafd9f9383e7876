"""Attacks from one team on another, and on what guards all of them."""

from __future__ import annotations

import base64
import json

from tests import workspace_operations
from tests.rigs.attacks.target import Attack, Target, need
from tests.servers import until
from tests.wire.speech import Speaker

_SECRET = "AKIA" + "IOSFODNN7EXAMPLE"


def read_by_tools(target: Target) -> str:
    """A key of one workspace asks the hub's own tools, REST and metrics for what happened."""
    keys = target.hub.operate(workspace_operations.make, ["red", "blue"])
    auditor = target.hub.operate(workspace_operations.auditor, "red")
    for slug in ("red", "blue"):
        with Speaker(target.hub.url, keys[slug]) as speaker:
            until(lambda name=slug: f"{name}.echo" in speaker.modern("tools/list").text)
            speaker.modern_call(f"{slug}.echo", {"text": "x"})
    seen = []
    with Speaker(target.hub.url, auditor) as speaker:
        until(lambda: "recent_invocations" in speaker.modern("tools/list").text)
        for name, arguments in (("recent_invocations", {"limit": 100}), ("tool_statistics", {})):
            said = until(lambda name=name, arguments=arguments: _own(speaker.modern_call(name, arguments).text))
            seen += [name] if "blue" in said else []
    with target.rest(auditor) as client:
        rest = client.get("/api/invocations/?limit=100").text
        metrics = client.get("/metrics")
    need(not seen and "blue" not in rest, f"calls of blue are shown by {seen or 'REST'}")
    need("blue" not in metrics.text, "metrics name the tools of blue")
    return f"two tools and REST show calls of red alone; metrics were answered with {metrics.status_code}"


def _own(said: str) -> str:
    return said if "red.echo" in said else ""


def hidden_in_files(target: Target) -> str:
    """A secret goes past a guardrail in a member that says it is a file."""
    target.hub.operate(workspace_operations.refuse_secrets, "files-guard")
    forms = [
        {"data": _SECRET, "mimeType": "text/plain"},
        {"blob": f"words {_SECRET}", "mimeType": None},
        {"data": base64.b64encode(f"key={_SECRET}".encode()).decode(), "mimeType": "image/png"},
    ]
    key = target.key("hides", "tools:list", "tools:call")
    try:
        with Speaker(target.hub.url, key) as speaker:
            until(lambda: "guardrail" in speaker.modern_call("echo", {"text": _SECRET}).text)
            went = [
                form
                for form in forms
                if "guardrail" not in speaker.modern_call("echo", {"text": json.dumps(form)}).text
            ]
    finally:
        target.hub.operate(workspace_operations.allow_secrets, "files-guard")
    need(not went, f"{len(went)} of {len(forms)} went out: {went}")
    return f"{len(forms)} of {len(forms)} forms were refused"


ATTACKS = [
    Attack("12", "a key of one team reads calls of another by tools or metrics", read_by_tools),
    Attack("13", "a secret passes a guardrail as a file", hidden_in_files),
]
