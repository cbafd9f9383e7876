"""The health of a hub none of whose models answers."""

from __future__ import annotations

from pathlib import Path

import httpx2

from tests import operations
from tests.features.chat import rows
from tests.servers import Hub, free_port, until
from tests.waiting import PATIENCE_SECONDS


def test_a_hub_whose_models_do_not_answer_is_unhealthy(tmp_path: Path) -> None:
    with Hub(tmp_path, environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}) as hub:
        url = f"{hub.url}/api/health"
        assert httpx2.get(url, timeout=PATIENCE_SECONDS).json()["components"]["providers"]["status"] == "not_configured"
        nobody, bounds = f"http://127.0.0.1:{free_port()}/v1", {"retries": 0, "breaker_failures": 1}
        hub.operate(rows.provide, "dead", "compatible", nobody, models={"gone": {"is_default": True}}, **bounds)
        key = hub.operate(operations.issue_key, "asker", ["chat"])
        with httpx2.Client(headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS) as client:
            until(lambda: client.get(f"{hub.url}/v1/models/dead/gone").status_code == 200)
            assert client.post(f"{hub.url}/api/query", json={"content": "Anybody?"}).status_code == 503
        sick = until(lambda: (found := httpx2.get(url, timeout=PATIENCE_SECONDS)).status_code == 503 and found).json()
        assert (sick["status"], sick["components"]["providers"]["status"]) == ("unhealthy", "unhealthy")
        assert sick["components"]["database"]["status"] == "healthy"
