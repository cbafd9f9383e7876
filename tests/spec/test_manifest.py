"""The manifest of demands is whole: every MUST has a test that exists, every SHOULD a test or a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessions_app.protocol.revisions import ALL
from tests.spec import manifest
from tests.spec.manifest import AWAITED, BEFORE, KNOWN, LEVELS, TESTS, Demand, demands, exists

ROOT = TESTS.parent


def every(demand: Demand) -> str:
    return demand.id


def test_every_table_is_written_by_the_rules() -> None:
    for id, table, before in manifest.tables():
        assert set(table) <= KNOWN, id
        assert set(before) <= BEFORE, id
        assert len([level for level in LEVELS if level in table]) == 1, id


def test_no_demand_is_written_twice() -> None:
    said = [(each.level, each.says, each.since, each.link) for each in demands()]
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("demand", demands(), ids=every)
def test_the_demand_is_shown(demand: Demand) -> None:
    missing = [test for test in demand.tests if not exists(test)]
    assert not missing, f"{demand}\nThese tests do not exist: {missing}"
    if demand.awaits:
        assert demand.awaits in AWAITED, f"{demand}\nThe feature is there: name the tests that show it."
        return
    if demand.documented:
        file, words = demand.documented
        assert words in " ".join((ROOT / "docs" / file).read_text().split()), demand
        return
    if demand.is_must:
        assert demand.tests, f"{demand}\nA MUST needs a test."
        assert not demand.why, f"{demand}\nA MUST takes no excuse."
    else:
        assert demand.tests or demand.why, f"{demand}\nA SHOULD needs a test or a reason."


@pytest.mark.parametrize("demand", demands(), ids=every)
def test_the_demand_binds_known_revisions_and_links_to_one_of_them(demand: Demand) -> None:
    assert ALL.index(demand.since) <= ALL.index(demand.until)
    if not demand.link.startswith(manifest.SITE):  # an extension has its own time
        return
    revision = demand.link.removeprefix(manifest.SITE).partition("/")[0]
    assert demand.since <= revision <= demand.until, demand


def test_every_area_of_the_specification_has_its_file() -> None:
    assert {Path(file).stem for file in manifest.FILES} == {
        "asking",
        "cards",
        "event_streams",
        "events",
        "headers",
        "http",
        "lifecycle",
        "messages",
        "prompts",
        "resources",
        "security",
        "sessions",
        "skills",
        "stdio",
        "subscriptions",
        "tasks",
        "tools",
        "utilities",
        "versioning",
    }


def test_nothing_is_awaited_for_nothing() -> None:
    assert {each.awaits for each in demands()} - {""} == AWAITED
