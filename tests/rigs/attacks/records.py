"""Secrets that should not be on record, and uses of an upstream that should."""

from __future__ import annotations

import base64
import json

from tests.features.chat.conftest import set_up
from tests.features.chat.running import ScriptedProvider
from tests.rigs.attacks import rows
from tests.rigs.attacks.target import Attack, Target, need
from tests.servers import until
from tests.wire.speech import Speaker

AWS = "AKIAQ3EGRTXNZ5LKMJ7P"
GITHUB = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SIGNED = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (b'{"alg":"HS256","typ":"JWT"}', b'{"sub":"1234567890","name":"canary"}', b"0123456789abcdef" * 2)
)
IN_AN_ADDRESS = "canary-of-an-address"
SECRETS = [AWS, GITHUB, SIGNED, IN_AN_ADDRESS]


def known_forms(target: Target) -> str:
    """In arguments as they are, in JSON within JSON, in an address, and as the name of a member."""
    nested = json.dumps(
        {"deep": json.dumps({"PassWord": "x", "key": AWS, "url": f"https://a.example/?token={GITHUB}"})}
    )
    texts = [
        f"the key is {AWS} and {GITHUB}",
        nested,
        f"https://user:{IN_AN_ADDRESS}@api.example.org/",
        SIGNED,
        json.dumps({GITHUB: 1}),
    ]
    with Speaker(target.hub.url, target.hub.key) as speaker:
        for text in texts:
            assert speaker.modern_call("echo", {"text": text}).status_code == 200
        recorded = len(target.hub.operate(rows.rows_of, speaker.name))
    assert recorded == len(texts), f"{recorded} rows"
    return _nowhere(target, SECRETS, f"{len(texts)} calls")


def chat_messages(target: Target) -> str:
    """In messages and responses of the chat."""
    with ScriptedProvider("sk-scripted-openai") as provider:
        key = set_up(target.hub, {"openai": provider})
        target.hub.settle()
        marked = "asked-by-the-attacks"
        words = f"{marked}: the key is {AWS}, the token {GITHUB}"
        with target.rest(key) as client:
            message = [{"role": "user", "content": words}]
            first = client.post("/v1/chat/completions", json={"model": "fast", "messages": message})
            second = client.post("/v1/responses", json={"model": "fast", "input": words, "store": True})
            third = client.post("/api/query", json={"content": words})
        statuses = [answer.status_code for answer in (first, second, third)]
        assert 200 in statuses, first.text
        asked = provider.about(marked)
        need(bool(asked), f"no question reached the provider: {statuses}")
    return _nowhere(target, [AWS, GITHUB], f"questions with statuses {statuses}")


def _nowhere(target: Target, secrets: list[str], after: str) -> str:
    forms = [*secrets, *(base64.b64encode(secret.encode()).decode() for secret in secrets)]
    found = {word: places for word, places in target.hub.operate(rows.where_is, forms).items() if places}
    need(not found, f"after {after}: {found}")
    return f"after {after} none of {len(forms)} canaries stands in any table"


def reads(target: Target) -> str:
    """`resources/read`, `prompts/get` and completion are uses like calls."""
    uri = "test://static-text"
    completed = {"ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"}}
    argument = {"argument": {"name": "arg1", "value": "canary-of-a-completion"}}
    with Speaker(target.hub.url, target.hub.key) as speaker:
        told = {
            uri: speaker.modern("resources/read", {"uri": uri}).status_code,
            "test_simple_prompt": speaker.modern("prompts/get", {"name": "test_simple_prompt"}).status_code,
            "canary-of-a-completion": speaker.modern("completion/complete", {**completed, **argument}).status_code,
        }
        name = speaker.name
    missing = []
    for word, status in told.items():
        try:
            until(lambda word=word: [row for row in target.hub.operate(rows.rows_of, name) if word in str(row)])
        except AssertionError:
            missing.append(f"{word} (status {status})")
    need(not missing, f"no row tells of {', '.join(missing)}")
    return "each has a row"


ATTACKS = [
    Attack("9a", "secrets of known forms in arguments and results", known_forms),
    Attack("9b", "secrets of known forms in the chat", chat_messages),
    Attack("11", "reads, prompts and completions without a row", reads),
]
