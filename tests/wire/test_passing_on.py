"""What of a call reaches the service behind a tool: its arguments, and nothing of who called."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import Hub
from tests.wire.speech import META, Speaker


class Service(http.server.ThreadingHTTPServer):
    """A service that writes down what it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.asked: list[tuple[str, dict[str, str]]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Service)
        self.server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


def test_nothing_of_the_callers_goes_to_the_service_behind_a_tool(tmp_path: Path, service: Service) -> None:
    tool = {
        "name": "fetch",
        "description": "Ask the service.",
        "backend": "http",
        "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}},
        "configuration": {"method": "GET", "url": f"http://{service.address}/{{what}}"},
    }
    bundle = tmp_path / "bundle.json"
    bundle.write_text(json.dumps({"format": "mcphub-bundle/1", "tools": [tool]}))
    environment = {"MCPHUB_EGRESS_ALLOW": service.address}
    with Hub(tmp_path / "hub", bundle=bundle, environment=environment) as hub, Speaker(hub.url, hub.key) as speaker:
        session = speaker.open_session()
        headers = {"cookie": "a=b", "x-own": "mine", "mcp_session_id": session}
        call = {"name": "fetch", "arguments": {"what": "x"}, "_meta": {f"{META}clientInfo": {"name": "n"}}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        assert speaker.post(body, **headers).json()["result"].get("isError") is not True
        assert speaker.modern_call("fetch", {"what": "y"}).json()["result"].get("isError") is not True
    assert [path for path, _ in service.asked] == ["/x", "/y"]
    for _, sent in service.asked:
        assert not {"authorization", "cookie", "x-own", "mcp-session-id", "origin"} & set(sent)
        told = json.dumps(sent)
        assert hub.key not in told
        assert session not in told
        assert speaker.name not in told
