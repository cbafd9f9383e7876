"""What every test may rely on."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.utils import translation
from hypothesis import HealthCheck, Phase, settings

from tests import costs, hanging, in_process, left_out, programs, template
from tests.committed import Rows

HERE = Path(__file__).parent
OF_PROGRAMS = {"browser", "chat", "clients", "conformance", "rigs", "upstreams", "wire"}
"""Folders whose tests speak to programs that they start; elsewhere a test that starts one is marked `program`."""

SLOW = (
    "invocations/calls/test_nth_statement.py",
    "invocations/calls/test_audit_unavailable.py",
    "invocations/chain",
    "invocations/redaction/test_redaction.py",
    "invocations/test_list_walking.py",
    "mcphub/admin",
    "features/signin",
    "mcphub/test_garbage.py",
    "mcphub/test_accepting.py",
    "tools_catalog/test_bundle.py",
    "tools_catalog/test_egress_table.py",
    "tools_catalog/test_upstream_unreached.py",
)
"""Folders and files that are `slow` as a whole: pages that are drawn, statements that fail one after the other."""

# Properties assert behaviour, never time: a loaded machine must not fail them. A counterexample is shown as it was
# drawn, with the blob that repeats it: to shrink one of a state machine takes minutes, and is what `long` is for. In CI
# the same code draws the same examples each time.
for name, examples in {"default": 40, "fast": 15, "long": 100}.items():
    settings.register_profile(
        name,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[phase for phase in Phase if phase is not Phase.shrink or name == "long"],
        print_blob=True,
        derandomize=name != "long" and "CI" in os.environ,
    )
settings.load_profile("default")
costs.hash_quickly()
costs.share_certificates()
costs.share_static_files()
costs.keep_outer_contexts()
costs.collect_no_garbage()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "postgresql: about what only PostgreSQL has; left out on SQLite")
    config.addinivalue_line("markers", "program: starts a program; left out of `make test-fast`")
    config.addinivalue_line("markers", "slow: seconds of work, with many rows or pages; left out of `make test-fast`")
    config.addinivalue_line("markers", "rig: many processes, of `make rigs`")
    config.addinivalue_line(
        "markers", "long: a rig that `make rigs SHORT=1` leaves out, for its minutes or its kind; begins first"
    )
    config.addinivalue_line("markers", "heavy: needs a download of hundreds of MB; `make rigs SHORT=1` leaves it out")
    config.pluginmanager.register(programs.Watch())
    config.pluginmanager.register(hanging.Watch())
    config.pluginmanager.register(in_process)
    config.pluginmanager.register(left_out.Summary())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect garbage again, also in the process that only gives out tests."""
    try:
        return (yield)
    finally:
        costs.collect_garbage_seldom()


def pytest_collection_finish(session: pytest.Session) -> None:
    """What a process finds out once, by a program, is known before a test asks."""
    from tools_catalog.upstream.confinement.machine import this_machine

    this_machine()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not even import what the fast tests leave out."""
    is_fast = "not program" in config.option.markexpr
    return (
        True
        if is_fast and collection_path.parent in (HERE, HERE / "features") and collection_path.name in OF_PROGRAMS
        else None
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts programs by its folder; deselect, not skip, what only PostgreSQL has: SQLite could show nothing.

    What takes longest begins first: rigs that are `long`; then what waits for programs, folder by folder, so that a
    run ends with many short files of which no process gets a long last one.
    """
    for item in items:
        folder = item.path.relative_to(HERE).as_posix().removeprefix("features/").partition("/")[0]
        if folder in OF_PROGRAMS:
            item.add_marker("program")
        if item.path.relative_to(HERE).as_posix().startswith(SLOW):
            item.add_marker("slow")
        if folder == "browser":
            item.add_marker("rig")
    starting = {item.path for item in items if item.get_closest_marker("program")}
    items.sort(key=lambda item: item.path not in starting)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if "postgresql" in django_settings.DATABASES["default"]["ENGINE"]:
        return
    kept = [item for item in items if item.get_closest_marker("postgresql") is None]
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("postgresql")])
        items[:] = kept


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


@pytest.fixture(scope="module", autouse=True)
def _unregistered() -> Iterator[None]:
    """A tool that a module makes in a function of its own would be one of the host's in the next module."""
    from tools_catalog.backends import python

    yield
    for name in [name for name in python.registry if "<locals>" in name]:
        del python.registry[name]


@pytest.fixture(autouse=True)
def _default_language() -> None:
    """A request in another language leaves it active in its thread, for whatever runs there next."""
    translation.deactivate()
