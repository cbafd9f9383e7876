"""Bodies that retention erased: REST says so, finds them, and tells what is left."""

from __future__ import annotations

import hashlib

import pytest

from sessions_app.protocol import json
from tests.factories import McpRequestEnvelopeFactory, McpToolInvocationFactory
from tests.invocations.chain.rows import retain
from tests.rest import by_key, by_person

pytestmark = pytest.mark.usefixtures("transactional_db")

LIST = "/api/invocations/"
CUT = {"truncated": True, "bytes": 9, "sha256": "a" * 64}


@pytest.fixture(autouse=True)
def rows(settings, tmp_path, transactional_db):
    """Old calls, whose bodies are erased, and a new one: whole, failed, cut short; then a whole one."""
    settings.MCPHUB_AUDIT_DIR = tmp_path / "audit"
    McpRequestEnvelopeFactory(invocation_id="old")
    McpToolInvocationFactory(invocation_id="old", arguments={"a": 1})
    McpToolInvocationFactory(invocation_id="failed", failed=True)
    McpToolInvocationFactory(invocation_id="cut", left_out={"arguments": CUT})
    retain(bodies_days=30)
    McpToolInvocationFactory(invocation_id="new")


def told(**query):
    answer = by_key("audit:read").get(LIST, query)
    assert answer.status_code == 200, answer.content
    return {row["invocation_id"]: row for row in answer.json()["results"]}


def digest(value):
    return hashlib.sha256(json.canonical(value).encode()).hexdigest()


def test_erased_bodies_are_told_from_none_and_from_hidden_ones():
    found = told()
    old = found["old"]
    assert (old["arguments"], old["result"], old["bodies_hidden"]) == (None, None, False)
    assert old["left_out"]["arguments"] == {"erased": True, "sha256": digest({"a": 1})}
    assert old["left_out"].keys() == {"arguments", "result"}
    assert found["failed"]["left_out"].keys() == {"arguments", "error"}
    assert found["cut"]["left_out"]["arguments"] == {**CUT, "erased": True}
    assert found["new"]["left_out"] is None
    detail = by_key("audit:read").get(f"{LIST}old/").json()
    assert detail["left_out"] == old["left_out"]


def test_members_that_are_asked_for_say_it_without_the_bodies():
    found = told(fields="invocation_id,left_out")
    assert {name for name, row in found.items() if row["left_out"]} == {"old", "failed", "cut"}


def test_who_may_not_read_bodies_learns_that_they_are_erased():
    row = by_person("invocations.view_mcptoolinvocation").get(f"{LIST}old/").json()
    assert (row["bodies_hidden"], row["left_out"]["arguments"]["erased"]) == (True, True)


def test_what_is_incomplete_is_found_with_what_was_erased():
    assert told(incomplete="true").keys() == {"old", "failed", "cut"}
    assert told(incomplete="false").keys() == {"new"}
    counted = by_key("audit:read").get(f"{LIST}statistics/", {"incomplete": "true"}).json()
    assert sum(row["calls"] for row in counted["groups"]) == 3
