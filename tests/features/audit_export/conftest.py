from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcphub.features.audit_export.delivering import TargetShipping
from mcphub.features.audit_export.models import ShippingTarget
from tests.invocations.chain.conftest import database, keys, log, sealer  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _folders(settings, tmp_path: Path) -> None:
    settings.MCPHUB_AUDIT_DIR = tmp_path / "audit"
    settings.MCPHUB_SHIPPING_DIR = tmp_path / "shipped"
    settings.MCPHUB_EGRESS_ALLOW = ["127.0.0.1", "localhost"]


@pytest.fixture
def target() -> Callable[..., ShippingTarget]:
    """Return a saved target; what is not said is as the form offers it."""

    def make(kind: str, address: str, secret: str = "", **more: Any) -> ShippingTarget:
        row = ShippingTarget(name=more.pop("name", kind), kind=kind, address=address, **more)
        row.set_secret(secret)
        row.full_clean()
        row.save()
        return row

    return make


@pytest.fixture
def said() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def ship(said: list[tuple[str, str]]) -> Iterator[Callable[[ShippingTarget], TargetShipping]]:
    """Return the shipping of a target, whose steps a test makes itself. All are closed at the end."""
    made: list[TargetShipping] = []

    def start(row: ShippingTarget) -> TargetShipping:
        made.append(TargetShipping(row, lambda level, sentence: said.append((level, sentence))))
        return made[-1]

    yield start
    for each in made:
        each.close()
