"""The official Python client and a strict reader judge what the door says."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.chat import wire
from tests.chat.script import Step, say, script

PROVIDERS = ["openai", "huawei_maas"]


def body(*steps: Step, model: str = "openai/scripted-large", stream: bool = False, **more: Any) -> dict[str, Any]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": script(*steps)}], **more}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_answer_keeps_every_rule_of_the_wire(raw: httpx2.Client, provider: str, stream: bool) -> None:
    reading = wire.read(raw, body(say("Жёлтый 😀"), model=f"{provider}/scripted-large", stream=stream))
    assert reading.violations == []
    assert reading.text == "Жёлтый 😀"
