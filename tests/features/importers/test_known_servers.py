"""The list of known servers that ships: its form, and that each can become a connection."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

import jsonschema
import pytest

from mcphub.features.importers.configured import drafts, known, saving
from tools_catalog.models import McpConnection, Secret

TEXT = {"type": "string", "minLength": 1}
NAMED = {"type": "object", "additionalProperties": TEXT, "minProperties": 1}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "servers": {
            "type": "array",
            "minItems": 50,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,28}$"},
                    "title": {"type": "string", "minLength": 1, "maxLength": 60},
                    "does": {"type": "string", "pattern": r"^[A-Z].{9,140}\.$"},
                    "documentation": {"type": "string", "pattern": "^https://[^ ]+$"},
                    "licence": TEXT,
                    "url": {"type": "string", "pattern": "^https://[^ ]+$"},
                    "transport": {"enum": ["sse", "streamable-http"]},
                    "headers": NAMED,
                    "command": {"type": "array", "items": TEXT, "minItems": 2},
                    "environment": NAMED,
                    "readable": {"type": "array", "items": TEXT, "minItems": 1},
                    "writable": {"type": "array", "items": TEXT, "minItems": 1},
                    "needs": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]*$"},
                                "words": {"type": "string", "minLength": 4, "maxLength": 120},
                                "secret": {"const": True},
                                "required": {"const": False},
                                "usual": TEXT,
                                "choices": {"type": "array", "items": TEXT, "minItems": 2},
                            },
                            "required": ["name", "words"],
                            "additionalProperties": False,
                        },
                    },
                    "offline": {"const": True},
                    "note": {"type": "string", "pattern": r"^[A-Z].{9,200}\.$"},
                    "tried": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
                },
                "required": ["name", "title", "does", "documentation", "licence"],
                "anyOf": [{"required": ["url"]}, {"required": ["command"]}],
                "additionalProperties": False,
            },
        }
    },
    "required": ["servers"],
    "additionalProperties": False,
}
RAW = json.loads((resources.files("tools_catalog") / "known_servers.json").read_bytes())
WAYS = [
    pytest.param(server, by_program, id=f"{server.name}-{'program' if by_program else 'address'}")
    for server in known.servers()
    for by_program in (True, False)
    if (server.command if by_program else server.url)
]


def test_the_list_has_its_form_and_each_name_once() -> None:
    jsonschema.validate(RAW, SCHEMA)
    names = [entry["name"] for entry in RAW["servers"]]
    assert names == sorted(set(names))


def test_everything_that_is_asked_for_is_used_and_everything_used_is_asked_for() -> None:
    for entry in RAW["servers"]:
        texts = [entry.get("url", ""), *entry.get("headers", {}).values()]
        texts += [*entry.get("command", ()), *entry.get("environment", {}).values()]
        texts += [*entry.get("readable", ()), *entry.get("writable", ())]
        used = {name for text in texts for name in re.findall(r"\{([^}]*)\}", text)}
        assert used == {each["name"] for each in entry.get("needs", ())}, entry["name"]


@pytest.mark.django_db
@pytest.mark.parametrize(("server", "by_program"), WAYS)
def test_each_can_be_filled_in_and_saved(server: known.KnownServer, by_program: bool, settings: Any) -> None:
    settings.MCPHUB_CHILDREN_WRITABLE = ("/srv",)
    draft = known.draft_of(server, by_program=by_program)
    values = {blank.name: "a-secret-value" if blank.is_secret else "/srv/plain" for blank in draft.missing}
    saved = saving.save([saving.Chosen(draft=draft, slug=draft.slug, values=values)], reason="test")
    assert saved.refused == []
    row = McpConnection.objects.get()
    assert (row.slug, row.policy) == (server.name, McpConnection.Policy.HOLD_ALL)
    hidden = {blank.name for blank in draft.blanks if blank.is_secret and (blank.is_required or blank.value)}
    assert {each.name for each in Secret.objects.all()} == {f"{server.name}.{name}" for name in hidden}
    written = (row.url, row.headers, row.profile and (row.profile.arguments, row.profile.environment))
    assert "a-secret-value" not in str(written)


def test_one_is_found_by_a_word_and_an_unknown_one_is_told_with_what_is_near() -> None:
    assert {each.name for each in known.search("postgres")} >= {"postgres-pro", "neon"}
    with pytest.raises(LookupError, match="github-read-only"):
        known.find("github-read")


def test_what_is_missing_is_told_by_name() -> None:
    with pytest.raises(drafts.DraftRefused, match="LINEAR_API_KEY: fill this in"):
        drafts.filled(known.draft_of(known.find("linear")), {})
