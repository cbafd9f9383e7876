"""Fail the first statement that an act sends to the database, the second, and so on to its last.

    python -m tests.rigs.nth_statement [--database sqlite|postgresql] [--only ACT]...

Acts, at a hub that serves: a call, a replay, a chat turn with a tool, a decision on a call that waits, a
session opened, a tool saved in the admin. Each statement fails in three ways: refused, refused with all after it, and
carried out with its connection lost. Each time: who asked is answered, or told to try again; what was begun is there
whole or not at all; each effect has its intent, each intent one outcome; and the same act then succeeds. Exit status
0, or 1 with reasons.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from tests import operations
from tests.features.chat.conftest import ENVIRONMENT, KEYS, TOOLBOX, set_up
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.rigs import console
from tests.rigs.failing import SOCKET
from tests.servers import Hub, postgres_database, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker, hello

_LETTERS = str.maketrans("0123456789", "ghijklmnop")
"""Names without digits: a long run of them may be a payment card by chance, which is redacted."""


@dataclass
class Told:
    """What who asked was told."""

    done: bool
    retryable: bool = False
    words: str = ""
    value: Any = None


@dataclass
class Act:
    """Something that is done with the database while statements fail."""

    rig: Rig
    name: str = field(default_factory=lambda: uuid.uuid4().hex.translate(_LETTERS))
    """Of this attempt: what it leaves is found by it."""

    def prepare(self) -> None:
        """Make what the act needs, while nothing fails."""

    def do(self) -> Told:
        raise NotImplementedError

    def wrong(self, told: Told) -> str:
        """Say what is half done, or contradicts what was told; empty: nothing. Asked until it is, for a while."""
        return ""


class Call(Act):
    """A tools/call of a stateless client."""

    def do(self) -> Told:
        return _rpc(self.rig.speaker.modern_call("count", {"name": self.name}))

    def wrong(self, told: Told) -> str:
        return self.rig.wrong_call(self.name, told.done)


class CallInSession(Call):
    """The same in a session, where the request's id is claimed too."""

    def do(self) -> Told:
        return _rpc(self.rig.speaker.call(self.rig.session, "count", {"name": self.name}))


class Open(Act):
    """A handshake, and the notification after it."""

    def do(self) -> Told:
        answer = self.rig.speaker.post(hello(name=self.name))
        told = _rpc(answer)
        told.value = answer.headers.get("mcp-session-id")
        return told

    def wrong(self, told: Told) -> str:
        rows = self.rig.rows("SELECT session_id, state FROM sessions_app_mcpsession WHERE client_name = ?", self.name)
        if told.done and rows != [(told.value, "initialized")]:
            return f"the session that was answered is on record as {rows}"
        return "" if len(rows) <= 1 else f"one handshake left {rows}"


class Replay(Act):
    """A recorded call made again, over REST."""

    def prepare(self) -> None:
        made = self.rig.speaker.modern_call("count", {"name": self.name}).json()
        self.first = made["result"]["_meta"][next(key for key in made["result"]["_meta"] if "invocation" in key)]
        if isinstance(self.first, dict):
            self.first = self.first["id"]

    def do(self) -> Told:
        answer = self.rig.rest.post(f"/api/invocations/{self.first}/replay/", json={"confirm": True})
        return _rest(answer)

    def wrong(self, told: Told) -> str:
        found = "SELECT count(*) FROM invocations_mcptoolinvocation WHERE replay_of = ? AND status = 'ok'"
        replays = self.rig.rows(found, self.first)[0][0]
        if told.done and replays != 1:
            return f"the replay was answered, and {replays} are on record"
        if self.rig.effects(self.name) - 1 != replays:
            return f"{replays} replays on record, {self.rig.effects(self.name)} effects with the first"
        return ""


