"""`mcphub embedding`: the state of embedding models, a trial of one, and vectors for all tools now."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from mcphub.commands.rows import print_json, print_line
from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcphub.features.embeddings.endpoint import EmbeddingModel
    from mcphub.features.embeddings.models import EmbeddingSource

_TRIAL = "Tool search"
_TRIAL_SECONDS = 30.0


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="list|test|refresh", required=True, title="verbs", dest="verb")
    listed = verbs.add_parser("list", help="one line a model: name, state, tools with vectors, tokens, cost, failure")
    listed.add_argument("--json", action="store_true", help="as JSON")
    tested = verbs.add_parser("test", help="send two words to a model; status 1 if it returns no vector")
    tested.add_argument("model", metavar="PROVIDER/MODEL")
    verbs.add_parser("refresh", help="ask the enabled model for the vectors of all tools that have none")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        if options.verb == "test":
            return _test(options.model)
        return _refresh() if options.verb == "refresh" else _list(as_json=options.json)


def _list(*, as_json: bool) -> int:
    from django.conf import settings

    from mcphub.features.embeddings.models import EmbeddingSource
    from mcphub.features.embeddings.rest import EmbeddingModelSerializer

    rows = EmbeddingSource.objects.select_related("provider", "use")
    found = [EmbeddingModelSerializer(row).data for row in rows]
    if as_json:
        return print_json(found)
    for each in found:
        state = "on" if each["enabled"] else "off"
        vectors = "-" if each["tools"] is None else f"{each['tools_with_vectors']} of {each['tools']} tools"
        cost = f"{each['cost_millionths'] / 1e6:.6f} {settings.MCPHUB_CURRENCY}"
        name = f"{each['provider']}/{each['model']}"
        print_line([name, state, vectors, f"{each['tokens']} tokens", cost, each["failure"]])
    if not found:
        print("There is no embedding model. Add one in the console under Catalogue, Embeddings.")
    return 0


def _test(name: str) -> int:
    from asgiref.sync import async_to_sync

    from mcphub.features.embeddings import cache, spend
    from mcphub.features.embeddings.endpoint import EmbeddingFailed

    model = cache.model_of(_named(name))
    began = time.monotonic()
    try:
        dimensions = async_to_sync(_tried)(model)
    except EmbeddingFailed as error:
        spend.note_failure(model, str(error))
        raise Stop(f"{name} returned no vector: {error}") from error
    took = (time.monotonic() - began) * 1000
    print(f"{name} returned a vector of {dimensions} numbers in {took:.0f} ms.")
    if took > model.timeout_seconds * 1000:
        print(f"A search waits {model.timeout_seconds:g} s for it, and would have gone by words alone.")
    return 0


async def _tried(model: EmbeddingModel) -> int:
    from mcphub.features.embeddings.metering import own_meter
    from tools_catalog.egress import guard as egress

    try:
        async with own_meter() as meter:
            [vector] = await meter.embed(model, [_TRIAL], _TRIAL_SECONDS, None)
    finally:
        await egress.close_shared_client()
    return vector.dimensions


def _refresh() -> int:
    from asgiref.sync import async_to_sync

    from mcphub.features.embeddings import cache, state
    from mcphub.features.embeddings.endpoint import EmbeddingFailed
    from mcphub.features.embeddings.sent import texts_of

    model = cache.enabled_model()
    if model is None:
        raise Stop("No embedding model is enabled. Enable one in the console under Catalogue, Embeddings.")
    texts = texts_of(model, state.current_catalog())
    wanted = cache.missing(texts)
    try:
        count = async_to_sync(_asked)(model, {digest: texts[digest] for digest in wanted})
    except EmbeddingFailed as error:
        raise Stop(f"{model.provider.slug}/{model.name} returned no vectors: {error}") from error
    had = len(texts) - len(wanted)
    print(f"{had + count} of {len(texts)} tools have vectors; {count} are new. A running hub takes them up by itself.")
    return 0


async def _asked(model: EmbeddingModel, texts: Mapping[str, str]) -> int:
    from mcphub.features.embeddings.metering import own_meter
    from mcphub.features.embeddings.service import embedded
    from tools_catalog.egress import guard as egress

    count = 0
    try:
        async with own_meter() as meter:
            async for fresh in embedded(model, texts, meter):
                count += len(fresh)
    finally:
        await egress.close_shared_client()
    return count


def _named(name: str) -> EmbeddingSource:
    from mcphub.features.embeddings.models import EmbeddingSource

    provider, _, model = name.partition("/")
    rows = EmbeddingSource.objects.filter(provider__slug=provider, model=model).select_related("provider")
    row = rows.order_by("-enabled", "pk").first()
    if row is None:
        raise Stop(f"There is no embedding model {name}. `mcphub embedding list` lists them.", status=2)
    return row
