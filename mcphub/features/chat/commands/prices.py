"""`mcphub quota prices`: the prices of models, by which quotas count money."""

from __future__ import annotations

import argparse
import json
from typing import Any

from mcphub.commands.stop import migrated_database


def declare(verbs: Any) -> None:
    verb = verbs.add_parser("prices", help="say what models cost, and which have no price")
    verb.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        return _prices(options)


def _prices(options: argparse.Namespace) -> int:
    import time

    from mcphub.features.chat.providers.snapshot import Providers, load_prices
    from mcphub.features.quotas import amounts

    prices, now = load_prices(), time.time()
    models = Providers.load().models.values()
    found = {model.id: prices.of(model.provider.slug, model.name, now) for model in models}
    if options.json:
        told = [
            {
                "model": name,
                "price": price and price.name,
                "input_millionths": price and price.read,
                "cached_millionths": price and price.cached,
                "output_millionths": price and price.written,
            }
            for name, price in found.items()
        ]
        print(json.dumps({"currency": amounts.currency(), "models": told}, ensure_ascii=False, indent=1))
        return 0
    for name, price in found.items():
        if price is None:
            print(f"{name}: no price. Quotas of money count nothing of it.")
            continue
        read, cached, written = (
            amounts.said(each, amounts.MONEY) for each in (price.read, price.cached, price.written)
        )
        print(f"{name}: a million tokens cost {read} read, {cached} from the cache, {written} written ({price.name}).")
    if not found:
        print("There are no models.")
    return 0
