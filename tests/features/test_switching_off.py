"""`MCPHUB_FEATURES` leaves features out: the core and the others work, and nothing of what is left out is there."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from mcphub import feature_list
from mcphub.parts import HubCommand, RowsInForce
from mcphub.process import unenforced
from tests import forking, template

TOOLBOX = Path(__file__).parent.parent / "toolbox" / "bundle.json"
ALWAYS = [name for name, config in feature_list.known().items() if config.always]
OPTIONAL = [name for name, config in feature_list.known().items() if not config.always]
SERVED_BY = {
    "/v1/models": "chat",
    "/api/model-prices/": "chat",
    "/api/notices/": "notifications",
    "/api/approvals/": "approvals",
    "/api/alerts/": "alerts",
    "/api/guardrails/": "guardrails",
    "/api/policy-rules/": "call_rules",
    "/api/errors/": "error_groups",
    "/api/quotas/": "quotas",
    "/api/audit/shipping/": "audit_export",
    "/scim/v2/Users": "scim",
    "/mcp/messages": "remote_profile",
    "/connect/callback/": "accounts",
    "/mcp/server-card": "cards",
}
"""Address -> the feature that serves it."""
_TEXTS = ("words", "loaded_by")
_ON: dict[str, Any] = {
    **dict.fromkeys(_TEXTS, ""),
    "enabled": True,
    "watching": False,
    "version": 1,
    "created_at": "2026-01-01",
    "updated_at": "2026-01-01",
}
IN_FORCE: dict[str, dict[str, Any]] = {
    "tools_catalog_mcpguardrail": {
        **_ON,
        **dict.fromkeys(("target", "function", "service", "path", "on_failure"), ""),
        "name": "no-mail",
        "applies_to": "all",
        "direction": "arguments",
        "checked_by": "detectors",
        "detectors": "email",
        "action": "refuse",
        "seconds": 2,
        "position": 0,
    },
    "invocations_mcptoolapproval": {"tool_id": 1, "policy": "always"},
    "tools_catalog_mcppolicyrule": {
        **_ON,
        "name": "no-sums",
        "applies_to": "tool",
        "target": "add",
        "condition": "",
        "effect": "deny",
        "priority": 0,
        "ask_decider": "another",
        "ask_group": "",
        "ask_needed": 1,
        "ask_seconds": 60,
    },
}
"""Policies, as the tables have them where no module of their features is imported."""
ASKED_FIRST = {
    **IN_FORCE["tools_catalog_mcppolicyrule"],
    "name": "ask-first",
    "target": "tell_list_plainly",
    "effect": "ask",
}
REPORTED = {
    "guardrails": "The feature guardrails is off. Enabled guardrails that inspect no calls: 1.",
    "call_rules": "The feature call_rules is off. Enabled call rules without effect: 2.",
    "approvals": "The feature approvals is off. Approval policies whose calls wait for nobody: 1.",
}


IN_FORCE_OF_FEATURES = [
    part for config in feature_list.known().values() for part in config.parts if isinstance(part, RowsInForce)
]


def run(folder: Path, words: str) -> dict[str, Any]:
    template.copy_to(folder / "hub.sqlite3", bundle=TOOLBOX, apps="tests.toolbox")
    with contextlib.closing(sqlite3.connect(folder / "hub.sqlite3")) as database, database:
        for table, row in (*IN_FORCE.items(), ("tools_catalog_mcppolicyrule", ASKED_FIRST)):
            database.execute(
                f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", [*row.values()]
            )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    environment |= {
        "MCPHUB_DATA_DIR": str(folder),
        "MCPHUB_APPS": "tests.toolbox",
        "MCPHUB_ALLOW_ANONYMOUS": "1",
        "MCPHUB_ALLOW_NOT_DURABLE": "1",
        "MCPHUB_LEDGER_TIMEOUT_SECONDS": "20",  # as for each hub of tests
        "MCPHUB_FEATURES": words,
    }
    done = forking.run("tests.features.without", env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = {"logged": done.stderr.splitlines(), **json.loads(done.stdout.splitlines()[-1])}
    return found


def commands_of(names: list[str]) -> set[str]:
    parts = (part for name in names for part in feature_list.known()[name].parts)
    return {part.name for part in parts if isinstance(part, HubCommand)}


def check(found: dict[str, Any], on: list[str]) -> None:
    assert found["features"] == on
    assert set(found["imported"]) <= set(on), "a module of a feature that is off was imported"
    assert found["call"]["result"]["content"][0]["text"] == "told 0"
    asked = found["asked"]["result"]
    assert asked.get("isError", False) is ("call_rules" in on and "approvals" not in on)
    assert ("Not run yet" in asked["content"][0]["text"]) is ("call_rules" in on and "approvals" in on)
    assert {page: status for page, status in found["pages"].items() if status != "200"} == {}
    served = {path for path, status in found["addresses"].items() if status != 404}
    assert served == {path for path, feature in SERVED_BY.items() if feature in on}
    kept = "Still used by rows of a feature that is switched off, in invocations_mcpquota (1)."
    assert {way: said for way, said in found["deletions"].items() if kept not in said} == {}
    assert bool(found["deletions"]) is ("quotas" not in on)
    reports = [found["unenforced"], [found["banner"]], found["logged"]]
    for feature, words in REPORTED.items():
        assert [any(words in line for line in lines) for lines in reports] == [feature not in on] * 3
    assert set(found["commands"]) & commands_of(list(feature_list.known())) == commands_of(on)


@pytest.mark.program
@pytest.mark.slow
def test_the_core_alone_serves_its_pages_and_a_call(tmp_path: Path) -> None:
    found = run(tmp_path, feature_list.NONE)
    check(found, ALWAYS)
    (finding,) = found["findings"]
    assert all(name in finding for name in OPTIONAL)


@pytest.mark.program
@pytest.mark.slow
def test_calls_that_a_rule_asks_about_are_refused_where_nobody_can_approve(tmp_path: Path) -> None:
    found = run(tmp_path, "call_rules")
    check(found, sorted({"call_rules", *ALWAYS}))
    assert "switches the feature approvals on" in found["asked"]["result"]["content"][0]["text"]


@pytest.mark.program
def test_a_setting_that_nobody_could_follow_stops_the_start(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "MCPHUB_DATA_DIR": str(tmp_path),
        "MCPHUB_FEATURES": "-approvals -chat -demo -embeddings",
        "MCPHUB_APPROVAL": "always",
    }
    done = forking.run("mcphub.settings", env=environment, timeout=300)
    assert "MCPHUB_APPROVAL is always, and MCPHUB_FEATURES leaves approvals out" in done.stderr


@pytest.mark.rig
@pytest.mark.long
@pytest.mark.parametrize("name", OPTIONAL)
def test_each_feature_may_be_left_out(name: str, tmp_path: Path) -> None:
    off = [name]
    for each in off:
        off += [other for other, config in feature_list.known().items() if each in config.requires and other not in off]
    found = run(tmp_path, " ".join(f"-{each}" for each in off))
    check(found, [each for each in feature_list.known() if each not in off])


@pytest.mark.django_db
@pytest.mark.parametrize("part", IN_FORCE_OF_FEATURES, ids=lambda part: part.table)
def test_policies_of_a_feature_are_counted_without_its_modules(part: RowsInForce) -> None:
    assert unenforced.count(part) == 0


def test_no_word_chooses_all_features() -> None:
    assert feature_list.chosen([]) == list(feature_list.known())


def test_names_choose_these_and_those_that_are_always_on() -> None:
    assert feature_list.chosen(["backup"]) == sorted({"backup", *ALWAYS})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chatt"], "there is no such feature. Features are access_review, "),
        (["-chatt"], "names -chatt, and there is no such feature"),
        (["-none"], "names -none, and there is no such feature"),
        (
            ["-quotas"],
            "without which chat, demo, embeddings cannot be on. Leave out chat, demo, embeddings too, or keep",
        ),
        (["backup", "embeddings"], "Leave out embeddings too, or keep chat"),
        (["chat", "-scim"], "mixes names with names to leave out"),
        (["-login"], "cannot leave out login"),
    ],
)
def test_words_that_choose_nothing_sensible_are_rejected(words: list[str], said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        feature_list.chosen(words)


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_feature_can_be_left_out_with_those_that_the_refusal_names(name: str) -> None:
    words = [f"-{name}"]
    try:
        feature_list.chosen(words)
    except ImproperlyConfigured as refusal:
        named = str(refusal).partition("Leave out ")[2].partition(" too, or keep")[0].split(", ")
        words += [f"-{each}" for each in named]
    assert not {word[1:] for word in words}.intersection(feature_list.chosen(words))
