"""Placeholders of clients: each is asked for or refused by its name, and none is kept as text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from mcphub.features.importers.configured import drafts, sources
from mcphub.features.importers.configured.drafts import Draft, DraftRefused
from tests.features.importers import configurations as told

PLACEHOLDERS = [
    ("${input:key}", "key"),
    ("${promptString:key}", "key"),
    ("${env:NAME}", "NAME"),
    ("${NAME}", "NAME"),
    ("$NAME", "NAME"),
    ("{env:NAME}", "NAME"),
    ("${env:NAME:?enter it}", "NAME"),
    ("{file:~/.secrets/token}", "token"),
    ("${file:/run/secrets/token}", "token"),
    ("${workspaceFolder}", "workspaceFolder"),
    ("${workspaceFolder:api}", "api"),
    ("${workspaceFolderBasename}", "workspaceFolderBasename"),
    ("${fileWorkspaceFolder}", "fileWorkspaceFolder"),
    ("${userHome}", "userHome"),
    ("${cwd}", "cwd"),
    ("${relativeFile}", "relativeFile"),
    ("${command:python.interpreterPath}", "python.interpreterPath"),
    ("${config:http.proxy}", "http.proxy"),
    ("${CLAUDE_PROJECT_DIR}", "CLAUDE_PROJECT_DIR"),
    ("${__dirname}", "__dirname"),
    ("${user_config.api}", "api"),
    ("${{ secrets.NAME }}", "NAME"),
    ("${{ inputs.NAME }}", "NAME"),
    ("{{NAME}}", "NAME"),
    ("{{ api.name }}", "api.name"),
    ("${{NAME}}", "NAME"),
    ("{{TOKEN}}", "TOKEN"),
    ("%APPDATA%", "APPDATA"),
    ("$(pwd)", "pwd"),
    ("$(op read key)", "output of op"),
]
"""As VS Code, Cursor, Claude Desktop and Code, Windsurf, Zed, Goose, Continue and opencode write them, with the name
that people are asked for."""


def draft_of(entry: dict[str, Any], folder: str = "") -> Draft:
    found = sources.read(json.dumps({"mcpServers": {"a": entry}}), folder=folder)
    assert found.refused == ()
    return found.drafts[0]


@pytest.mark.parametrize(("text", "name"), PLACEHOLDERS)
@pytest.mark.parametrize("place", ["command", "args", "flag", "env", "cwd", "headers", "url"])
def test_a_placeholder_is_asked_for_by_its_name_wherever_it_stands(text: str, name: str, place: str) -> None:
    far = {"headers": {"X-Team": f"a/{text}/b"}} if place == "headers" else {}
    entry: dict[str, Any] = {
        "command": {"command": f"{text}/bin/server"},
        "args": {"command": "x", "args": [f"{text}/root"]},
        "flag": {"command": "x", "args": [f"--root={text}/root"]},
        "env": {"command": "x", "env": {"ROOT": f"{text}/root"}},
        "cwd": {"command": "x", "cwd": f"{text}/root"},
        "headers": {"url": "https://a.example/mcp", **far},
        "url": {"url": f"https://a.example/{text}/mcp"},
    }[place]
    draft = draft_of(entry)
    assert [blank.name for blank in draft.missing] == [name]
    is_secret = draft.missing[0].is_secret
    if is_secret and place not in ("env", "headers"):
        with pytest.raises(DraftRefused, match=f"credential|{re.escape(name)} is a secret"):
            drafts.filled(draft, {name: "/given"})
        return
    made = drafts.filled(draft, {name: "/given"})
    stored = json.dumps([made.command, made.arguments, made.environment, made.headers, made.url, made.directory])
    assert text not in stored
    assert ("{secret:a." in stored) is is_secret
    assert ("/given" in stored) is not is_secret


def test_a_file_of_the_client_is_asked_for_as_a_secret() -> None:
    found = {draft.name: draft for draft in sources.read(told.OPENCODE_FILES).drafts}
    assert [(blank.name, blank.is_secret) for blank in found["issues"].missing] == [
        ("example-token", True),
        ("TEAM", False),
    ]
    made = drafts.filled(found["issues"], {"example-token": "abc", "TEAM": "blue"})
    assert made.headers == {"Authorization": "Bearer {secret:issues.example-token}", "X-Team": "blue"}
    assert [blank.name for blank in found["local"].missing] == ["folder", "MY_KEY"]


def test_the_folder_of_the_client_is_asked_for_in_the_command_too() -> None:
    draft = sources.read(told.VS_CODE_FOLDER).drafts[0]
    assert [blank.name for blank in draft.missing] == ["workspaceFolder"]
    made = drafts.filled(draft, {"workspaceFolder": "/srv/project"})
    assert (made.command, made.arguments) == ("/srv/project/.venv/bin/python", ("-m", "srv", "--root", "/srv/project"))


def test_goose_and_continue_write_yaml() -> None:
    goose = sources.read(told.GOOSE)
    found = {draft.name: draft for draft in goose.drafts}
    assert goose.refused == (("developer", "it is a part of the client (builtin), and no server."),)
    assert [blank.name for blank in found["issues"].missing] == ["HOME", "ISSUES_TOKEN"]
    assert drafts.filled(found["far"], {"FAR_TOKEN": "f"}).headers == {"Authorization": "Bearer {secret:far.FAR_TOKEN}"}
    files = sources.read(told.CONTINUE, folder="/srv/mine").drafts[0]
    made = drafts.filled(files, {"FILES_TOKEN": "t"})
    assert made.arguments == ("-y", "file-server", "/srv/mine/notes")
    assert made.environment == {"FILES_TOKEN": "{secret:files.FILES_TOKEN}"}


@pytest.mark.parametrize(
    ("entry", "asked", "resolved"),
    [
        ({"command": "./server"}, ["folder"], ["/srv/mine/server"]),
        ({"command": "bin/server"}, ["folder"], ["/srv/mine/bin/server"]),
        ({"command": "x", "args": ["../data"]}, ["folder"], ["x", "/srv/data"]),
        ({"command": "x", "args": ["--root=./data"]}, ["folder"], ["x", "--root=/srv/mine/data"]),
        ({"command": "x", "args": [".\\data\\a"]}, ["folder"], ["x", "/srv/mine/data/a"]),
        ({"command": "x", "args": ["."]}, ["folder"], ["x", "/srv/mine"]),
        ({"command": "python", "args": ["server.py"]}, ["folder"], ["python", "/srv/mine/server.py"]),
        ({"command": "node", "args": ["dist/a.js", "b.js"]}, ["folder"], ["node", "/srv/mine/dist/a.js", "b.js"]),
        ({"command": "x", "args": ["./a"], "cwd": "/srv/own"}, [], ["x", "/srv/own/a"]),
        ({"command": "x", "args": ["./a"], "cwd": "tools"}, ["folder"], ["x", "/srv/mine/tools/a"]),
        ({"command": "x", "args": ["./a"], "cwd": "${cwd}"}, ["cwd"], None),
        ({"command": "npx", "args": ["-y", "owner/package"]}, [], ["npx", "-y", "owner/package"]),
        ({"command": "python", "args": ["-m", "a.py"]}, [], ["python", "-m", "a.py"]),
        ({"command": "x", "args": ["..."]}, ["argument 1"], None),
    ],
)
def test_a_relative_path_starts_in_the_folder_of_the_file_or_is_asked_for(
    entry: dict[str, Any], asked: list[str], resolved: list[str] | None
) -> None:
    assert [blank.name for blank in draft_of(entry).missing] == asked
    if resolved is not None:
        made = drafts.filled(draft_of(entry, "/srv/mine"), {})
        assert [made.command, *made.arguments] == resolved


def test_a_script_for_a_shell_keeps_what_the_shell_fills_in() -> None:
    script = "cd ~/x && echo $TOKEN %PATH% $(date) <in"
    assert drafts.filled(draft_of({"command": "sh", "args": ["-c", script]}), {}).arguments == ("-c", script)
    draft = draft_of({"command": "sh", "args": ["-c", "echo ${workspaceFolder} $TOKEN"]})
    assert [blank.name for blank in draft.missing] == ["workspaceFolder"]


@pytest.mark.parametrize(
    "text", ["pa$word", "100%", "a <b", "50%20off", "^x$", "C:\\dir", "{{.Names}}", "a~b", "$5", "__main__", "{a}"]
)
def test_text_that_only_resembles_a_placeholder_stays(text: str) -> None:
    assert drafts.filled(draft_of({"command": "x", "args": [text]}), {}).arguments == (text,)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"command": "x", "args": ["${A:-${B}}"]}, "does not read the placeholder '${A:-'"),
        ({"url": "https://a.example/${unclosed"}, "does not read the placeholder '${unclosed'"),
        ({"command": "x", "env": {"${input:name}": "1"}}, "env: the name '${input:name}' is a placeholder"),
        ({"url": "https://a.example", "headers": {"{env:NAME}": "1"}}, "headers: the name '{env:NAME}'"),
    ],
)
def test_a_placeholder_that_cannot_be_asked_for_is_refused_by_its_name(entry: dict[str, Any], words: str) -> None:
    found = sources.read(json.dumps({"mcpServers": {"a": entry, "good": {"command": "x"}}}))
    assert [draft.name for draft in found.drafts] == ["good"]
    assert words in found.refused[0][1]


def test_a_gap_within_an_address_is_asked_for_and_one_in_a_password_is_no_password() -> None:
    draft = draft_of({"url": "https://<tenant>.example.com/mcp"})
    assert drafts.filled(draft, {"tenant": "acme"}).url == "https://acme.example.com/mcp"
    draft = draft_of({"command": "x", "env": {"DSN": "postgresql://<user>:<password>@db/x"}})
    assert [(blank.name, blank.is_secret) for blank in draft.missing] == [("DSN", True)]


@pytest.mark.parametrize("text", ["{{TOKEN}}", "<TOKEN>", "YOUR_TOKEN", "YOUR-TOKEN-HERE", "{TOKEN}", "__TOKEN__"])
def test_what_an_example_leaves_to_its_reader_is_no_credential(text: str) -> None:
    for entry in (
        {"url": "https://a.example", "headers": {"Authorization": f"Bearer {text}"}},
        {"command": "x", "env": {"API_TOKEN": text}},
        {"command": "x", "args": ["--api-token", text]},
    ):
        assert [blank.is_secret for blank in draft_of(entry).missing] == [True], entry


@pytest.mark.parametrize(("text", "name"), [("{{TOKEN}}", "TOKEN"), ("<TOKEN>", "TOKEN"), ("YOUR_TOKEN", "YOUR_TOKEN")])
def test_a_credential_that_an_address_leaves_open_is_not_stored_in_it(text: str, name: str) -> None:
    draft = draft_of({"url": f"https://a.example/mcp?team=a&token={text}&x=1"})
    assert [(blank.name, blank.is_secret) for blank in draft.missing] == [(name, True)]
    with pytest.raises(DraftRefused, match=r"credential|is a secret"):
        drafts.filled(draft, {name: "abc"})


def test_what_a_password_store_holds_is_asked_for() -> None:
    draft = draft_of({"command": "x", "env": {"TOKEN": "op://vault/item/field"}})
    assert [(blank.name, blank.is_secret) for blank in draft.missing] == [("TOKEN", True)]


def test_what_the_client_would_run_or_read_for_its_server_is_named() -> None:
    notes = " ".join(draft_of({"url": "https://a.example", "headersHelper": "/x/token", "envFile": "./.env"}).notes)
    assert "headersHelper is not run" in notes
    assert "envFile: ./.env is not read" in notes
