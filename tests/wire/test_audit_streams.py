"""The audit as it grows, and as a file, over REST: nothing is missed on any worker, and what is read is on record."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from invocations.chain import verifier
from tests import operations
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker

STREAM = "/api/invocations/stream/"
_COPY = """
INSERT INTO invocations_mcptoolinvocation ({columns}) SELECT {values} FROM invocations_mcptoolinvocation
ORDER BY id DESC LIMIT 1 RETURNING id
"""


@contextlib.contextmanager
def stream(hub: Hub, *, after: int | None = None, key: str = "", **query: str) -> Iterator[Iterator[dict[str, Any]]]:
    """Return the calls that a live stream tells; it has begun when this gives it."""
    headers = {"authorization": f"Bearer {key or hub.key}", "accept": "text/event-stream"}
    if after is not None:
        headers["last-event-id"] = str(after)
    with (
        httpx2.Client(base_url=hub.url, timeout=PATIENCE_SECONDS) as client,
        client.stream("GET", STREAM, params=query, headers=headers) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        lines = answer.iter_lines()
        assert next(lines) == "retry: 2000"
        yield (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))


def calls(hub: Hub, number: int, text: str) -> list[str]:
    made = []
    for _ in range(number):
        # A connection each, so that two workers share them.
        with Speaker(hub.url, hub.key) as speaker:
            answer = speaker.modern_call("echo", {"text": text}).json()
        made.append(answer["result"]["_meta"]["mcphub/invocationId"])
    return made


def take(told: Iterator[dict[str, Any]], ids: list[str]) -> list[dict[str, Any]]:
    """Read on until each of the calls was told."""
    rows: list[dict[str, Any]] = []
    while not set(ids) <= {row["invocation_id"] for row in rows}:
        rows.append(next(told))
    return [row for row in rows if row["invocation_id"] in ids]


def test_every_call_is_told_once_and_in_order_also_to_who_comes_back(pair: Hub) -> None:
    with stream(pair) as told:
        made = calls(pair, 8, "live")
        rows = take(told, made)
    sequences = [row["sequence"] for row in rows]
    assert sequences == sorted(set(sequences))
    assert "arguments" not in rows[0]
    late = calls(pair, 2, "late")
    with stream(pair, after=sequences[3], tool="echo", fields="sequence,invocation_id,arguments") as told:
        again = take(told, [*made[4:], *late])
    assert len(again) == 6
    assert again[-1]["arguments"] == {"text": "late"}


def test_call_that_commits_late_is_not_passed_over(pair: Hub) -> None:
    calls(pair, 1, "before")
    address = pair.environment["MCPHUB_DATABASE_URL"]
    with psycopg.connect(address) as connection, stream(pair) as told:
        named = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'invocations_mcptoolinvocation'"
        ).fetchall()
        columns = [name for (name,) in named if name != "id"]
        values = [f"'late-{pair.port}'" if name == "invocation_id" else name for name in columns]
        statement = _COPY.format(columns=", ".join(columns), values=", ".join(values))
        (low,) = connection.execute(statement.encode()).fetchone() or (0,)
        made = calls(pair, 3, "after")
        connection.commit()
        rows = take(told, [f"late-{pair.port}", *made])
    assert [row["sequence"] for row in rows] == sorted(row["sequence"] for row in rows)
    assert rows[0]["sequence"] == low


def test_stream_ends_with_the_right_to_it(hub: Hub) -> None:
    keys = {name: hub.operate(operations.issue_key, name, ["audit:read"]) for name in ("revoked", "narrowed")}
    none = {"tool": "nowhere"}  # a call of the test before may be recorded only now
    with stream(hub, key=keys["revoked"], **none) as told, stream(hub, key=keys["narrowed"], **none) as also:
        hub.operate(operations.revoke_key, "revoked")
        hub.operate(operations.update, "sessions_app.ApiKey", {"name": "narrowed"}, scopes=["tools:list"])
        assert list(told) == list(also) == []


def test_stream_says_what_is_wrong_with_the_request(hub: Hub, keys: dict[str, str]) -> None:
    def ask(key: str, headers: dict[str, str] | None = None, **query: str) -> int:
        headers = {"authorization": f"Bearer {key}", "accept": "text/event-stream", **(headers or {})}
        return httpx2.get(hub.url + STREAM, params=query, headers=headers, timeout=PATIENCE_SECONDS).status_code

    assert ask(hub.key, {"last-event-id": "x"}) == 400
    assert ask(hub.key, started_after="2026-01-01") == 400
    assert ask(hub.key, unknown="1") == 400
    assert ask(keys["wire"]) == 403


def test_export_verifies_and_is_on_record(hub: Hub, tmp_path: Path) -> None:
    made = calls(hub, 3, "exported")
    headers = {"authorization": f"Bearer {hub.key}"}

    def get(**query: str) -> httpx2.Response:
        return httpx2.get(f"{hub.url}/api/audit/export/", params=query, headers=headers, timeout=PATIENCE_SECONDS)

    def whole() -> str:
        text = get(tool="echo").text
        return text if all(each in text for each in made) else ""

    file = tmp_path / "audit.jsonl"
    file.write_text(until(whole))
    assert verifier.main([str(file), "--key", str(hub.data / "audit" / "public.keys")]) == 0
    table = get(format="csv", tool="echo")
    assert table.headers["content-type"].startswith("text/csv")
    assert made[0] in table.text
    assert get(format="xml").status_code == get(first_block="-1").status_code == get(more="1").status_code == 400
    assert get(first_block="999999").status_code == 409
    found = httpx2.get(
        f"{hub.url}/api/audit/events/", params={"kind": "audit.exported"}, headers=headers, timeout=PATIENCE_SECONDS
    ).json()
    assert found["results"][0]["after"] == {"format": "csv", "filters": {"tool": "echo"}, "first_block": 0}
