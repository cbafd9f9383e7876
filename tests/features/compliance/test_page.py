"""The page of controls: each control of the lists that it promises has a row, and each row names what shows it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent
PAGE = (ROOT / "docs/audit/compliance.md").read_text()
CONTROLS = [
    *(f"MCP{number:02}" for number in range(1, 11)),
    *(f"Article {number}" for number in (12, 14, 19, 26)),
    *("CC6.1", "CC6.2", "CC6.3", "CC6.6", "CC6.7", "CC7.2", "CC7.3", "CC8.1"),
    *("5.15", "5.16", "5.28", "5.33", "8.2", "8.5", "8.9", "8.11", "8.13", "8.15", "8.32"),
    *("ID.AM", "PR.AA", "PR.DS", "PR.PS", "DE.CM", "RS.AN", "RS.MI", "RC.RP"),
]
LINES = [line for line in PAGE.splitlines() if line.count("|") == 5 and "---" not in line]
ROWS = [line.strip("|").split("|") for line in LINES if "| Control |" not in line]


def test_each_control_has_one_row() -> None:
    assert [re.match(r"(Article \d+|[\w.]+)", row[0].strip())[1] for row in ROWS] == CONTROLS  # type: ignore[index]


def test_each_row_names_tests_that_exist_and_what_is_left() -> None:
    for control, does, shown, left in ROWS:
        tests = re.findall(r"`(tests/[\w./]+)`", shown)
        assert tests, control
        assert [test for test in tests if not (ROOT / test).exists()] == [], control
        assert does.strip(), control
        assert left.strip(), control
