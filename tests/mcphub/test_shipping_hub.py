"""A hub whose audit leaves the house: what its pages, probes, metrics and commands say, and kills in the middle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import forking
from tests.features.audit_export import rows
from tests.rigs import console, shipping
from tests.servers import Hub, free_port, postgres_database, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker

pytestmark = pytest.mark.program


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.rig)])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    environment, flags = dict(shipping.SETTINGS), []
    with ExitStack() as stack:
        if request.param == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
            flags = ["--workers", "2"]
        yield stack.enter_context(Hub(tmp_path / "hub", environment=environment, flags=flags))


def test_a_shipping_process_that_is_killed_loses_nothing(hub: Hub) -> None:
    found, figures = shipping.run(hub, 3, random.Random(5))
    assert {promise: why for promise, why in found.items() if why} == {}
    assert figures["calls"] > 0


def _metric(hub: Hub, name: str) -> dict[str, float]:
    headers = {"authorization": f"Bearer {hub.key}"}
    found = {}
    for line in httpx2.get(f"{hub.url}/metrics", headers=headers, timeout=PATIENCE_SECONDS).text.splitlines():
        if line.startswith(name + "{"):
            target, value = line.removeprefix(name + '{target="').split('"} ')
            found[target] = float(value)
    return found


def _is_ready(hub: Hub, words: str) -> bool:
    """Return whether the hub is ready, and what it reports of shipping begins so."""
    answer = httpx2.get(f"{hub.url}/ready", timeout=PATIENCE_SECONDS)
    return answer.status_code == 200 and answer.json()["parts"].get("shipping", "").startswith(words)


def test_a_target_that_is_away_is_said_everywhere_and_the_hub_stays_ready(hub: Hub) -> None:
    away = f"http://127.0.0.1:{free_port()}/hook"
    hub.operate(rows.add_target, name="siem", kind="webhook", address=away, secret="canary-secret")
    hub.operate(rows.add_target, name="files", kind="folder", address="files")
    with Speaker(hub.url, hub.key) as speaker:
        assert speaker.modern_call("echo", {"text": "one"}).status_code == 200
    # At one look; another may find a database that did not answer in its two seconds.
    until(lambda: _is_ready(hub, "behind: siem by "))
    for metric, target, least in (  # each worker looks in its own time
        ("lag_rows", "siem", 1),
        ("lag_seconds", "siem", 1),
        ("failures", "siem", 3),
        ("rows_total", "files", 1),
    ):
        until(lambda: _metric(hub, f"mcphub_audit_shipping_{metric}").get(target, 0) >= least)  # noqa: B023
    until(lambda: "The audit does not arrive at siem" in hub.log())

    listed = forking.run("mcphub.cli", "audit", "ship", env=hub.environment, timeout=PATIENCE_SECONDS)
    assert listed.returncode == 1, listed.stderr
    lines = {line.split()[1]: line for line in listed.stdout.splitlines()}
    assert lines["siem"].startswith("fails")
    assert lines["files"].startswith(("arrives", "waits"))
    tried = forking.run("mcphub.cli", "audit", "ship", "test", "siem", env=hub.environment, timeout=PATIENCE_SECONDS)
    assert (tried.returncode, "did not arrive at siem" in tried.stderr) == (1, True)
    assert hub.command("audit", "ship", "test", "files").startswith("The trial arrived")
    wrong = forking.run(
        "mcphub.cli",
        "audit",
        "ship",
        "rewind",
        "siem",
        "--block",
        "99999",
        env=hub.environment,
        timeout=PATIENCE_SECONDS,
    )
    assert (wrong.returncode, "no block 99998" in wrong.stderr) == (2, True)
    assert "again from block 0" in hub.command("audit", "ship", "rewind", "files", "--block", "0", "--reason", "lost")

    headers = {"authorization": f"Bearer {hub.key}"}
    answer = httpx2.get(f"{hub.url}/api/audit/shipping/siem/", headers=headers, timeout=PATIENCE_SECONDS)
    told: dict[str, Any] = answer.json()
    assert (told["position"], told["kind"], told["with_bodies"]) == (0, "webhook", False)
    assert told["failures"] >= 3
    assert "canary" not in answer.text
    verdicts = until(
        lambda: httpx2.get(f"{hub.url}/api/audit/verifications/", headers=headers, timeout=PATIENCE_SECONDS).json()[
            "results"
        ]
    )
    assert (verdicts[0]["way"], verdicts[0]["problem"]) == ("watch", "")

    cookies = hub.operate(console.log_in)
    page = httpx2.get(f"{hub.url}/admin/invocations/shippingtarget/", cookies=cookies, timeout=PATIENCE_SECONDS).text
    assert "Failing" in page
    assert "canary-secret" not in page
    page = httpx2.get(f"{hub.url}/admin/invocations/auditverification/", cookies=cookies, timeout=PATIENCE_SECONDS).text
    assert "As sealed" in page
