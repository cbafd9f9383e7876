"""Lists in pages: every client that follows cursors sees the whole, from any worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import FIXTURES, Hub
from tests.wire.conftest import make_keys
from tests.wire.speech import Speaker, error_of

LISTS = (
    ("tools/list", "tools", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompts/list", "prompts", "name"),
)


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_LIMITS": "list_page_size=2"}
    folder = tmp_path_factory.mktemp("paged")
    with Hub(folder, flags=["--workers", "2"], packs=[FIXTURES], environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def key(paged: Hub) -> str:
    return make_keys(paged)["wire"]


def page(hub: Hub, key: str, method: str, session: str | None, cursor: str | None) -> Any:
    """One page, on a connection of its own, which either worker may get."""
    params = {} if cursor is None else {"cursor": cursor}
    with Speaker(hub.url, key) as one:
        answer = one.modern(method, params) if session is None else one.in_session(session, method, params)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


@pytest.mark.parametrize("version", [None, "2024-11-05", "2025-11-25"])
def test_cursors_lead_through_every_list(paged: Hub, key: str, version: str | None) -> None:
    with Speaker(paged.url, key) as speaker:
        session = speaker.open_session(version) if version else None
    for method, member, name in LISTS:
        seen, cursor, scopes = [], None, set()
        while True:
            result = page(paged, key, method, session, cursor)
            assert len(result[member]) <= 2
            seen += [entry[name] for entry in result[member]]
            scopes.add(result.get("cacheScope"))
            cursor = result.get("nextCursor")
            if cursor is None:
                break
        assert seen == sorted(set(seen))
        assert len(scopes) == 1
        if member != "resourceTemplates":
            assert len(seen) > 2


def test_a_cursor_of_another_list_is_refused(paged: Hub, key: str) -> None:
    cursor = page(paged, key, "tools/list", None, None)["nextCursor"]
    with Speaker(paged.url, key) as speaker:
        for method in ("prompts/list", "resources/list", "resources/templates/list"):
            answer = speaker.modern(method, {"cursor": cursor})
            assert (answer.status_code, error_of(answer)["code"]) == (400, -32602)
        session = speaker.open_session()
        assert error_of(speaker.in_session(session, "tools/list", {"cursor": cursor}))["code"] == -32602
        assert speaker.modern("tools/list", {"cursor": cursor}).status_code == 200
