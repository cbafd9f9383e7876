"""What every test may rely on."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.utils import translation


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "postgresql: about what only PostgreSQL has; left out on SQLite")
    config.addinivalue_line("markers", "rig: many processes, started and killed; `make rigs` runs it, `make test` not")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, not skip: on SQLite there is nothing that these tests could show."""
    if "postgresql" in settings.DATABASES["default"]["ENGINE"]:
        return
    kept = [item for item in items if item.get_closest_marker("postgresql") is None]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-policy", action="store_true", help="write who gets in where, instead of comparing")


@pytest.fixture(autouse=True)
def _default_language() -> None:
    """A request in another language leaves it active in its thread, for whatever runs there next."""
    translation.deactivate()
