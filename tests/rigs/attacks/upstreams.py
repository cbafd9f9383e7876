"""An upstream that speaks in the hub's name: forms for passwords, addresses that run scripts, the client's model; and
an issuer that wants the codes of others.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from tests import operations
from tests.rigs.attacks.target import Attack, Target, need
from tests.servers import until
from tests.upstreams import accounts
from tests.upstreams.conftest import Operator, Peer, child
from tests.wire.input_requests import ALL, calling
from tests.wire.signing_in import Person
from tests.wire.speech import Speaker


def form(name: str) -> dict[str, Any]:
    return {"message": "Please.", "requestedSchema": {"type": "object", "properties": {name: {"type": "string"}}}}


def address(url: str) -> dict[str, Any]:
    return {"mode": "url", "message": "Please.", "url": url, "elicitationId": "one"}


ELICIT = "elicitation/create"
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    (ELICIT, form("password")),
    (ELICIT, form("api_key")),
    (ELICIT, address("javascript:alert(1)")),
    (ELICIT, address("http://phish.example/")),
    (ELICIT, address("data:text/html,x")),
    ("sampling/createMessage", {"messages": [], "maxTokens": 10, "includeContext": "allServers"}),
    ("roots/list", {}),
]


def ask(speaker: Speaker, method: str, params: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Let the upstream ask; give what reached the client, who answers nothing but this, and what the call said."""
    session = speaker.open_session(**ALL)
    reached = []
    with calling(speaker, session, "insolent.ask", {"method": method, "params": params}) as (answer, events):
        if "event-stream" not in answer.headers["content-type"]:
            answer.read()
            return reached, answer.text
        for event in events:
            if "result" in event or "error" in event:
                return reached, json.dumps(event)
            if "id" in event:
                reached.append(event)
                given = {"jsonrpc": "2.0", "id": event["id"], "result": {"action": "decline"}}
                speaker.post(given, mcp_session_id=session)
    return reached, ""


def insolence(target: Target) -> str:
    connected(target)
    with Speaker(target.hub.url, target.hub.key) as speaker:
        until(lambda: "insolent.ask" in speaker.modern("tools/list").text)
        target.hub.settle()  # a session may meet another worker than the list
        passed = []
        for method, params in QUESTIONS:
            reached, said = ask(speaker, method, params)
            if reached:
                passed.append(f"{method} {params}")
            else:
                assert said, f"{method} {params} ended without an answer"
        reached, _ = ask(speaker, ELICIT, form("branch"))
        need(bool(reached), "an honest question did not reach the client")
        words = reached[0]["params"]["message"]
    need(not passed, f"{len(passed)} of {len(QUESTIONS)} reached the client: {passed}")
    need("insolent" in words, f"the words do not say who asks: {words!r}")
    return f"{len(QUESTIONS)} of {len(QUESTIONS)} did not reach the client; an honest one reads {words!r}"


def on_record(target: Target) -> str:
    """What an upstream asked stands beside its call."""
    connected(target)
    with Speaker(target.hub.url, target.hub.key) as speaker:
        until(lambda: "insolent.ask" in speaker.modern("tools/list").text)
        target.hub.settle()  # a session may meet another worker than the list
        ask(speaker, ELICIT, form("canary_of_a_question"))
    [call] = target.hub.rows(tool="insolent.ask", limit=1)
    found = target.hub.rows(asked_by=call["invocation_id"])
    need(bool(found), "no row says that the call asked anything")
    told = found[0]
    need("canary_of_a_question" in json.dumps(told["arguments"]), f"the row does not say what was asked: {told}")
    need(told["connection"] == "insolent", f"the row does not say who asked: {told['connection']}")
    return f"a row beside the call has {told['method']}, who asked and what"


def connected(target: Target) -> None:
    operator = Operator(target.hub)
    try:
        operator.row("insolent")
    except AssertionError:
        operator.connect("insolent", **child("insolent", "insolent.py", sys.executable))


def mixed_up(target: Target) -> str:
    """A hostile issuer gets the code of another: by the address to come back to, and by a false `iss`."""
    with Peer("oauth.py") as peer, Person(target.hub, "chief-of-accounts") as chief, Person(target.hub, "led") as led:
        target.hub.operate(accounts.make_operator, "chief-of-accounts")
        target.hub.operate(accounts.add, "mixed", peer.url, "personal")
        accounts.connect(chief, "/connect/to/mixed/?as=all", "lister")
        until(lambda: led.http.get("/connect/to/mixed/").status_code == 200)  # once its tools are there
        target.hub.settle()
        tried = {}
        for elsewhere in ("/connect/callback/", "/connect/callback/0123456789abcdef/"):
            leaving = accounts.signed_in(accounts.led_to_issuer(led, "/connect/to/mixed/"), "mallory")
            tried[elsewhere] = led.http.get(f"{elsewhere}?{leaving.partition('?')[2]}").status_code
        leaving = accounts.led_to_issuer(led, "/connect/to/mixed/")
        accounts.control(peer.url, iss="https://evil.example")
        back = accounts.signed_in(leaving, "mallory").removeprefix(target.hub.url)
        tried["a false iss"] = led.http.get(back).status_code
        kept = target.hub.operate(accounts.state, "mixed")["accounts"]
        target.hub.operate(operations.change, "tools_catalog.McpConnection", {"slug": "mixed"}, enabled=False)
    need(set(tried.values()) == {400}, f"answered with {tried}")
    need(led.principal not in kept, f"an account was kept: {kept}")
    return f"answered with {tried}; no account was kept"


ATTACKS = [
    Attack("10a", "an upstream asks in the hub's name", insolence),
    Attack("10b", "what an upstream asked is on record", on_record),
    Attack("17", "a hostile issuer gets the code of another", mixed_up),
]
