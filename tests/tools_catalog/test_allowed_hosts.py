"""The console's list of allowed hosts: what it opens, who decides, and how soon it holds."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from mcphub.process import first_run
from sessions_app.protocol.errors import EgressRefused
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.egress import guard, listed
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.models import AllowedHost


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    listed.replace(())


def reaches(url: str) -> bool:
    try:
        EgressPolicy.from_settings().check_url(url)
    except EgressRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "opened", "closed"),
    [
        ("10.0.3.7:8443", "https://10.0.3.7:8443/mcp", "https://10.0.3.7/mcp"),
        ("10.0.0.0/8", "http://10.1.2.3/", "http://192.168.0.1/"),
        ("[fd00::7]:8443", "https://[fd00::7]:8443/", "https://[fd00::8]:8443/"),
        ("localhost:9000", "http://localhost:9000/", "http://localhost:9001/"),
        ("169.254.0.0/16", "http://169.254.1.1/", "http://169.254.169.254/latest/meta-data/"),
    ],
)
def test_an_entry_opens_what_it_names_and_no_metadata(entry: str, opened: str, closed: str) -> None:
    assert (reaches(opened), reaches(closed)) == (False, False)
    listed.replace([entry])
    assert (reaches(opened), reaches(closed)) == (True, False)


def test_the_settings_close_what_the_list_opens(settings: Any) -> None:
    listed.replace(["10.0.0.0/8"])
    settings.MCPHUB_EGRESS_DENY = ["10.0.3.0/24"]
    assert (reaches("http://10.0.2.1/"), reaches("http://10.0.3.1/")) == (True, False)


def test_a_policy_of_its_own_does_not_follow_the_list() -> None:
    listed.replace(["10.0.0.0/8"])
    with pytest.raises(EgressRefused):
        EgressPolicy().check_url("http://10.0.3.1/")


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


class Threading(socketserver.ThreadingTCPServer):
    daemon_threads = True


def test_a_client_that_lives_on_follows_the_list_and_keeps_no_connection_of_before(settings: Any) -> None:
    with Threading(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]

        async def resolve(host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

        async def go() -> None:
            url = f"http://inside.example:{port}/"
            async with guard.client(resolve=resolve) as client:
                with pytest.raises(EgressRefused):
                    await client.get(url)
                listed.replace([f"inside.example:{port}"])
                assert (await client.get(url)).text == "ok"
                listed.replace([])
                # A connection to it stands open; it serves no further request.
                with pytest.raises(EgressRefused):
                    await client.get(url)
                listed.replace(["127.0.0.1"])
                assert (await client.get(url)).text == "ok"

        asyncio.run(go())
        server.shutdown()


@pytest.mark.django_db
def test_the_catalogue_and_commands_read_the_list() -> None:
    row = AllowedHost.objects.create(host="10.0.3.7")
    AllowedHost.objects.create(host="10.0.3.8", enabled=False)
    assert not reaches("http://10.0.3.7/")
    Catalog.load(None)
    assert (reaches("http://10.0.3.7/"), reaches("http://10.0.3.8/")) == (True, False)
    row.delete()
    first_run.migrate()  # as each command does first
    assert not reaches("http://10.0.3.7/")
