"""/metrics: what Prometheus reads, for a key that may read the audit; how far sealing is behind among it."""

from __future__ import annotations

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.edits import edited, names
from tests.wire.speech import Speaker
from tests.wire.workers import ENOUGH, anew


def scrape(hub: Hub, key: str) -> httpx2.Response:
    return httpx2.get(
        f"{hub.url}/metrics", headers={"authorization": f"Bearer {key}"} if key else {}, timeout=PATIENCE_SECONDS
    )


def figures(hub: Hub) -> dict[str, float]:
    answer = scrape(hub, hub.key)
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {each.name: each.samples[0].value for each in families if each.samples}


def test_only_who_may_read_the_audit_is_told(hub: Hub, keys: dict[str, str]) -> None:
    assert [scrape(hub, key).status_code for key in ("", keys["wire"], hub.key)] == [401, 403, 200]


def test_process_ledger_and_sealing_are_told_on_both_databases(hub: Hub, pair: Hub) -> None:
    for each in (hub, pair):
        found = figures(each)
        assert (found["mcphub_up"], found["mcphub_database_up"], found["mcphub_ledger_failing"]) == (1, 1, 0)
        assert found["mcphub_tools"] > 3
        assert found["process_open_fds"] > 0
        # Whatever other tests record meanwhile: sealing catches up.
        until(lambda each=each: figures(each)["mcphub_audit_unsealed_rows"] == 0)


def test_each_worker_tells_by_which_change_it_works(pair: Hub) -> None:
    with edited(pair, "current_time"), Speaker(pair.url, pair.key) as speaker:
        pair.settle()
        for _ in range(ENOUGH):
            with anew(speaker) as one:
                assert "current_time" not in names(one.modern("tools/list"))
