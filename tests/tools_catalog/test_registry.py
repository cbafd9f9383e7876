"""The hub as a registry that clients read, and registries that the hub reads: over a real server of HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from mcphub.features.importers.configured import registry, sources
from mcphub.features.importers.documents import DocumentRefused
from tests.factories import LaunchProfileFactory, McpConnectionFactory
from tests.features.importers import configurations as told
from tests.rest import by_key, by_person, error_of
from tools_catalog.models import McpToolset

ADDRESS = "/v0.1/servers"


def names(client: Client, query: str = "") -> list[str]:
    return [each["server"]["name"] for each in client.get(f"{ADDRESS}{query}").json()["servers"]]


@pytest.fixture
def shelf(db: Any) -> Group:
    group = Group.objects.create(name="team")
    McpToolset.objects.create(slug="open", title="Open", description="For everybody.")
    McpToolset.objects.create(slug="kept").groups.set([group])
    McpToolset.objects.create(slug="off", enabled=False)
    McpConnectionFactory(slug="far", url="https://far.example/mcp", headers={"X-Key": "{secret:FAR}"})
    McpConnectionFactory(slug="near", url="https://near.example/mcp?tenant=7")
    McpConnectionFactory(slug="child", transport="stdio", url="", profile=LaunchProfileFactory())
    return group


def test_without_a_key_nobody_reads_it_unless_it_is_public(shelf: Group, settings: Any) -> None:
    error_of(Client().get(ADDRESS), 401, "unauthorized")
    error_of(by_key("tools:call").get(ADDRESS), 403, "forbidden")
    settings.MCPHUB_PUBLIC_REGISTRY = True
    found = Client().get(ADDRESS)
    assert found["Access-Control-Allow-Origin"] == "*"
    assert names(Client()) == [
        "localhost/hub",
        "localhost/toolset.open",
        "localhost/upstream.child",
        "localhost/upstream.far",
        "localhost/upstream.near",
    ]
    assert "far.example" not in found.content.decode()


def test_a_key_sees_the_toolsets_of_its_groups(shelf: Group, settings: Any) -> None:
    assert "localhost/toolset.kept" not in names(by_key("tools:list"))
    assert "localhost/toolset.kept" in names(by_key("tools:list", groups=(shelf,)))
    settings.MCPHUB_PUBLIC_URL = "https://hub.example.org"
    found = by_key("tools:list").get(f"{ADDRESS}/org.example.hub%2Ftoolset.open/versions/latest").json()["server"]
    assert (found["title"], found["description"]) == ("Open", "For everybody.")
    assert found["remotes"] == [
        {
            "type": "streamable-http",
            "url": "https://hub.example.org/mcp/s/open",
            "headers": [
                {
                    "name": "Authorization",
                    "description": "Bearer, and a key of the hub.",
                    "isRequired": True,
                    "isSecret": True,
                }
            ],
        }
    ]


def test_only_who_may_read_connections_sees_their_addresses_and_never_secrets(shelf: Group) -> None:
    def far(client: Client) -> Any:
        return client.get(f"{ADDRESS}/localhost/upstream.far/versions/latest").json()["server"].get("remotes")

    assert far(by_key("tools:list")) is None
    headers = [{"name": "X-Key", "isRequired": True, "isSecret": True}]
    told_of = [{"type": "streamable-http", "url": "https://far.example/mcp", "headers": headers}]
    assert far(by_key("tools:list", "catalog:write")) == told_of
    person = by_person("tools_catalog.view_mcptoolset", "tools_catalog.view_mcpconnection", is_staff=True)
    assert far(person) == told_of
    whole = person.get(ADDRESS).content.decode()
    assert "tenant=7" not in whole
    assert "mcp-server-example" not in whole


def test_versions_pages_and_filters(shelf: Group) -> None:
    client = by_key("tools:list", "catalog:write")
    one = client.get(f"{ADDRESS}/localhost%2Ftoolset.open/versions").json()["servers"][0]
    version = one["server"]["version"]
    assert one["_meta"]["io.modelcontextprotocol.registry/official"]["isLatest"] is True
    assert client.get(f"{ADDRESS}/localhost%2Ftoolset.open/versions/{version}").json() == one
    error_of(client.get(f"{ADDRESS}/localhost%2Ftoolset.open/versions/0.0.1"), 404, "not_found")
    error_of(client.get(f"{ADDRESS}/localhost%2Fnothing/versions/latest"), 404, "not_found")
    error_of(client.get(f"{ADDRESS}/localhost%2Ftoolset.off/versions/latest"), 404, "not_found")
    walked, query = [], "?limit=2"
    while query:
        page = client.get(f"{ADDRESS}{query}").json()
        walked += [each["server"]["name"] for each in page["servers"]]
        cursor = page["metadata"].get("nextCursor")
        query = f"?limit=2&cursor={cursor}" if cursor else ""
    assert walked == sorted(set(walked)) == names(client)
    assert names(client, "?search=toolset.o") == ["localhost/toolset.open"]
    assert names(client, "?updated_since=2999-01-01T00:00:00Z") == []
    assert names(client, "?version=latest&other=1") == names(client)


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=99999999", "cursor=%FF", "cursor=a", "updated_since=x"])
def test_a_query_that_means_nothing_is_refused(query: str, db: Any) -> None:
    assert by_key("tools:list").get(f"{ADDRESS}?{query}").status_code == 400


def test_what_the_hub_serves_is_what_the_hub_reads(shelf: Group, settings: Any) -> None:
    settings.MCPHUB_PUBLIC_URL = "https://hub.example.org"
    client = by_key("tools:list", "catalog:write")
    raw = client.get(f"{ADDRESS}/org.example.hub%2Ftoolset.open/versions/latest").content
    draft = sources.read(raw).drafts[0]
    assert (draft.slug, [blank.name for blank in draft.missing]) == ("toolset-open", ["Authorization"])


class _Registry(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        split = urlsplit(self.path)
        path, query = unquote(split.path), parse_qs(split.query)
        status, body = 200, b""
        if path == "/v0.1/servers" and query.get("search") == ["odd"]:
            body = b"[]"
        elif path == "/v0.1/servers" and query.get("search") == ["large"]:
            body = b" " * (sources.MAX_BYTES + 1)
        elif path == "/v0.1/servers":
            servers = [{"server": told.SERVER_JSON}, {"server": told.REMOTE_JSON}, {"server": 1}, 2]
            body = json.dumps({"servers": servers, "metadata": {"nextCursor": "x"}}).encode()
        elif path == "/v0.1/servers/com.example/weather/versions/latest":
            body = json.dumps({"server": told.REMOTE_JSON}).encode()
        else:
            status = 404
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def address(settings: Any) -> Iterator[str]:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)
    with ThreadingHTTPServer(("127.0.0.1", 0), _Registry) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("end", ["", "/", "/v0.1", "/v0.1/servers"])
def test_a_registry_is_searched(end: str, address: str) -> None:
    page = asyncio.run(registry.search(address + end, "weather"))
    assert [(each.name, each.version) for each in page.servers] == [
        ("io.github.example/weather", "1.2.0"),
        ("com.example/weather", "2.0.0"),
    ]
    assert page.has_more


def test_one_server_of_a_registry_becomes_a_draft(address: str) -> None:
    raw = asyncio.run(registry.server(address, "com.example/weather"))
    assert [draft.slug for draft in sources.read(raw).drafts] == ["weather"]
    page = asyncio.run(registry.search(address, ""))
    assert asyncio.run(registry.fetch(page.servers[1].address)) == raw


@pytest.mark.parametrize(
    ("word", "words"), [("odd", "is no registry"), ("large", "answered more than the 1048576 bytes that are read")]
)
def test_an_answer_that_is_none_of_a_registry_is_told(word: str, words: str, address: str) -> None:
    with pytest.raises(DocumentRefused, match=words):
        asyncio.run(registry.search(address, word))


def test_a_server_that_a_registry_does_not_have_is_told(address: str) -> None:
    with pytest.raises(DocumentRefused, match="does not exist"):
        asyncio.run(registry.server(address, "com.example/other"))


def test_a_registry_that_is_not_there_is_told(settings: Any) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)
    with pytest.raises(DocumentRefused, match="cannot be reached"):
        asyncio.run(registry.search("http://127.0.0.1:9", "x"))
