"""Server cards of upstreams, read from a server at an address that somebody pastes."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcphub.features.importers.configured import cards, sources
from mcphub.features.importers.configured.drafts import words_shown
from tests import template
from tests.in_process import run

CARD = "application/mcp-server-card+json"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"


class Site:
    """Answers paths with JSON; notes what each request accepts."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: dict[str, str | None] = {}
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked[self.path] = self.headers.get("accept")
                found = site.pages.get(self.path)
                self.send_response(404 if found is None else 200)
                self.end_headers()
                self.wfile.write(found if isinstance(found, bytes) else json.dumps(found).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def card(self, path: str, name: str = "org.example/weather", **more: Any) -> dict[str, Any]:
        remote = {"type": "streamable-http", "url": f"{self.url}{path}", **more}
        return {"$schema": SCHEMA, "name": name, "version": "1", "description": "Weather.", "remotes": [remote]}


@pytest.fixture
def site(settings: Any) -> Iterator[Site]:
    settings.MCPHUB_EGRESS_ALLOW = ["127.0.0.1"]
    made = Site()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def found(text: str) -> str:
    return asyncio.run(cards.found(text))


def addresses(text: str) -> dict[str, str]:
    return {draft.name: words_shown(draft, draft.url) for draft in sources.read(text).drafts}


def test_the_card_of_an_endpoint_brings_its_name_and_the_values_to_fill_in(site: Site) -> None:
    key = {"name": "X-Key", "isRequired": True, "isSecret": True, "description": "From your account."}
    site.pages["/mcp/server-card"] = site.card("/mcp", headers=[key])
    (draft,) = sources.read(found(f"{site.url}/mcp")).drafts
    assert (draft.name, draft.slug, words_shown(draft, draft.url)) == (
        "org.example/weather",
        "weather",
        f"{site.url}/mcp",
    )
    assert [(blank.name, blank.is_secret, blank.is_missing) for blank in draft.blanks] == [("X-Key", True, True)]
    assert (site.asked["/mcp/server-card"] or "").startswith(CARD)


def test_a_card_that_leads_to_another_origin_is_not_believed(site: Site) -> None:
    site.pages["/mcp/server-card"] = {
        **site.card("/mcp"),
        "remotes": [{"type": "streamable-http", "url": "https://elsewhere.example/mcp"}],
    }
    assert found(f"{site.url}/mcp") == f"{site.url}/mcp"


@pytest.mark.parametrize(
    "page",
    [None, b"<html>", b"\xff", {"error": "x"}, [1], {"$schema": SCHEMA, "name": "a/b"}, {"name": "a/b", "remotes": []}],
)
def test_without_a_card_the_address_alone_counts(site: Site, page: Any) -> None:
    site.pages["/mcp/server-card"] = page
    assert found(f"{site.url}/mcp") == f"{site.url}/mcp"


def test_a_host_alone_is_looked_up_in_its_catalogue(site: Site) -> None:
    site.pages["/a/server-card"] = site.card("/a", "org.example/a")
    inline = {**site.card("/b", "org.example/b")}
    inline["remotes"] = [{"type": "sse", "url": "https://elsewhere.example/sse"}]
    site.pages["/.well-known/ai-catalog.json"] = {
        "specVersion": "1.0",
        "entries": [
            {"identifier": "urn:air:x:mcp:a", "type": CARD, "url": f"{site.url}/a/server-card"},
            {"identifier": "urn:air:x:mcp:b", "mediaType": CARD, "data": inline},
            {"identifier": "urn:air:x:a2a", "type": "application/a2a-agent-card+json", "url": f"{site.url}/agent"},
            {"identifier": "urn:air:x:mcp:gone", "type": CARD, "url": f"{site.url}/gone"},
            {"identifier": "urn:air:x:mcp:odd", "type": CARD, "url": 7},
            "odd",
        ],
    }
    assert addresses(found(site.url)) == {
        "org.example/a": f"{site.url}/a",
        "org.example/b": "https://elsewhere.example/sse",
    }
    assert "/agent" not in site.asked


def test_a_large_catalogue_is_read_in_part(site: Site) -> None:
    entries = [{"identifier": f"urn:{n}", "type": CARD, "data": site.card(f"/{n}", f"x/s{n}")} for n in range(50)]
    site.pages["/.well-known/ai-catalog.json"] = {"specVersion": "1.0", "entries": entries}
    assert len(addresses(found(f"{site.url}/"))) == 20


@pytest.mark.parametrize(
    "text",
    ["npx -y server", "{}", "https://u:p@h.example/mcp", "https://h.example/mcp?key=1", "http://127.0.0.1:1/mcp"],
)
def test_nothing_else_is_looked_up(text: str) -> None:
    assert found(text) == text


def test_the_command_takes_no_server_of_a_catalogue_that_is_elsewhere(site: Site, tmp_path: Path) -> None:
    template.copy_to(tmp_path / "hub.sqlite3")

    def add() -> tuple[int, str, str]:
        allowed = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
        ended = run(tmp_path, "connection", "add", site.url, "--dry-run", **allowed)
        return ended.returncode, ended.stdout, ended.stderr

    card = site.card("/mcp")
    site.pages["/.well-known/ai-catalog.json"] = {"entries": [{"type": CARD, "data": card}]}
    assert f"reaches: {site.url}/mcp" in add()[1]
    card["remotes"][0]["url"] = "https://elsewhere.example/mcp"
    status, _, errors = add()
    assert status == 2
    assert "names https://elsewhere.example/mcp" in errors
