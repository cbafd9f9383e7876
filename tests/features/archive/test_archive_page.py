"""The console's page of the archive: its months, a search, one call; who sees what, and each problem by its words."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from mcphub.features.archive import searching
from sessions_app.history.models import AuditEvent
from sessions_app.models import McpWorkspace
from tests.factories import UserFactory
from tests.features.archive.recording import hub_with_archive
from tests.features.archive.tampering import rewrite

pytestmark = [pytest.mark.usefixtures("transactional_db"), pytest.mark.program]

PAGE = "/admin/archive/"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("hub")
    hub_with_archive(home)
    return home


@pytest.fixture(autouse=True)
def _archive(settings: Any, home: Path) -> None:
    settings.MCPHUB_AUDIT_DIR = home / "audit"
    settings.MCPHUB_ARCHIVE_DIR = home / "audit" / "archive"


@pytest.fixture
def red(transactional_db: None) -> Iterator[Client]:
    """An auditor of the workspace `red`."""
    row = McpWorkspace.objects.create(slug="red")
    row.auditors.add(Group.objects.create(name="red auditors"))
    yield login("red auditors")
    row.auditors.clear()
    Group.objects.filter(name="red auditors").delete()


def login(group: str, **fields: Any) -> Client:
    person = UserFactory(**fields)
    person.groups.add(Group.objects.get(name=group))
    client = Client()
    client.force_login(person)
    return client


def shown(client: Client, query: str = "", status: int = 200) -> str:
    answer = client.get(PAGE + query)
    assert answer.status_code == status
    return answer.content.decode()


def position(tool: str, home: Path) -> int:
    from invocations.chain import service

    asked = searching.read_line(f"tool:{tool}")
    bounds = searching.Bounds(60, 100, 256)
    folder = home / "audit" / "archive"
    return searching.search(folder, service.keys().publics(), asked, most=1, bounds=bounds).calls[0].position


def reads() -> Any:
    return AuditEvent.objects.filter(kind="bodies.read")


def test_the_page_stands_on_the_map_and_names_the_months() -> None:
    page = shown(login("Auditor", is_staff=True))
    assert f'href="{PAGE}"' in page
    assert page.index(">2026-10<") < page.index(">2026-09<")
    assert "?q=time:2026-09" in page
    assert 'id="hub-archive-read"' not in page, "nothing is read before somebody searches"


def test_a_line_finds_calls_and_says_which_files_they_are_from() -> None:
    page = shown(login("Viewer", is_staff=True), "?q=tool:pay+-workspace:blue")
    assert page.count("pay v") == 3
    assert "2026-09/part-" in page
    assert "of 2026-10, 2026-09." in page
    assert "No call found" in shown(login("Viewer", is_staff=True), "?q=tool:nothing")


def test_what_a_line_cannot_ask_is_refused_with_the_keys_that_work() -> None:
    page = shown(login("Auditor", is_staff=True), "?q=colour:red")
    assert "Unknown key “colour”" in page
    assert 'id="hub-archive-read"' not in page


def test_keys_are_completed_without_those_that_an_archive_lacks() -> None:
    auditor = login("Auditor", is_staff=True)
    assert [each["text"] for each in auditor.get(f"{PAGE}complete/?text=sta").json()["offered"]] == ["status:"]
    assert auditor.get(f"{PAGE}complete/?text=incompl").json()["offered"] == []


def test_a_bound_of_what_is_read_leads_to_the_next_page(settings: Any) -> None:
    settings.MCPHUB_ARCHIVE_SEARCH_MIB = 0
    auditor = login("Auditor", is_staff=True)
    page = shown(auditor, "?q=")
    assert "older calls are on the next" in page
    older = page.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert "before=" in older
    assert 'rel="next"' in shown(auditor, older)


def test_a_call_is_shown_with_its_bodies_to_readers_and_on_record(home: Path) -> None:
    where = f"{PAGE}{position('echo', home)}/"
    hidden = login("Viewer", is_staff=True).get(where).content.decode()
    assert ("hi é" in hidden, "can&#x27;t read arguments" in hidden, reads().exists()) == (False, True, False)
    page = login("Auditor", is_staff=True).get(where).content.decode()
    assert "hi é" in page
    assert "The database no longer has this call." in page
    assert reads().get().subject_label == where


def test_a_search_in_bodies_needs_the_permission() -> None:
    line = '?q=arguments:$.city="Berlin"'
    assert "can&#x27;t search them" in shown(login("Viewer", is_staff=True), line)
    assert "2026-09/part-" in shown(login("Auditor", is_staff=True), line)
    assert "Berlin" not in str(reads().get().after)


def test_a_workspace_finds_its_own_calls_alone(red: Client, home: Path) -> None:
    page = shown(red, "?q=-tool:nothing")
    assert "Workspace red only." in page
    assert ("echo v" in page, "pay v" in page, "hub-archive-months" in page) == (True, False, False)
    assert red.get(f"{PAGE}{position('echo', home)}/").status_code == 200
    for tool in ("pay", "say"):
        assert red.get(f"{PAGE}{position(tool, home)}/").status_code == 404


def test_before_anything_is_archived_the_page_names_the_command(settings: Any, tmp_path: Path) -> None:
    settings.MCPHUB_ARCHIVE_DIR = tmp_path / "nowhere"
    page = shown(login("Auditor", is_staff=True), "?q=tool:pay")
    assert "mcphub audit archive" in page


def test_without_the_extra_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    auditor = login("Auditor", is_staff=True)
    for query in ("", "?q=tool:pay"):
        page = shown(auditor, query)
        assert "pip install &#x27;mcphub[archive]&#x27;" in page
        assert ">2026-10<" in page, "the months need no DuckDB"


def test_what_was_tampered_with_is_named_and_nothing_found(home: Path, settings: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(home / "audit" / "archive", tmp_path / "archive"))
    settings.MCPHUB_ARCHIVE_DIR = folder
    auditor = login("Auditor", is_staff=True)
    part = min((folder / "2026-09").glob("*.parquet"))
    rewrite(part, "SELECT * REPLACE ('other' AS tool_name)")
    assert f"The file 2026-09/{part.name} was changed" in shown(auditor, "?q=tool:pay", 409)
    shutil.rmtree(folder / "2026-09")
    assert "A month before 2026-10 is missing" in shown(auditor, status=409)


def test_more_searches_than_may_run_at_once_are_refused_for_now() -> None:
    running = [searching._room.acquire(blocking=False) for _ in range(searching._AT_ONCE)]
    try:
        assert "by others now" in shown(login("Auditor", is_staff=True), "?q=", 503)
    finally:
        for _ in running:
            searching._room.release()
