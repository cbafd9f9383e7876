"""A real model behind the hub: it chooses a tool by the JSON that it is held to, and the audit has the call.

SmolLM2 with 135 million parameters, under llama.cpp. What it says is its own affair: nothing here asserts its words.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests import operations
from tests.clients import install
from tests.features.chat import rows, wire
from tests.features.chat.conftest import ENVIRONMENT, TOOLBOX
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.rig, pytest.mark.heavy]

HERE = Path(__file__).parent
TOOL = {
    "type": "mcp",
    "server_label": "hub",
    "server_url": "hub",
    "allowed_tools": ["echo", "add"],
    "require_approval": "never",
}


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    command = [str(install.needed("llama")), str(HERE / "model_server.py"), str(install.needed("model"))]
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line.startswith("ready "), line
        yield line.split()[1]
    finally:
        running.communicate("")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, llama: str) -> Iterator[tuple[Hub, str]]:
    folder = tmp_path_factory.mktemp("real")
    environment = {
        **ENVIRONMENT,
        "MCPHUB_LIMITS": f"{ENVIRONMENT['MCPHUB_LIMITS']}, chat_turn_seconds=600, chat_max_rounds=2",
    }
    with Hub(folder, packs=["starter"], bundle=TOOLBOX, environment=environment) as hub:
        model = {"smollm2": {"is_default": True, "tools": False, "json_schema": True}}
        times = {"first_byte_seconds": 300, "idle_seconds": 300}
        hub.operate(rows.provide, "llama", "compatible", f"{llama}/v1", models=model, **times)
        key = hub.operate(operations.issue_key, "real", ["tools:list", "tools:call", "chat", "audit:read"])
        headers = {"authorization": f"Bearer {key}"}
        until(
            lambda: (
                httpx2.get(f"{hub.url}/v1/models/default", headers=headers, timeout=PATIENCE_SECONDS).status_code == 200
            )
        )
        yield hub, key


@pytest.fixture(scope="module")
def model(real: tuple[Hub, str]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{real[0].url}/v1", api_key=real[1], max_retries=0, timeout=600) as client:
        yield client


def test_it_talks_and_streams(real: tuple[Hub, str]) -> None:
    headers = {"authorization": f"Bearer {real[1]}"}
    with httpx2.Client(base_url=f"{real[0].url}/v1", headers=headers, timeout=600) as raw:
        for stream in (False, True):
            body: dict[str, Any] = {
                "model": "llama/smollm2",
                "max_tokens": 24,
                "temperature": 0,
                "stream": stream,
                "messages": [{"role": "user", "content": "Say hello in one short sentence."}],
            }
            if stream:
                body["stream_options"] = {"include_usage": True}
            reading = wire.read(raw, body)
            assert reading.violations == []
            assert reading.usage is not None
            assert reading.usage["completion_tokens"] >= 1


@pytest.mark.parametrize("stream", [False, True])
def test_it_chooses_a_tool_and_the_audit_has_the_call(
    real: tuple[Hub, str], model: openai.OpenAI, stream: bool
) -> None:
    hub, _ = real
    asked: dict[str, Any] = {
        "model": "llama/smollm2",
        "temperature": 0,
        "max_tokens": 200,
        "tool_choice": "required",
        "tools": [TOOL],
        "messages": [{"role": "user", "content": "What is 17 plus 25? Use the tool add."}],
    }
    turn = ""
    before = {row["invocation_id"] for row in hub.rows()}
    if stream:
        chunks = list(model.chat.completions.create(**asked, stream=True))
        assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] != []
    else:
        answer = model.chat.completions.create(**asked)
        assert answer.choices[0].finish_reason in ("stop", "length")
        assert answer.x_mcp["invocations"] != []  # type: ignore[attr-defined]
        turn = answer.x_mcp["turn_id"]  # type: ignore[attr-defined]
    made = [row for row in hub.rows() if row["invocation_id"] not in before]
    assert made != []
    assert {row["tool_name"] for row in made} <= {"add", "echo"}
    assert {row["transport"] for row in made} == {"chat"}
    assert {row["turn_id"] for row in made} == {turn or made[0]["turn_id"]} != {""}
    # The grammar holds the model to the schema of the tool that it chose.
    assert all(row["error_code"] != "invalid_arguments" for row in made)
