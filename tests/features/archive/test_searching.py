"""The line that searches calls searches archived ones: the same calls, within bounds, and only as sealed."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from invocations.chain.keys import KeyFolder
from invocations.chain.verifier import Bad
from invocations.models import McpToolInvocation
from mcphub.environment import Signing
from mcphub.features.archive import files, manifests, searching
from mcphub.features.archive.duck import duck
from mcphub.features.archive.places import FolderPlace
from mcphub.features.archive.searching import ArchivePage, ArchiveProblem, Bounds, read_line, search
from sessions_app.workspaces.scope import NOWHERE, Scope
from tests.features.archive.recording import hub_with_archive
from tests.features.archive.tampering import rewrite
from tests.in_process import inside

pytestmark = pytest.mark.program

BOUNDS = Bounds(seconds=60, mib=100, memory_mib=256)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("hub")
    hub_with_archive(home)
    return home


@pytest.fixture
def keys(home: Path) -> KeyFolder:
    return KeyFolder(home / "audit", Signing(home / "audit" / "signing.key", 10))


@pytest.fixture
def folder(home: Path) -> Path:
    return home / "audit" / "archive"


@pytest.fixture
def own_folder(folder: Path, tmp_path: Path) -> Path:
    """A copy, to be tampered with."""
    return Path(shutil.copytree(folder, tmp_path / "archive"))


def found(folder: Path, keys, line: str = "", most: int = 50, **more: object) -> ArchivePage:
    return search(folder, keys.publics(), read_line(line), most=most, **{"bounds": BOUNDS, **more})


def names(page: ArchivePage) -> list[str]:
    return [each.call.tool_name for each in page.calls]


LINES = [
    "",
    "tool:pay",
    "tool:pay,echo",
    "-tool:pay",
    "-connection:weather",
    "status:error",
    "took:>500",
    "took:1..10",
    "retry:yes",
    "-retry:yes",
    "code:execution_error",
    "caller:key:2",
    "duplicate:yes",
    "duplicate:no",
    "chat:yes",
    "chat:no",
    "method:tools/call",
    "method:resources/read",
    "-method:tools/call",
    "target:city://Berlin",
    "request_id:7",
    "workspace:red",
    "-workspace:red",
    "interrupted:no",
    "jsonrpc_code:-31033",
    "min_occurrences:2",
    "guardrails:no",
    "time:2026-09",
    "time:2026-09-05",
    "time:2026-09-05..2026-09-06",
    "time:>2026-09-20",
    "time:<2026-09-06T00:00",
    "-time:2026-09-05",
    "tool:pay time:2026-09-05",
    'arguments:$.city="Berlin"',
    "arguments:$.count=3",
    "arguments:$.count=3.0",
    "arguments:$.count=4",
    "arguments:$.force=true",
    "arguments:$.none=null",
    '-arguments:$.city="Berlin"',
    'result:$.content[0].type="text"',
]


def test_a_line_finds_in_the_archive_what_it_finds_in_the_list(home: Path, folder: Path, keys) -> None:
    with inside(home):
        for line in LINES:
            listed = list(read_line(line).narrow(McpToolInvocation.objects.order_by("-id")))
            page = found(folder, keys, line, with_bodies=True)
            assert [told(each.call) for each in page.calls] == [told(row) for row in listed], line


def told(call: McpToolInvocation) -> dict[str, object]:
    return {each.attname: getattr(call, each.attname) for each in McpToolInvocation._meta.concrete_fields}


@pytest.mark.parametrize(
    ("words", "tools"), [("Ann", ["pay"]), ("a" * 32, ["echo"]), ("BERLIN", [""]), ("pay", ["pay"] * 4), ("x%", [])]
)
def test_free_words_find_an_id_or_a_part_of_a_name(folder: Path, keys, words: str, tools: list[str]) -> None:
    assert names(found(folder, keys, words)) == tools


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("incomplete:yes", "Unknown key “incomplete”. Available keys: allowed_client,"),
        ("colour:red", "Unknown key “colour”"),
        ("time:2026-13", "“2026-13” isn't accepted"),
        ("arguments:city", "Write a path and a JSON value"),
    ],
)
def test_what_a_line_cannot_ask_is_refused_with_what_it_can(line: str, said: str) -> None:
    with pytest.raises(ArchiveProblem, match=said.replace("[", r"\[")):
        read_line(line)


def test_a_call_names_its_month_file_position_and_hash(folder: Path, keys) -> None:
    (call,) = found(folder, keys, "tool:late").calls
    assert call.month == "2026-10"
    assert call.file in manifests.of_place(FolderPlace(folder), {key.key_id: key for key in keys.publics()})[1].files
    records = [each for each in files.read(folder / call.month / call.file) if each.get("row") == "invocation"]
    (record,) = [each for each in records if each["id"] == call.call.pk]
    assert (record["position"], record["hash"]) == (call.position, call.leaf)


def test_only_files_whose_calls_lie_in_the_time_are_read(folder: Path, keys) -> None:
    page = found(folder, keys, "time:2026-09-05")
    assert (page.months, page.files, names(page)) == (["2026-09"], 1, ["echo", "pay", "pay"])
    page = found(folder, keys, "time:2026-09-06")
    assert (page.months, page.files, names(page)) == (["2026-10"], 1, ["late"])
    assert found(folder, keys, "time:2025-01-01").files == 0


def test_a_page_ends_after_so_many_calls_and_the_next_one_goes_on(folder: Path, keys) -> None:
    whole = [each.call.pk for each in found(folder, keys).calls]
    pages, before = [], None
    while len(pages) < 10:
        page = found(folder, keys, most=3, before=before)
        pages.append([each.call.pk for each in page.calls])
        if (before := page.next) is None:
            break
    assert [len(each) for each in pages] == [3, 3, 2]
    assert [pk for page in pages for pk in page] == whole
    assert found(folder, keys, most=2).files == 1, "older files are not read for it"


def test_a_bound_of_size_ends_a_page_early_and_the_next_one_reads_on(folder: Path, keys) -> None:
    tight = Bounds(seconds=60, mib=0, memory_mib=256)
    seen, page = [], found(folder, keys, bounds=tight)
    for _ in range(2):
        assert (page.files, page.is_cut) == (1, True)
        seen += names(page)
        page = found(folder, keys, bounds=tight, before=page.next)
    assert (page.is_cut, page.next) == (False, None)
    assert seen + names(page) == names(found(folder, keys))


def test_a_search_that_takes_too_long_ends_with_a_sentence(folder: Path, keys) -> None:
    clock = iter([0.0, 1.0, 70.0])
    with pytest.raises(ArchiveProblem, match=r"longer than 60 seconds and was ended. Narrow it"):
        found(folder, keys, clock=lambda: next(clock))


def test_a_statement_of_duckdb_is_interrupted_at_the_deadline() -> None:
    deadline = searching.SearchDeadline(0.2, time.monotonic)
    too_long = pytest.raises(ArchiveProblem, match="longer than")
    with duck() as connection, too_long, searching.bounded_statement(connection, deadline):
        connection.execute("SELECT sum(hash(a.range + b.range)) FROM range(10000000) a, range(10000000) b")


def test_a_statement_that_needs_more_memory_is_ended_with_a_sentence() -> None:
    deadline = searching.SearchDeadline(600, time.monotonic)
    too_much = pytest.raises(ArchiveProblem, match="archive_search_memory_mib")
    with duck("64MiB") as connection, too_much, searching.bounded_statement(connection, deadline):
        connection.execute("SELECT list(range::VARCHAR || 'x') FROM range(50000000)").fetchall()


def test_no_more_searches_run_at_once_than_may(folder: Path, keys) -> None:
    running = [searching._room.acquire(blocking=False) for _ in range(searching._AT_ONCE)]
    try:
        with pytest.raises(searching.ArchiveBusy, match="by others now"):
            found(folder, keys)
    finally:
        for _ in running:
            searching._room.release()
    assert len(found(folder, keys).calls) == 8


def test_a_workspace_finds_its_own_calls_alone(folder: Path, keys) -> None:
    assert names(found(folder, keys, scope=Scope(1, "red"))) == ["echo"]
    assert names(found(folder, keys, scope=Scope(2, "blue"))) == ["pay"]
    assert names(found(folder, keys, "workspace:blue", scope=Scope(1, "red"))) == []
    assert names(found(folder, keys, "-tool:nothing", scope=Scope(1, "red"))) == ["echo"]
    assert names(found(folder, keys, "Ann", scope=Scope(1, "red"))) == []
    assert names(found(folder, keys, scope=NOWHERE)) == []


def test_bodies_are_read_only_where_they_are_asked_for(folder: Path, keys) -> None:
    hidden = found(folder, keys, "tool:echo").calls[0].call
    assert (hidden.arguments, hidden.result) == (None, None)
    assert found(folder, keys, "tool:echo", with_bodies=True).calls[0].call.arguments == {"text": "hi é"}


def _file(folder: Path, month: str) -> Path:
    return sorted((folder / month).glob("*.parquet"))[0]


def _edit(folder: Path) -> None:
    rewrite(_file(folder, "2026-09"), "SELECT * REPLACE ('other' AS tool_name)")


def _resign(folder: Path) -> None:
    path = folder / "2026-09" / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rows": 1}))


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (_edit, "The file 2026-09/part-.* was changed after it was archived"),
        (_resign, "The manifest of 2026-09 was changed after it was signed"),
        (lambda folder: _file(folder, "2026-09").unlink(), "The file 2026-09/part-.* is missing"),
        (lambda folder: shutil.rmtree(folder / "2026-09"), "A month before 2026-10 is missing"),
    ],
)
def test_what_was_tampered_with_is_named_and_nothing_is_found(own_folder: Path, keys, tamper, said: str) -> None:
    tamper(own_folder)
    with pytest.raises(Bad, match=said):
        found(own_folder, keys, "tool:pay")


def test_a_month_from_before_a_column_is_searched_too(own_folder: Path, keys) -> None:
    folder = own_folder
    part = _file(folder, "2026-10")
    rewrite(part, "SELECT * EXCLUDE (called_by)")
    values = json.loads((folder / "2026-10" / "manifest.json").read_text())
    values["files"][part.name] |= {"sha256": files.digest(part), "bytes": part.stat().st_size}
    manifests.save(folder / "2026-10", values, keys.signer())
    assert len(found(folder, keys).calls) == 8
    assert names(found(folder, keys, "called_by:x")) == []
    assert len(found(folder, keys, "-called_by:x").calls) == 8


def test_values_are_never_part_of_the_statement(folder: Path, keys) -> None:
    for line in ['tool:"\' OR true --"', '"\' OR true --"', 'workspace:"\') OR (true"']:
        assert names(found(folder, keys, line)) == []


def test_an_empty_folder_says_what_to_do(tmp_path: Path, keys) -> None:
    with pytest.raises(ArchiveProblem, match="mcphub audit archive"):
        found(tmp_path, keys)
