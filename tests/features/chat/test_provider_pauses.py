"""How often a provider that fails is asked again, and after how long."""

from __future__ import annotations

import re
import uuid

import httpx2
import pytest
from django.core.exceptions import ValidationError

from mcphub.features.chat.models import ChatProvider
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import error, script
from tests.servers import Hub


def test_pauses_between_attempts_grow(hub: Hub, raw: httpx2.Client, providers: dict[str, ScriptedProvider]) -> None:
    mark = f"grow-{uuid.uuid4().hex[:12]}"
    before = len(hub.log())
    content = script(error("html_502"), prompt=mark)
    body = {"model": "openai/scripted-large", "messages": [{"role": "user", "content": content}]}
    answer = raw.post("/chat/completions", json=body)
    assert answer.status_code == 503
    assert [each["attempt"] for each in providers["openai"].about(mark)] == [1, 2, 3]
    first, second = map(float, re.findall(r"openai is asked again in ([\d.]+) s", hub.log()[before:]))
    assert first < second


@pytest.mark.parametrize("retries", [0, 3, 4])
def test_a_provider_is_asked_again_three_times_at_most(retries: int) -> None:
    row = ChatProvider(slug="p", base_url="https://api.example.org/v1", retries=retries)
    if retries <= 3:
        row.clean_fields()
        return
    with pytest.raises(ValidationError) as caught:
        row.clean_fields()
    assert list(caught.value.message_dict) == ["retries"]
