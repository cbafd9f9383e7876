"""What every test may rely on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils import translation

from tests import template
from tests.committed import Rows


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "postgresql: about what only PostgreSQL has; left out on SQLite")
    config.addinivalue_line("markers", "rig: many processes, of `make rigs`; what is `long` begins first")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, not skip: on SQLite there is nothing that these tests could show. What takes longest begins first."""
    items.sort(key=lambda item: not any(mark.kwargs.get("long") for mark in item.iter_markers("rig")))
    if "postgresql" in settings.DATABASES["default"]["ENGINE"]:
        return
    kept = [item for item in items if item.get_closest_marker("postgresql") is None]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-policy", action="store_true", help="write who gets in where, instead of comparing")


@pytest.fixture(scope="session")
def django_db_keepdb(request: pytest.FixtureRequest, django_db_modify_db_settings: None) -> bool:
    """Begin with a copy of a migrated database; then there is nothing left to migrate."""
    told = connection.settings_dict
    if not told["ENGINE"].endswith("sqlite3") or request.config.getvalue("nomigrations"):
        return bool(request.config.getvalue("reuse_db"))
    template.copy_to(Path(told["TEST"]["NAME"]))
    return True


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Rows:
    with django_db_blocker.unblock():
        return Rows()


@pytest.fixture
def transactional_db(django_db_setup: Rows, django_db_blocker: Any) -> Iterator[None]:
    """Commit what the test writes; it begins and ends with what the migrations made, without their events."""
    with django_db_blocker.unblock():
        django_db_setup.empty()
        yield
        django_db_setup.empty()
        left = django_db_setup.left_over()
        connection.close()
        assert not left, f"rows of the migrations changed: {left}"


@pytest.fixture(scope="module", autouse=True)
def _left_as_found(django_db_setup: Rows, django_db_blocker: Any) -> Iterator[None]:
    """A row that a module leaves fails another one on another day, where nobody looks for the reason."""
    yield
    with django_db_blocker.unblock():
        left = django_db_setup.left_over()
    assert not left, f"rows left in the database: {left}"


@pytest.fixture(autouse=True)
def _default_language() -> None:
    """A request in another language leaves it active in its thread, for whatever runs there next."""
    translation.deactivate()
