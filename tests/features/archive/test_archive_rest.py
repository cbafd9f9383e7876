"""GET /api/audit/archive/: who finds what in the archive, within bounds, and what is on record of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcphub.features.archive import searching
from sessions_app.history.models import AuditEvent
from sessions_app.models import ApiKey
from tests.features.archive.recording import hub_with_archive
from tests.features.archive.tampering import rewrite
from tests.mcphub.two_workspaces import person, workspace
from tests.rest import by_key, by_person, by_token, error_of

pytestmark = [pytest.mark.django_db, pytest.mark.program]

SEARCH = "/api/audit/archive/"
VIEW = "invocations.view_mcptoolinvocation"
BODIES = "invocations.read_bodies"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("hub")
    hub_with_archive(home)
    return home


@pytest.fixture(autouse=True)
def _archive(settings, home: Path) -> None:
    settings.MCPHUB_AUDIT_DIR = home / "audit"
    settings.MCPHUB_ARCHIVE_DIR = home / "audit" / "archive"


def found(client, line: str = "", **more: str) -> list[str]:
    answer = client.get(SEARCH, {"q": line, **more} if line else more)
    assert answer.status_code == 200, answer.content
    return [row["tool_name"] for row in answer.json()["results"]]


def reads():
    return AuditEvent.objects.filter(kind="bodies.read")


def test_a_line_finds_archived_calls_and_names_their_places():
    answer = by_key("audit:read").get(SEARCH, {"q": "tool:pay -workspace:blue"})
    (first, *others) = answer.json()["results"]
    assert (first["tool_name"], len(others)) == ("pay", 2)
    assert first["archived"]["month"] == "2026-09"
    assert first["archived"]["file"].startswith("part-")
    assert answer.json()["read"]["months"] == ["2026-10", "2026-09"]
    assert answer["Cache-Control"] == "private, no-store"


def test_pages_follow_each_other():
    client, seen, address = by_key("audit:read"), [], f"{SEARCH}?limit=3"
    for _ in range(3):
        told = client.get(address).json()
        seen += [row["sequence"] for row in told["results"]]
        address = told["next"]
    assert (len(seen), address) == (8, None)
    assert seen == sorted(seen, reverse=True)


def test_only_named_members_are_answered():
    (row,) = by_key("audit:read").get(SEARCH, {"q": "tool:late", "fields": "status,archived"}).json()["results"]
    assert set(row) == {"status", "archived"}
    assert not reads().exists()


def test_without_the_permission_nothing_is_found():
    error_of(by_person().get(SEARCH), 403, "forbidden")
    error_of(by_key("tools:list").get(SEARCH), 403, "forbidden")
    assert by_person(VIEW).get(SEARCH).status_code == 200


def test_bodies_are_for_who_may_read_them_and_on_record():
    hidden = by_person(VIEW).get(SEARCH, {"q": "tool:echo"}).json()["results"][0]
    assert (hidden["arguments"], hidden["bodies_hidden"]) == (None, True)
    assert not reads().exists()
    row = by_person(VIEW, BODIES).get(SEARCH, {"q": "tool:echo"}).json()["results"][0]
    assert row["arguments"] == {"text": "hi é"}
    after = reads().get().after
    assert (after["bodies"], after["rows"]) == (["arguments", "result", "error"], [row["sequence"]])
    assert after["query"] == {"q": "tool:echo"}


def test_a_search_in_bodies_needs_the_permission_and_the_value_is_not_recorded():
    line = 'arguments:$.city="Berlin" tool:pay'
    error = error_of(by_person(VIEW).get(SEARCH, {"q": line}), 403, "forbidden")
    assert error["details"] == {"permission": BODIES}
    assert found(by_person(VIEW, BODIES), line, fields="tool_name") == ["pay", "pay"]
    after = reads().get().after
    assert (after["searched"], after["bodies"]) == (["arguments"], [])
    assert after["query"]["q"] == "tool:pay"
    assert "Berlin" not in str(after)


@pytest.mark.parametrize(
    ("query", "field", "said"),
    [
        ({"q": "colour:red"}, "q", "Available keys: allowed_client, arguments,"),
        ({"limit": "501"}, "limit", "from 1 to 500"),
        ({"fields": "nothing"}, "fields", "No such member"),
        ({"q": ""}, "q", "It has no value"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_is(query: dict[str, str], field: str, said: str):
    error = error_of(by_key("audit:read").get(SEARCH, query), 400, "invalid_params")
    assert said in error["details"]["fields"][field][0]


def test_an_unknown_parameter_is_refused():
    error = error_of(by_key("audit:read").get(SEARCH, {"tool": "pay"}), 400, "invalid_params")
    assert error["details"] == {"unknown": ["tool"], "known": ["cursor", "fields", "limit", "q"]}


def test_a_cursor_that_is_none_is_no_page():
    error_of(by_key("audit:read").get(SEARCH, {"cursor": "x"}), 404, "not_found")


def test_people_and_keys_of_a_workspace_find_its_calls_alone():
    red, blue = workspace("red"), workspace("blue")
    for slug, row, tools in (("red", red, ["echo"]), ("blue", blue, ["pay"])):
        _, token = ApiKey.issue(f"{slug} key", scopes=["audit:read"], workspace=row)
        for client in (person(f"{slug} auditors"), by_token(token)):
            assert found(client) == tools
            assert found(client, "-tool:nothing") == tools
            assert found(client, "workspace:red,blue") == tools
            assert found(client, "-workspace:red") == ([] if slug == "red" else tools)
    assert len(found(by_key("audit:read"))) == 8
    error_of(person("red members").get(SEARCH), 403, "forbidden")


def test_a_tampered_file_is_named_and_nothing_found(home: Path, settings, tmp_path: Path):
    folder = Path(shutil.copytree(home / "audit" / "archive", tmp_path / "archive"))
    settings.MCPHUB_ARCHIVE_DIR = folder
    part = min((folder / "2026-09").glob("*.parquet"))
    rewrite(part, "SELECT * REPLACE ('other' AS tool_name)")
    error = error_of(by_key("audit:read").get(SEARCH), 409, "conflict")
    assert f"The file 2026-09/{part.name} was changed after it was archived" in error["message"]


def test_before_anything_is_archived_nothing_is_found(settings, tmp_path: Path):
    settings.MCPHUB_ARCHIVE_DIR = tmp_path / "nowhere"
    found = by_key("audit:read").get(SEARCH).json()
    assert (found["results"], found["next"]) == ([], None)


def test_a_bound_of_what_is_read_ends_a_page_early(settings):
    settings.MCPHUB_ARCHIVE_SEARCH_MIB = 0
    told = by_key("audit:read").get(SEARCH).json()
    assert (told["read"]["files"], told["read"]["is_cut"]) == (1, True)
    assert told["next"].startswith("http://testserver/api/audit/archive/?cursor=")


def test_more_searches_than_may_run_at_once_are_refused_for_now():
    running = [searching._room.acquire(blocking=False) for _ in range(searching._AT_ONCE)]
    try:
        assert error_of(by_key("audit:read").get(SEARCH), 503, "server_busy")["retryable"] is True
    finally:
        for _ in running:
            searching._room.release()
