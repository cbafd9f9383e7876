"""An auditor by a client that openapi-python-client generates from the document of a running hub, with no warning.

The four tasks: which calls failed today; one of them with who, which version, arguments, error, when and how long; all
calls of one tool by one caller, over every page; and the audit as a file that verifies without the hub.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from invocations.chain import verifier
from tests import operations
from tests.clients import install
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker

pytestmark = pytest.mark.rig

PROGRAM = Path(install.__file__).with_name("generated_auditor.py")
_SECONDS = 400


@pytest.fixture
def speaker(hub: Hub) -> Iterator[Speaker]:
    """Speaks by a key of its own: others' calls by the shared one may fill more than a page."""
    with Speaker(hub.url, hub.operate(operations.issue_key, "generated", ["tools:list", "tools:call"])) as made:
        yield made


def test_a_generated_client_does_the_four_tasks_of_an_auditor(hub: Hub, speaker: Speaker, tmp_path: Path) -> None:
    python = install.needed("openapi")
    session = speaker.open_session()
    for number in range(5):
        assert speaker.call(session, "echo", {"text": f"generated {number}"}).status_code == 200
    speaker.call(session, "add", {"a": "x", "b": 1}, id=4711)
    row = hub.rows(tool="add", status="error")[0]
    assert row["client_name"] == speaker.name
    caller = str(row["principal"])
    until(lambda: _is_sealed(hub, str(row["invocation_id"])))

    words = [str(python), str(PROGRAM), hub.url, str(tmp_path), "echo", caller]
    environment = {**os.environ, "KEY": hub.key}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)

    assert told["failed"][0] == row["invocation_id"]
    wanted = ("principal", "tool_name", "tool_version", "arguments", "error", "duration_ms", "request_id")
    whole = httpx2.get(
        f"{hub.url}/api/invocations/{row['invocation_id']}/", headers=_bearer(hub), timeout=PATIENCE_SECONDS
    ).json()
    assert {name: told["call"][name] for name in wanted} == {name: whole[name] for name in wanted}
    assert told["call"]["error"]["data"]["errorCode"] == "invalid_arguments"
    assert told["call"]["request_id"] == 4711

    assert told["pages"] >= 3
    expected = [each["sequence"] for each in hub.rows(tool="echo", principal=caller)]
    assert told["sequences"] == expected
    assert len(expected) == 5

    assert told["blocks"] >= 1
    assert str(row["invocation_id"]) in (tmp_path / "audit.jsonl").read_text()
    assert verifier.main([str(tmp_path / "audit.jsonl"), "--key", str(hub.data / "audit" / "public.keys")]) == 0


def _bearer(hub: Hub) -> dict[str, str]:
    return {"authorization": f"Bearer {hub.key}"}


def _is_sealed(hub: Hub, invocation_id: str) -> bool:
    answer = httpx2.get(f"{hub.url}/api/audit/proofs/{invocation_id}/", headers=_bearer(hub), timeout=PATIENCE_SECONDS)
    return answer.status_code == 200