class Turn(Act):
    """A turn of a conversation in which the model calls a tool."""

    def prepare(self) -> None:
        self.session = self.rig.rest.post("/api/session", json={}).json()["id"]

    def do(self) -> Told:
        content = script(calls(("count", {"name": self.name})), say("Counted."))
        answer = self.rig.rest.post("/api/query", json={"content": content, "session_id": self.session})
        return _rest(answer)

    def wrong(self, told: Told) -> str:
        queries = self.rig.rows("SELECT state FROM chat_query WHERE session_id = ?", self.session.replace("-", ""))
        answers = self.rig.rows(
            "SELECT count(*) FROM chat_airesponse r JOIN chat_query q ON q.id = r.query_id WHERE q.session_id = ?",
            self.session.replace("-", ""),
        )[0][0]
        states = [state for (state,) in queries]
        if "running" in states and self.rig.is_stuck(self.session):
            return "the turn is over and on record as running, and its session takes no other"
        if states.count("done") != answers or (told.done and answers != 1):
            return f"{answers} answers to queries {states}, told {told.words or 'an answer'}"
        calls_made = self.rig.effects(self.name)
        return self.rig.wrong_call(self.name, told.done) if calls_made else ""


class Decide(Act):
    """An approval of a call that waits for a yes."""

    def prepare(self) -> None:
        text = script(calls(("count", {"name": self.name})), say("Counted."))
        tools = [{"type": "mcp", "server_label": "hub", "allowed_tools": ["count"], "require_approval": "always"}]
        body = {"model": "openai/scripted-large", "messages": [{"role": "user", "content": text}], "tools": tools}
        self.body = body
        told = self.rig.rest.post("/v1/chat/completions", json=body).json()
        self.id = told["x_mcp"]["approval_requests"][0]["id"]

    def do(self) -> Told:
        return _rest(self.rig.rest.post(f"/v1/approvals/{self.id}", json={"approve": True, "reason": self.name}))

    def wrong(self, told: Told) -> str:
        row = self.rig.rows("SELECT status, reason, decided_at FROM invocations_mcpapproval WHERE id = ?", self.id)[0]
        events = self.rig.rows("SELECT kind, reason FROM sessions_app_auditevent WHERE subject_id = ?", self.id)
        if events != ([("call.approved", self.name)] if row[0] == "approved" else []):
            return f"{row[0]}, and on record as {events}"
        if row[0] == "pending":
            return "it was answered and is not decided" if told.done or row[1] or row[2] else ""
        return "" if row[0] == "approved" and row[1] == self.name and row[2] else f"half decided: {row}"


class Save(Act):
    """A new description of a tool, saved in the admin."""

    def do(self) -> Told:
        return self.rig.save({"description": self.name, "change_reason": self.name})

    def wrong(self, told: Told) -> str:
        now = self.rig.rows("SELECT description FROM tools_catalog_mcptooldefinition WHERE name = 'outlast'")[0][0]
        tool = "(SELECT id FROM tools_catalog_mcptooldefinition WHERE name = 'outlast')"
        counts = {
            "versions": f"SELECT count(*) FROM tools_catalog_mcptoolversion WHERE tool_id = {tool} AND reason = ?",
            "events": "SELECT count(*) FROM sessions_app_auditevent WHERE kind = 'tool.changed' AND reason = ?",
        }
        due = int(now == self.name)
        found = {name: self.rig.rows(query, self.name)[0][0] for name, query in counts.items()}
        if told.done and not due:
            return "it was told to be saved and is not"
        if set(found.values()) != {due}:
            return f"saved: {bool(due)}, and there are {found}"
        return "" if self.rig.served("outlast") == now else "clients are not told what is saved"


ACTS: dict[str, type[Act]] = {
    "call": Call,
    "call-in-session": CallInSession,
    "session": Open,
    "replay": Replay,
    "turn": Turn,
    "decision": Decide,
    "save": Save,
}


def _rpc(answer: httpx2.Response) -> Told:
    body = answer.json()
    if "error" not in body:
        return Told(done=not body["result"].get("isError"), words=answer.text[:300])
    data = body["error"]["data"]
    return Told(False, data["retryable"] and data["errorCode"] == "audit_unavailable", answer.text[:300])


