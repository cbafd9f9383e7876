"""A text of strangers is no formula in a spreadsheet, however it begins."""

from __future__ import annotations

import pytest

from invocations.chain.exporting import for_spreadsheets

FORMULA = "=HYPERLINK(1)"


@pytest.mark.parametrize(
    "sign", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66", "\ufe62", "\u2212"]
)
@pytest.mark.parametrize(
    "before", ["", " ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u2060", "\u00ad", "\x01", "\u202e", "\t", "\u115f"]
)
def test_a_text_that_begins_a_formula_is_quoted(before: str, sign: str) -> None:
    assert for_spreadsheets(f"{before}{sign}1") == f"'{before}{sign}1"


@pytest.mark.parametrize("text", ["", "a=b", "1-2", "  plain", "\u200bplain", "key:2", "\u00e9"])
def test_another_text_stays(text: str) -> None:
    assert for_spreadsheets(text) == text
