"""The state of embedding models: over REST, by the command, and what the doctor finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from mcphub.cli import main
from mcphub.features.chat.models import ChatProvider
from mcphub.features.embeddings import cache, state
from mcphub.features.embeddings.models import CachedVector, EmbeddingSource, EmbeddingUse
from mcphub.features.embeddings.sent import texts_of
from mcphub.features.embeddings.vectors import Vector
from mcphub.features.quotas.models import McpQuota, QuotaCount
from tests.factories import McpToolDefinitionFactory, McpToolsetFactory
from tests.features.chat.embedding import FAILS
from tests.features.chat.running import ScriptedProvider
from tests.rest import by_key, by_person, error_of
from tools_catalog.catalog.snapshot import Catalog

pytestmark = pytest.mark.program
LIST = "/api/embedding-models/"


@pytest.fixture(scope="module")
def peer() -> Iterator[ScriptedProvider]:
    with ScriptedProvider("sk-embeds") as running:
        yield running


@pytest.fixture
def source(transactional_db: None, settings: Any, peer: ScriptedProvider) -> EmbeddingSource:
    settings.MCPHUB_EGRESS_ALLOW = ["127.0.0.1"]
    provider = ChatProvider(slug="near", kind="compatible", base_url=peer.url)
    provider.set_secret("sk-embeds")
    provider.save()
    for name in ("park_car", "greet"):
        McpToolDefinitionFactory(name=name)
    McpToolDefinitionFactory(name="unsearched")
    McpToolsetFactory(slug="all", mode="search", patterns="park_* greet")
    row: EmbeddingSource = EmbeddingSource.objects.create(provider=provider, model="words", enabled=True)
    return row


def has_one_vector(source: EmbeddingSource) -> None:
    digests = sorted(texts_of(cache.model_of(source), Catalog.load()))
    cache.save({digests[0]: Vector.of([1.0, 0.0])})


def test_rest_has_use_failure_and_coverage(source: EmbeddingSource) -> None:
    has_one_vector(source)
    EmbeddingUse.objects.create(source=source, tokens=40, cost_millionths=80, failure="Late.", failed_at=timezone.now())
    other = EmbeddingSource.objects.create(provider=source.provider, model="other")
    reader = by_key("catalog:write")
    on = reader.get(f"{LIST}{source.pk}/").json()
    assert (on["provider"], on["tools"], on["tools_with_vectors"], on["vectors"]) == ("near", 2, 1, 1)
    assert (on["tokens"], on["cost_millionths"], on["failure"]) == (40, 80, "Late.")
    off = reader.get(f"{LIST}{other.pk}/").json()
    assert (off["tools"], off["tools_with_vectors"], off["tokens"], off["failed_at"]) == (None, None, 0, None)
    listed = reader.get(f"{LIST}?enabled=true").json()
    assert [each["id"] for each in listed["results"]] == [source.pk]
    assert by_person("embeddings.view_embeddingsource").get(LIST).status_code == 200
    error_of(by_key("audit:read").get(LIST), 403, "forbidden")
    error_of(by_person().get(LIST), 403, "forbidden")


def test_the_command_shows_tests_and_refreshes(source: EmbeddingSource, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embedding", "test", "near/words"]) == 0
    assert "near/words returned a vector of" in capsys.readouterr().out
    assert not CachedVector.objects.exists()
    assert main(["embedding", "refresh"]) == 0
    assert "2 of 2 tools have vectors; 2 are new." in capsys.readouterr().out
    assert main(["embedding", "refresh"]) == 0
    assert "0 are new" in capsys.readouterr().out
    assert main(["embedding", "list"]) == 0
    assert "near/words\ton\t2 of 2 tools\t" in capsys.readouterr().out
    assert main(["embedding", "list", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert told["tokens"] > 0
    assert main(["embedding", "test", "near/none"]) == 2
    assert "`mcphub embedding list` lists them." in capsys.readouterr().err


def test_the_command_keeps_to_the_quotas_of_everybody(
    source: EmbeddingSource, peer: ScriptedProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    McpQuota.objects.create(name="whole", per="all", unit="tokens", period="month", hard_limit=1)
    assert main(["embedding", "test", "near/words"]) == 0
    assert QuotaCount.objects.get().used == EmbeddingUse.objects.get(source=source).tokens == 2
    peer.forget()
    assert main(["embedding", "refresh"]) == 1
    assert "near/words returned no vectors: The quota whole of 1 tokens a month is used up." in capsys.readouterr().err
    assert peer.about("words") == []
    assert main(["quota", "test", "--model", "near/words"]) == 1
    assert "The turn would be refused now." in capsys.readouterr().out


def test_the_command_reports_a_provider_that_fails(source: EmbeddingSource, capsys: pytest.CaptureFixture[str]) -> None:
    McpToolDefinitionFactory(name="park_bike", description=f"It {FAILS}.")
    assert main(["embedding", "refresh"]) == 1
    assert "near/words returned no vectors: The provider answered with HTTP status 500." in capsys.readouterr().err
    assert EmbeddingUse.objects.get(source=source).failure == "The provider answered with HTTP status 500."
    source.enabled = False
    source.save()
    assert main(["embedding", "refresh"]) == 1
    assert "No embedding model is enabled." in capsys.readouterr().err


def test_the_doctor_names_failures_missing_vectors_and_a_disabled_provider(source: EmbeddingSource) -> None:
    has_one_vector(source)
    (finding,) = state.check()
    assert "vectors of 1 of 2 tools" in finding.what
    EmbeddingUse.objects.create(source=source, failure="No answer within 0.8 s.", failed_at=timezone.now())
    failed, _ = state.check()
    assert "No answer within 0.8 s." in failed.what
    assert "mcphub embedding test near/words" in failed.mend
    ChatProvider.objects.update(enabled=False)
    (finding,) = state.check()
    assert "near, the provider of near/words, is disabled." in finding.what
    EmbeddingSource.objects.update(enabled=False)
    assert not list(state.check())
