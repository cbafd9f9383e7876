"""Questions asked without HTTP: in Python, synchronously and not, and on the command line, beside a hub that serves."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import httpx2
import pytest

from tests.features.chat.script import say, script
from tests.servers import ROOT, Hub
from tests.waiting import PATIENCE_SECONDS

_BOTH = """
import asyncio, json, sys
from mcphub.chat.library import LocalChat, aask, ask  # the address of release 1.0
question, session = json.loads(sys.stdin.read())
told = [ask(question, session_id=session, provider="huawei_maas")]

async def inside():
    async with LocalChat() as here:
        told.append(await here.ask(question, session_id=session))
        told.append(await aask(question))
        try:
            ask(question)
        except RuntimeError as error:
            told.append(error)

asyncio.run(inside())
from mcphub.features.chat.errors import ChatError
try:
    ask("   ")
except ChatError as error:
    told.append(error)
print(json.dumps([each.wire() if hasattr(each, "wire") else [type(each).__name__, str(each)] for each in told]))
"""


def run(hub: Hub, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=hub.environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=180,
    )


def test_python_asks_synchronously_and_asynchronously(hub, chat_key):
    answer = httpx2.post(
        f"{hub.url}/api/session", json={}, headers={"authorization": f"Bearer {chat_key}"}, timeout=PATIENCE_SECONDS
    )
    session = answer.json()["id"]
    hub.environment["MCPHUB_API_KEY"] = chat_key
    try:
        done = run(hub, "-c", _BOTH, stdin=json.dumps([script(say("Five.")), session]))
    finally:
        del hub.environment["MCPHUB_API_KEY"]
    assert done.returncode == 0, done.stderr
    first, second, third, misplaced, refused = json.loads(done.stdout.splitlines()[-1])
    assert [each["content"] for each in (first, second, third)] == ["Five."] * 3
    assert (first["provider_used"], second["provider_used"]) == ("huawei_maas", "openai")
    assert (first["session_id"], third["session_id"]) == (session, None)
    assert misplaced[0] == "RuntimeError"
    assert refused == ["ChatError", "content must be a text: what the user asks."]


def test_the_command_line_answers_one_question(hub):
    done = run(hub, "-m", "mcphub.cli", "chat", "--json", "--provider", "huawei_maas", stdin=script(say("Five.")))
    assert json.loads(done.stdout)["provider_used"] == "huawei_maas", done.stderr


@pytest.mark.parametrize(
    ("flags", "status", "words"),
    [
        (["--provider", "nobody", "a"], 1, "There is no provider 'nobody'."),
        (["--tool", "add", "--no-tools", "a"], 2, "exclude each other"),
        ([], 2, "there is nothing to ask"),
    ],
)
def test_what_cannot_be_asked_is_said_in_one_sentence(hub, flags, status, words):
    done = run(hub, "-m", "mcphub.cli", "chat", *flags, stdin="")
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_terminal_begins_a_conversation(hub):
    ours, theirs = pty.openpty()
    # What it prints is the answers alone, and what it says aside goes elsewhere.
    with subprocess.Popen(
        [sys.executable, "-m", "mcphub.cli", "chat"],
        cwd=ROOT,
        env=hub.environment,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as talk:
        os.close(theirs)
        lines = f"{script(say('One.'))}\n{script(say('Two.'))}\n\n"
        os.write(ours, lines.encode())
        printed, aside = talk.communicate(timeout=180)
    os.close(ours)
    assert talk.returncode == 0, aside
    assert "One." in printed
    assert "Two." in printed
    assert "Conversation " in aside
