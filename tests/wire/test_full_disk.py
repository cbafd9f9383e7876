"""A hub whose disk is nearly full."""

from __future__ import annotations

from pathlib import Path

import httpx2

from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS
from tests.wire.conftest import TOOLBOX
from tests.wire.speech import Speaker, error_of


def test_calls_are_refused_before_the_database_fails_and_the_hub_says_why(tmp_path: Path) -> None:
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": f"min_free_disk_bytes={2**62}"}
    with Hub(tmp_path, environment=environment, **TOOLBOX) as hub, Speaker(hub.url, hub.key) as speaker:
        refused = speaker.modern_call("add", {"a": 1, "b": 2})
        assert refused.status_code == 503
        assert error_of(refused)["data"]["errorCode"] == "audit_unavailable"
        assert "MiB are free on the disk of the database" in refused.text
        ready = httpx2.get(f"{hub.url}/ready", timeout=PATIENCE_SECONDS)
        assert (ready.status_code, ready.json()["status"]) == (503, "unavailable")
        assert "calls need" in ready.json()["parts"]["disk"]
        assert speaker.modern("tools/list").status_code == 200
