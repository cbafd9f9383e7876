"""The search finds the tools that people mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.search import public_sets, quality
from tests.search.plain import PlainIndex
from tests.search.public_sets import Asked
from tools_catalog.catalog.searching import Index


@pytest.fixture(scope="module")
def index() -> Index:
    return Index(quality.tools())


@pytest.mark.parametrize("is_tuned", [True, False])
def test_of_plain_questions_seven_in_ten_find_their_tool_first_and_nine_among_five(
    index: Index, is_tuned: bool
) -> None:
    found = quality.measured(index, [each for each in quality.questions() if each.is_tuned is is_tuned])
    assert found.questions == 100
    assert found.top_1 >= 0.7
    assert found.top_5 >= 0.9


def test_the_name_or_title_of_a_tool_finds_it_first(index: Index) -> None:
    definitions = quality.tools()
    titles = [str(each["title"]) for each in definitions.values()]
    for name, definition in definitions.items():
        assert index.rank(name)[0] == name
        if titles.count(definition["title"]) == 1:
            assert index.rank(definition["title"])[0] == name


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_however_many_tools_a_question_needs_no_fewer_are_found_than_by_plain_bm25(index: Index, count: int) -> None:
    asked = _joined(count)
    found, least = public_sets.measured(index, asked), public_sets.measured(PlainIndex(quality.tools()), asked)
    assert found.recall >= least.recall
    assert found.first >= least.first


def test_of_questions_for_several_tools_most_find_them_within_ten(index: Index) -> None:
    assert public_sets.measured(index, _joined(3)).recall >= 0.75


def _joined(count: int) -> list[Asked]:
    """Return questions of several sentences, each of which wants a tool of its own."""
    single = quality.questions()
    at = range(0, len(single) - count + 1, count)
    groups = [single[first : first + count] for first in at]
    return [
        Asked(". Then ".join(each.words for each in group), frozenset(min(each.wanted) for each in group))
        for group in groups
    ]


def test_public_sets_are_read_as_their_authors_wrote_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path / "MetaTool/dataset/plugin_des.json", json.dumps({"Umbrella": "Rain today?", "Bank": "Money."}))
    _write(tmp_path / "MetaTool/dataset/data/all_clean_data.csv", "Query,Tool\nWill it rain?,Umbrella\nMoney,Bank\n")
    tool = {"api_name": "getRain", "api_description": "Rain of a day.", "parameters": {"day": {"type": "str"}}}
    _write(tmp_path / "Seal-Tools/Seal-Tools_Dataset/tool.jsonl", json.dumps(tool))
    called = {"query": "rain", "calling": [{"api": "getRain"}]}
    for part in ("dev", "test_in_domain", "test_out_domain"):
        _write(tmp_path / f"Seal-Tools/Seal-Tools_Dataset/{part}.jsonl", json.dumps(called))
    public_sets.show(tmp_path)
    lines = capsys.readouterr().out.splitlines()
    with_examples = [line for line in lines if "as examples" in line]
    assert all("first 1.000 (plain BM25 1.000)" in line for line in lines if line not in with_examples)
    assert all(line.endswith("first 1.000, within ten 1.000") for line in with_examples)
    assert {line.split(":")[0].rsplit(",", 1)[0] for line in lines} >= {"MetaTool", "Seal-Tools dev, one tool"}
    assert with_examples


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
