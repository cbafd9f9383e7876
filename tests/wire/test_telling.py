"""Notices leave a hub of two workers: each once, signed, through the guard, again after failures and after kill -9."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests import telling_operations as telling
from tests.servers import Hub, postgres_database, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


class Receiver:
    """Takes POSTs at any path; answers with `status`, or not until `is_silent` is cleared."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.status: dict[str, int] = {}
        self.location = ""
        self.may_answer = threading.Event()
        self.may_answer.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                outer.may_answer.wait(PATIENCE_SECONDS)
                self.send_response(outer.status.get(self.path, 204))
                if outer.location:
                    self.send_header("Location", outer.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def at(self, path: str) -> list[tuple[dict[str, str], bytes]]:
        return [(headers, body) for where, headers, body in list(self.got) if where == path]

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.rig)])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    environment = {
        "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
        "MCPHUB_LIMITS": "notice_tries=3",
        "MCPHUB_MAIL_URL": f"file://{folder}/mails",
    }
    with ExitStack() as stack:
        if request.param == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
        yield stack.enter_context(Hub(folder, environment=environment, flags=["--workers", "2"]))


def test_a_state_that_comes_and_goes_is_one_signed_message(hub: Hub, receiver: Receiver) -> None:
    hub.operate(telling.subscribe, "webhook", f"{receiver.url}/flapping", SECRET, kinds=["approval.waits"])
    for times in (1, 2, 3):
        hub.operate(telling.approval, "flapping", waits=True)
        until(lambda: hub.operate(telling.notices, subject="flapping", ended_at=None))
        hub.operate(telling.approval, "flapping", waits=False)
        until(lambda: not hub.operate(telling.notices, subject="flapping", ended_at=None))
        (row,) = hub.operate(telling.notices, subject="flapping")
        assert row["count"] == times
    ((headers, body),) = until(lambda: receiver.at("/flapping"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.digest(KEY, signed, hashlib.sha256)).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    told = json.loads(body)
    assert told["type"] == "approval.waits"
    assert told["data"]["text"].startswith("agent wants to call shop.buy.")
    assert told["data"]["link"].endswith(f"/admin/telling/notice/{told['data']['id']}/change/")


def test_what_fails_is_tried_again_with_the_same_id_given_up_and_replayed(hub: Hub, receiver: Receiver) -> None:
    receiver.status["/failing"] = 500
    number = hub.operate(
        telling.subscribe, "webhook", f"{receiver.url}/failing", SECRET, name="failing", kinds=["tool.slow"]
    )
    hub.operate(telling.note, "tool.slow", "slow", tool="slow")

    def tried() -> int:
        return int(hub.operate(telling.deliveries, subscription=number)[0]["tries"])

    for before in (0, 1, 2):
        until(lambda before=before: tried() > before)  # type: ignore[misc]
        hub.operate(telling.hurry, subscription=number)
    (row,) = hub.operate(telling.deliveries, subscription=number)
    assert (row["state"], row["error"]) == ("dead", "It answered with status 500.")
    assert f"{row['pk']}\ttool.slow" in hub.command("notice", "dead")
    receiver.status["/failing"] = 204
    assert "1 sent once more" in hub.command("notice", "replay", str(row["pk"]))
    until(lambda: hub.operate(telling.deliveries, subscription=number)[0]["state"] == "sent")
    ids = [headers["webhook-id"] for headers, _body in receiver.at("/failing")]
    assert len(ids) == 4
    assert len(set(ids)) == 1


def test_a_redirect_is_not_followed(hub: Hub, receiver: Receiver) -> None:
    receiver.status["/leading"] = 307
    receiver.location = f"{receiver.url}/inside"
    number = hub.operate(telling.subscribe, "slack", f"{receiver.url}/leading", name="leading", kinds=["tool.errors"])
    hub.operate(telling.note, "tool.errors", "led", tool="led")
    until(lambda: hub.operate(telling.deliveries, subscription=number)[0]["tries"] >= 1)
    assert "redirects" in hub.operate(telling.deliveries, subscription=number)[0]["error"]
    assert receiver.at("/inside") == []


def test_mail_and_chat_get_one_message_of_many_notices_and_nobody_is_mentioned(hub: Hub, receiver: Receiver) -> None:
    hub.operate(telling.subscribe, "email", "chief@example.org", name="mail", kinds=["client.consented"])
    hub.operate(telling.subscribe, "teams", f"{receiver.url}/teams", name="teams", kinds=["client.consented"])
    hub.operate(telling.note, "client.consented", "event 1", person="<!channel>", client="[x](https://x.example)")
    until(lambda: receiver.at("/teams"))
    card = json.loads(receiver.at("/teams")[0][1])["attachments"][0]["content"]
    assert "\\[x\\]\\(https://x.example\\)" in card["body"][1]["text"]
    # Django ends each mail in a file with such a line: one that is not written as a whole yet has none.
    (mail,) = until(lambda: [text for text in _texts(hub.folder / "mails") if text.endswith(f"{'-' * 79}\n")])
    assert "To: chief@example.org" in mail
    assert "MCP Hub: A person authorized a client" in mail


def _texts(folder: Path) -> list[str]:
    return [each.read_text() for each in folder.glob("*.log")]


def test_the_command_says_whether_a_test_arrives(hub: Hub, receiver: Receiver) -> None:
    hub.operate(telling.subscribe, "webhook", f"{receiver.url}/tried", SECRET, person="tester", name="tried")
    assert "tried: sent to http://127.0.0.1:" in hub.command("notice", "test", "tester")
    assert json.loads(receiver.at("/tried")[0][1])["type"] == "test"


def test_a_worker_that_is_killed_while_it_sends_loses_nothing(tmp_path: Path, receiver: Receiver) -> None:
    environment = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    hub = Hub(tmp_path / "hub", environment=environment)
    hub.__enter__()  # it is not left as others are
    number = hub.operate(telling.subscribe, "webhook", f"{receiver.url}/killed", SECRET)
    receiver.may_answer.clear()
    hub.operate(telling.note, "tool.slow", "slow", tool="slow")
    until(lambda: receiver.at("/killed"))
    assert hub.operate(telling.leased) == 1
    hub.kill()
    receiver.may_answer.set()
    with Hub(tmp_path / "hub", environment=environment) as hub:
        hub.operate(telling.hurry)
        until(lambda: hub.operate(telling.deliveries, subscription=number)[0]["state"] == "sent")
    ids = {headers["webhook-id"] for headers, _body in receiver.at("/killed")}
    assert len(receiver.at("/killed")) == 2
    assert len(ids) == 1
