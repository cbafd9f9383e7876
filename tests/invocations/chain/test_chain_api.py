"""Checkpoints and proofs over REST, checked with nothing but what an auditor has: the public key."""

from __future__ import annotations

import json
from hashlib import sha256

import jsonschema
import pytest
from rest_framework.test import APIClient

from invocations.chain.verifier import (
    Checkpoint,
    canonical,
    check_consistency,
    leaf_hash,
    root_from_inclusion,
)
from tests.invocations.chain.rows import event, fill
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def calls(transactional_db, database, sealer) -> list[str]:
    found = []
    for _ in range(5):
        found += fill(database, 3)
        event()
        sealer.seal()
    return found


@pytest.fixture
def auditor():
    return by_key("audit:read")


def hashes(words: list[str]) -> list[bytes]:
    return [bytes.fromhex(word) for word in words]


def test_checkpoints_are_listed_and_signed(calls, keys, auditor) -> None:
    rows = auditor.get("/api/audit/checkpoints/").json()["results"]
    assert [row["size"] for row in rows] == [5, 4, 3, 2, 1]
    assert rows[0]["rows"] > rows[-1]["rows"] >= 7
    for row in rows:
        checkpoint = Checkpoint.parse(row["note"])
        assert (checkpoint.size, checkpoint.root.hex()) == (row["size"], row["tree_root"])
        assert keys.publics()[0].has_signed(checkpoint.signature, checkpoint.text.encode())
    assert auditor.get("/api/audit/checkpoints/3").json() == rows[2]
    error_of(auditor.get("/api/audit/checkpoints/6/"), 404, "not_found")
    error_of(auditor.get("/api/audit/checkpoints/0/"), 404, "not_found")


def test_the_log_proves_that_it_only_grew(calls, auditor) -> None:
    for old in range(1, 6):
        for new in range(old, 6):
            found = auditor.get(f"/api/audit/consistency/{old}/{new}/").json()
            roots = bytes.fromhex(found["old_root"]), bytes.fromhex(found["new_root"])
            check_consistency(old, roots[0], new, roots[1], hashes(found["proof"]))
    error_of(auditor.get("/api/audit/consistency/3/9/"), 404, "not_found")
    error_of(auditor.get("/api/audit/consistency/3/2/"), 400, "invalid_params")


def test_one_call_proves_that_it_is_in_the_log(calls, auditor) -> None:
    for call in (calls[0], calls[7], calls[-1]):
        found = auditor.get(f"/api/audit/proofs/{call}/").json()
        checkpoint = Checkpoint.parse(found["checkpoint"])
        for name in ("invocation", "envelope"):
            proof = found[name]
            assert json.loads(proof["covered"])["invocation_id"] == call
            leaf = sha256(b"\x00" + proof["covered"].encode()).digest()
            assert leaf.hex() == proof["leaf"]
            root = root_from_inclusion(proof["index"], proof["block"]["count"], leaf, hashes(proof["row_path"]))
            assert root.hex() == proof["block"]["root"]
            block = leaf_hash(canonical(proof["block"]))
            number = proof["block"]["number"]
            assert root_from_inclusion(number, found["size"], block, hashes(proof["block_path"])) == checkpoint.root


def test_what_is_not_sealed_has_no_proof(calls, database, auditor) -> None:
    (call,) = fill(database, 1)
    for nothing in (call, "nothing", "%00"):
        error_of(auditor.get(f"/api/audit/proofs/{nothing}/"), 404, "not_found")


def test_events_tell_what_operators_did(calls, auditor) -> None:
    rows = auditor.get("/api/audit/events/?kind=tool.changed&limit=1").json()["results"]
    assert (rows[0]["before"], rows[0]["after"]) == ({"enabled": True}, {"enabled": False})


def test_who_may_not_read_the_audit_sees_none_of_it(calls) -> None:
    stranger, viewer = by_key("tools:call"), by_person("invocations.view_auditblock")
    for address in ("checkpoints/", "checkpoints/1/", "consistency/1/2/", f"proofs/{calls[0]}/", "events/"):
        error_of(stranger.get(f"/api/audit/{address}"), 403, "forbidden")
        assert viewer.get(f"/api/audit/{address}").status_code == (403 if address == "events/" else 200)


def test_answers_keep_to_the_schema(calls, auditor) -> None:
    schema = json.loads(APIClient().get("/api/schema").content)
    for url, path in [
        ("/api/audit/checkpoints/", "/api/audit/checkpoints/"),
        ("/api/audit/checkpoints/2/", "/api/audit/checkpoints/{size}/"),
        ("/api/audit/consistency/2/5/", "/api/audit/consistency/{old}/{new}/"),
        (f"/api/audit/proofs/{calls[0]}/", "/api/audit/proofs/{invocation_id}/"),
        ("/api/audit/events/", "/api/audit/events/"),
    ]:
        shape = schema["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**shape, "components": schema["components"]}).validate(auditor.get(url).json())
