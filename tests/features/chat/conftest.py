"""A hub with models behind it: two scripted providers in processes of their own, and who may ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest

from tests import operations, servers
from tests.features.chat import rows
from tests.features.chat.running import ScriptedProvider
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS

TOOLBOX = Path(servers.__file__).parent / "toolbox" / "bundle.json"
ENVIRONMENT = {
    "MCPHUB_APPS": "tests.toolbox",
    "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
    "MCPHUB_LIMITS": "chat_burst=100000, chat_max_content=100000",
    "MCPHUB_CHAT_APPROVAL": "never",
}
KEYS = {"openai": "sk-scripted-openai", "huawei_maas": "maas-scripted-key", "hasty": "sk-scripted-openai"}
"""What the hub sends to each provider, and nobody else shall see."""

MODELS = [
    ("openai", "scripted-large", {"is_default": True, "aliases": ["fast"]}),
    ("huawei_maas", "scripted-large", {}),
    ("openai", "scripted-plain", {"tools": False, "json_schema": True}),
]
"""Provider, model and flags; `scripted-plain` chooses tools by the JSON that it is forced into."""


def set_up(hub: Hub, providers: dict[str, ScriptedProvider]) -> str:
    """Set up providers and models of a hub, wait until it has them, and return a key that may ask them."""
    models = [each for each in MODELS if each[0] in providers]
    for slug, provider in providers.items():
        own = {name: fields for owner, name, fields in models if owner == slug}
        bounds = {"breaker_failures": 10000, "idle_seconds": 20}
        hub.operate(rows.provide, slug, slug, provider.url, provider.key, own, **bounds)
    key = hub.operate(operations.issue_key, "judge", ["tools:list", "tools:call", "chat"])
    headers = {"authorization": f"Bearer {key}"}

    def has_models() -> bool:
        answer = httpx2.get(f"{hub.url}/v1/models", headers=headers, timeout=PATIENCE_SECONDS)
        return answer.status_code == 200 and len(answer.json()["data"]) >= len(models)

    until(has_models)
    return key


@pytest.fixture(scope="package")
def providers() -> Iterator[dict[str, ScriptedProvider]]:
    """The same program twice, as two services whose errors the hub reads in two ways."""
    with ScriptedProvider(KEYS["openai"]) as first, ScriptedProvider(KEYS["huawei_maas"]) as second:
        yield {"openai": first, "huawei_maas": second}


@pytest.fixture(scope="package")
def chat_hub(
    tmp_path_factory: pytest.TempPathFactory, providers: dict[str, ScriptedProvider]
) -> Iterator[tuple[Hub, str]]:
    """A hub on SQLite with both providers, and the key that may ask."""
    folder = tmp_path_factory.mktemp("chat-hub")
    with Hub(folder, packs=["starter"], bundle=TOOLBOX, environment=ENVIRONMENT) as hub:
        yield hub, set_up(hub, providers)


@pytest.fixture(scope="package")
def hub(chat_hub: tuple[Hub, str]) -> Hub:
    return chat_hub[0]


@pytest.fixture(scope="package")
def chat_key(chat_hub: tuple[Hub, str]) -> str:
    return chat_hub[1]


@pytest.fixture(scope="package")
def raw(hub: Hub, chat_key: str) -> Iterator[httpx2.Client]:
    """HTTP to `/v1`, for the reader that forgives nothing."""
    headers = {"authorization": f"Bearer {chat_key}"}
    with httpx2.Client(base_url=f"{hub.url}/v1", headers=headers, timeout=PATIENCE_SECONDS) as made:
        yield made


@pytest.fixture(scope="package")
def client(hub: Hub, chat_key: str) -> Iterator[openai.OpenAI]:
    """The official client, which does not try again by itself."""
    with openai.OpenAI(base_url=f"{hub.url}/v1", api_key=chat_key, max_retries=0, timeout=PATIENCE_SECONDS) as made:
        yield made
