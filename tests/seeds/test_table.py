"""The table of what was asked is true: what its rows name is there, and their tests run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds.table import PAGE, ROOT, Row, complaints, misnumbered, read, said_totals, totals

ROWS = read(PAGE.read_text())
GOOD = (
    "| 000-01 | A call has a state. | `invocations/models.py::McpToolInvocation` | `McpToolInvocation.status=ok` "
    "| `tests/invocations/test_models.py::test_successful_invocation_keeps_to_the_rules` | done |"
)
"""A row that is right; the rows below are wrong by one word each."""
TEST_OF_A_SKIP = """
import pytest

def test_runs():
    pass

@pytest.mark.skip(reason="not today")
def test_is_skipped():
    pass

@pytest.mark.parametrize("value", [])
def test_has_nothing_to_show(value):
    pass
"""


def number(row: Row) -> str:
    return row.number


def collected(folder: Path, *files: str) -> dict[str, set[str]]:
    """Return the tests of files that a run of pytest collects: those that run, and those that something spares."""
    told = folder / "collected.json"
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "tests.seeds.collecting", "-p"]
    done = subprocess.run(
        [*words, "no:cacheprovider", *files],
        cwd=ROOT,
        env={**os.environ, "MCPHUB_TEST_COLLECTED": str(told)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert told.exists(), done.stdout + done.stderr
    return {name: set(tests) for name, tests in json.loads(told.read_text()).items()}


@pytest.mark.parametrize("row", ROWS, ids=number)
def test_the_row_is_true(row: Row) -> None:
    assert list(complaints(row)) == [], row.asked


def test_numbers_follow_each_other() -> None:
    assert list(misnumbered(ROWS)) == []


def test_the_summary_is_that_of_the_rows() -> None:
    assert said_totals(PAGE.read_text()) == totals(ROWS)


def test_nothing_stands_here_twice() -> None:
    asked = [(row.document, row.asked, row.where, row.names) for row in ROWS]
    assert sorted(each for each in set(asked) if asked.count(each) > 1) == []


@pytest.mark.program
def test_every_test_that_is_named_runs(tmp_path: Path) -> None:
    named = {test for row in ROWS for test in row.tests}
    found = collected(tmp_path, *sorted({test.partition("::")[0] for test in named}))
    assert sorted(named - found["runs"]) == []
    assert sorted(named & found["spared"]) == []


def test_a_row_that_is_right_passes() -> None:
    assert [list(complaints(row)) for row in read(GOOD)] == [[]]


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("invocations/models.py::", "invocations/nothing.py::", "there is no invocations/nothing.py::"),
        ("::McpToolInvocation`", "::McpToolNothing`", "there is no invocations/models.py::McpToolNothing"),
        ("`invocations/models.py::McpToolInvocation`", "-", "it stands nowhere"),
        ("Invocation.status=ok", "Invocation.status=fine", "the code has no McpToolInvocation.status=fine"),
        ("Invocation.status=ok", "Invocation.mood", "the code has no McpToolInvocation.mood"),
        ("McpToolInvocation.status", "McpToolNothing.status", "the code has no McpToolNothing.status=ok"),
        ("McpToolInvocation.status=ok", "error no_such_code", "the code has no error no_such_code"),
        ("McpToolInvocation.status=ok", "query-error NO", "the code has no query-error NO"),
        ("McpToolInvocation.status=ok", "frame no", "the code has no frame no"),
        ("McpToolInvocation.status=ok", "flag --no", "the code has no flag --no"),
        ("McpToolInvocation.status=ok", "setting MCPHUB_NO", "the code has no setting MCPHUB_NO"),
        ("McpToolInvocation.status=ok", "constraint no", "the code has no constraint no"),
        ("McpToolInvocation.status=ok", "address /no", "the code has no address /no"),
        ("McpToolInvocation.status=ok", "wish no", "'wish no' begins with none of"),
        ("to_the_rules", "to_no_rules", "there is no test tests/invocations/test_models.py::test_"),
        ("::test_successful", "::successful", "there is no test"),
        ("tests/invocations", "tests/elsewhere", "there is no test"),
        (
            " `tests/invocations/test_models.py::test_successful_invocation_keeps_to_the_rules` ",
            " - ",
            "no test shows it",
        ),
        ("| done |", "| departs Z99 |", "there is no decision Z99"),
        ("| done |", "| departs |", "what departs names its decision"),
        ("| done |", "| done A1 |", "what departs names its decision"),
        ("| done |", "| nearly |", "the state is 'nearly'"),
        ("A call has a state.", "", "nothing is asked"),
    ],
)
def test_a_row_that_is_wrong_is_told(right: str, wrong: str, complaint: str) -> None:
    assert right in GOOD
    [row] = read(GOOD.replace(right, wrong, 1))
    assert any(each.startswith(complaint) for each in complaints(row)), list(complaints(row))


def test_a_row_of_another_form_is_no_row() -> None:
    with pytest.raises(ValueError, match="5 cells"):
        read(GOOD.replace("| done |", "|"))


@pytest.mark.parametrize(
    ("numbers", "wrong"),
    [
        (["000-01", "000-02", "001-01"], []),
        (["000-01", "000-01"], ["000-01"]),
        (["000-01", "000-03"], ["000-03"]),
        (["000-1"], ["000-1"]),
        (["001-01", "000-01"], ["000-01"]),
        (["009-01"], ["009-01"]),
    ],
)
def test_a_number_out_of_its_place_is_told(numbers: list[str], wrong: list[str]) -> None:
    rows = read("\n".join(GOOD.replace("000-01", each) for each in numbers))
    assert list(misnumbered(rows)) == wrong


@pytest.mark.program
def test_a_test_that_does_not_run_shows_nothing(tmp_path: Path) -> None:
    file = tmp_path / "test_some.py"
    file.write_text(TEST_OF_A_SKIP)
    found = collected(tmp_path, str(file))
    assert {name: {test.rpartition("::")[2] for test in tests} for name, tests in found.items()} == {
        "runs": {"test_runs"},
        "spared": {"test_is_skipped", "test_has_nothing_to_show"},
    }