def _rest(answer: httpx2.Response) -> Told:
    if answer.status_code < 300:
        return Told(True, value=answer.json())
    words = f"{answer.status_code} {answer.text[:300]}"
    is_away = answer.status_code == 503 and "audit_unavailable" in answer.text.lower()
    return Told(False, is_away and "retry-after" in answer.headers, words)


class Rig:
    def __init__(self, hub: Hub, folder: Path, key: str) -> None:
        self.hub = hub
        self.speaker = Speaker(hub.url, key)
        self.session = self.speaker.open_session()
        self.rest = httpx2.Client(
            base_url=hub.url, headers={"authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS
        )
        self.console = httpx2.Client(base_url=hub.url, cookies=hub.operate(console.log_in), timeout=PATIENCE_SECONDS)
        self._orders = socket.socket(socket.AF_UNIX)
        self._orders.connect(hub.environment[SOCKET])
        self._lines = self._orders.makefile("rw")
        self._address = hub.environment.get("MCPHUB_DATABASE_URL")
        self._database: Any = (
            psycopg.connect(self._address, autocommit=True)
            if self._address
            else sqlite3.connect(f"file:{hub.data / 'hub.sqlite3'}?mode=ro", uri=True, timeout=20)
        )

    def order(self, **words: Any) -> dict[str, Any]:
        self._lines.write(json.dumps(words) + "\n")
        self._lines.flush()
        told: dict[str, Any] = json.loads(self._lines.readline())
        return told

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._database.execute(
            query.replace("?", "%s") if self._address else query, values
        ).fetchall()
        return found

    def effects(self, name: str) -> int:
        file = self.hub.data / "toolbox" / f"{name}.counted"
        return file.stat().st_size if file.exists() else 0

    def wrong_call(self, name: str, answered: bool) -> str:
        """Compare the effects of a call with its intents and outcomes."""
        effects = self.effects(name)
        mine = "tool_name = 'count' AND arguments LIKE ?"
        outcomes = self.rows(
            f"SELECT invocation_id, status, error_code FROM invocations_mcptoolinvocation WHERE {mine}", f"%{name}%"
        )
        intents = {
            row[0]
            for row in self.rows(
                "SELECT invocation_id FROM invocations_mcprequestenvelope WHERE params LIKE ?", f"%{name}%"
            )
        }
        ran = {id_ for id_, status, _ in outcomes if status == "ok"}
        if len({id_ for id_, *_ in outcomes}) != len(outcomes):
            return f"an invocation stands twice: {outcomes}"
        if intents - {id_ for id_, *_ in outcomes}:
            return f"an intent without an outcome: {outcomes}"
        if len(ran) != effects or not ran <= intents:
            return f"{effects} effects, {len(intents)} intents, outcomes {outcomes}"
        codes = {code for _, status, code in outcomes if status != "ok"}
        if codes - {"audit_unavailable"}:
            return f"recorded as {codes}"
        return f"answered, and {effects} effects" if answered and effects != 1 else ""

    def is_stuck(self, session: str) -> bool:
        answer = self.rest.post("/api/query", json={"content": script(say("Yes.")), "session_id": session})
        return answer.status_code == 409

    def save(self, changes: dict[str, str]) -> Told:
        answer = self.console.post(self.page, data={**self.form, **changes}, headers={"origin": self.hub.url})
        if answer.status_code == 302:
            return Told(True)
        return Told(False, answer.status_code == 503 and "retry-after" in answer.headers, _plain(answer))

    def read_form(self) -> None:
        """Read the form of a tool as a browser does."""
        self.page, self.form = self.hub.operate(console.tool_form, "outlast")

    def served(self, name: str) -> str:
        found = self.speaker.modern("tools/list").json()["result"]["tools"]
        return str(next(tool["description"] for tool in found if tool["name"] == name))


def _plain(answer: httpx2.Response) -> str:
    return f"{answer.status_code} {answer.text[:200]}"


def sweep(rig: Rig, name: str, how: str) -> list[str]:
    """Fail each statement of an act; give what went wrong."""
    make = ACTS[name]
    problems: list[str] = []
    failed, refused = set(), 0
    before = _clean(rig, make)
    for words, nth in before:
        act = make(rig)
        act.prepare()
        rig.order(words=words, nth=nth, how=how)
        try:
            told = act.do()
        except Exception as error:
            told = Told(False, words=f"{type(error).__name__}: {error}")
        if rig.order()["failed"]:
            failed.add(words)
        where = f"{name}, {how}, number {nth} of {words[:100]}"
        refused += not told.done
        if not told.done and not told.retryable:
            problems.append(f"{where}: told {told.words}")
        problems += [f"{where}: {words}" for words in [_settled(act, told)] if words]
        problems += [f"{where}: then {words}" for words in [_again(rig, make)] if words]
    # What other tasks of the hub read meanwhile is among them, and need not come again.
    missed = {words for words, _ in before if not words.startswith("SELECT ")} - failed
    problems += [f"{name}, {how}: never failed: {words}" for words in sorted(missed)]
    print(f"{name}, {how}: {len(before)} statements failed in turn, {refused} acts refused", flush=True)
    return problems


def _clean(rig: Rig, make: type[Act]) -> list[tuple[str, int]]:
    """Return the statements of an act that meets no failure, each with its number among those of the same words.

    Those that it sends each time: others are the hub's own, such as its sign of life, and need not come again.
    """
    runs: list[list[tuple[str, int]]] = []
    for _ in range(5):  # the first may fill what the hub keeps
        act = make(rig)
        act.prepare()
        rig.order(words="", nth=0, how="once")
        told = act.do()
        seen = rig.order()["seen"]
        if problem := told.words if not told.done else _settled(act, told):
            raise SystemExit(f"{make.__name__} fails where nothing fails: {problem}")
        runs.append([(words, seen[: at + 1].count(words)) for at, words in enumerate(seen)])
    return [statement for statement in runs[-1] if all(statement in run for run in runs[1:])]


def _settled(act: Act, told: Told) -> str:
    """Return what stays wrong: what was owed is written in a moment, and who is gone is noticed."""
    until = time.monotonic() + PATIENCE_SECONDS
    while (words := act.wrong(told)) and time.monotonic() < until:
        time.sleep(0.05)
    return words


def _again(rig: Rig, make: type[Act]) -> str:
    """Do the same with nothing failing. The writer may need a moment to connect again."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        act = make(rig)
        act.prepare()
        told = act.do()
        if told.done:
            return _settled(act, told)
        if time.monotonic() > until:
            return told.words
        time.sleep(0.05)


@contextlib.contextmanager
def _hub(folder: Path, database: str) -> Iterator[tuple[Hub, str]]:
    environment = {
        **ENVIRONMENT,
        "MCPHUB_APPS": f"{ENVIRONMENT['MCPHUB_APPS']},tests.rigs.failing",
        SOCKET: str(folder / "orders"),
        "MCPHUB_LIMITS": f"{ENVIRONMENT['MCPHUB_LIMITS']}, seal_seconds=0.1",
    }
    if database:
        environment["MCPHUB_DATABASE_URL"] = database
    with (
        ScriptedProvider(KEYS["openai"]) as provider,
        Hub(folder, packs=["starter"], bundle=TOOLBOX, environment=environment) as hub,
    ):
        key = hub.operate(operations.issue_key, "rig", calls_per_minute=None)
        set_up(hub, {"openai": provider})
        yield hub, key


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--only", action="append", choices=[*ACTS])
    options = parser.parse_args()
    problems: list[str] = []
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="nth-"))
        address = stack.enter_context(postgres_database(is_empty=True)) if options.database == "postgresql" else ""
        hub, key = stack.enter_context(_hub(Path(name), address))
        rig = Rig(hub, Path(name), key)
        rig.read_form()
        for act in options.only or ACTS:
            for how in ("once", "lost", "away"):
                problems += sweep(rig, act, how)
        rig.order()
        until(lambda: "Every row is sealed" in hub.command("audit", "verify"))
        print(hub.command("audit", "verify").strip())
    for problem in problems[:60]:
        print(f"WRONG: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
