"""Checkpoints and proofs over REST, checked with nothing but what an auditor has: the public key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import jsonschema
import pytest
from rest_framework.test import APIClient

from invocations.chain import verifier
from invocations.chain.keys import Signer
from invocations.chain.verifier import (
    Bad,
    Checkpoint,
    canonical,
    check_consistency,
    check_proof,
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
    error_of(auditor.get("/api/audit/consistency/3/2/"), 404, "not_found")


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


def test_one_event_proves_that_it_is_in_the_log(calls, keys, auditor) -> None:
    rows = auditor.get("/api/audit/events/?kind=tool.changed").json()["results"]
    assert len(rows) == 5
    for row in rows:
        place = f"/api/audit/events/{row['sequence']}/"
        found = auditor.get(f"{place}proof/").json()
        [values] = check_proof(found, keys.publics())
        assert (values["kind"], json.loads(values["after"])) == ("tool.changed", row["after"])
        assert auditor.get(place).json() == row
    event()
    unsealed = auditor.get("/api/audit/events/?limit=1").json()["results"][0]["sequence"]
    for nothing in (unsealed, 10**17):
        error_of(auditor.get(f"/api/audit/events/{nothing}/proof/"), 404, "not_found")


def test_no_part_of_a_proof_can_change_unseen(calls, keys, auditor) -> None:
    """Each value of it, at any depth: a number by one, a text by its last character, a list by its last member."""
    whole = auditor.get(f"/api/audit/proofs/{calls[4]}/").json()
    assert [values["invocation_id"] for values in check_proof(whole, keys.publics())] == [calls[4]] * 2
    tried = 0
    for changed in changes(whole):
        if not {"invocation", "envelope"} <= changed.keys():
            continue  # a proof of the other row
        tried += 1
        with pytest.raises(Bad):
            check_proof(changed, keys.publics())
    assert tried > 80
    with pytest.raises(Bad, match="not trusted"):
        check_proof(whole, [Signer.make(keys.publics()[0].name).public])


def changes(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield {key: each for key, each in value.items() if key != name}
            yield from ({**value, name: changed} for changed in changes(inner))
    elif isinstance(value, list):
        yield value[:-1]
        for at, inner in enumerate(value):
            yield from ([*value[:at], changed, *value[at + 1 :]] for changed in changes(inner))
    elif isinstance(value, str):
        yield value[:-1] + ("0" if value[-1:] != "0" else "1")
    else:
        yield value + 1


def test_a_file_with_a_proof_is_checked_without_the_hub(calls, keys, auditor, tmp_path, capsys) -> None:
    sequence = auditor.get("/api/audit/events/?kind=tool.changed&limit=1").json()["results"][0]["sequence"]
    file, trusted = tmp_path / "proof.json", tmp_path / "keys"
    file.write_bytes(auditor.get(f"/api/audit/events/{sequence}/proof/").content)
    trusted.write_text(f"{keys.publics()[0]}\n")
    assert verifier.main(["--proof", str(file), "--key", str(trusted)]) == 0
    assert f"event {sequence} is in the log of 5 blocks" in capsys.readouterr().out
    file.write_text(file.read_text().replace("tool.changed", "tool.deleted"))
    with pytest.raises(SystemExit, match="1"):
        verifier.main(["--proof", str(file), "--key", str(trusted)])
    assert f"BAD: event {sequence}" in capsys.readouterr().err


def test_what_is_not_sealed_has_no_proof(calls, database, auditor) -> None:
    (call,) = fill(database, 1)
    for nothing in (call, "nothing", "%00"):
        error_of(auditor.get(f"/api/audit/proofs/{nothing}/"), 404, "not_found")


def test_events_tell_what_operators_did(calls, auditor) -> None:
    rows = auditor.get("/api/audit/events/?kind=tool.changed&limit=1").json()["results"]
    assert (rows[0]["before"], rows[0]["after"]) == ({"enabled": True}, {"enabled": False})


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("text=echo", True),
        ("text=ECHO", True),
        ("text=nobody+of+the+kind", False),
        ("about=tool", True),
        ("about=key&text=echo", False),
        ("via=system", None),
        ("happened_before=2020-01-01", False),
    ],
)
def test_who_changed_something_is_found_by_words_of_it(calls, auditor, asked, found) -> None:
    rows = auditor.get(f"/api/audit/events/?{asked}").json()["results"]
    if found is None:
        assert {row["via"] for row in rows} <= {"system"}
    else:
        assert any(row["kind"] == "tool.changed" for row in rows) is found
    error_of(auditor.get("/api/audit/events/?about=nothing"), 400, "invalid_params")


def test_who_may_not_read_the_audit_sees_none_of_it(calls) -> None:
    stranger, viewer = by_key("tools:call"), by_person("invocations.view_auditblock")
    for address in ("checkpoints/", "checkpoints/1/", "consistency/1/2/", f"proofs/{calls[0]}/", "events/"):
        error_of(stranger.get(f"/api/audit/{address}"), 403, "forbidden")
        assert viewer.get(f"/api/audit/{address}").status_code == (403 if address == "events/" else 200)


def test_answers_keep_to_the_schema(calls, auditor) -> None:
    schema = json.loads(APIClient().get("/api/schema").content)
    first = auditor.get("/api/audit/events/?kind=tool.changed").json()["results"][-1]["sequence"]
    for url, path in [
        ("/api/audit/checkpoints/", "/api/audit/checkpoints/"),
        ("/api/audit/checkpoints/2/", "/api/audit/checkpoints/{size}/"),
        ("/api/audit/consistency/2/5/", "/api/audit/consistency/{old}/{new}/"),
        (f"/api/audit/proofs/{calls[0]}/", "/api/audit/proofs/{invocation_id}/"),
        ("/api/audit/events/", "/api/audit/events/"),
        (f"/api/audit/events/{first}/", "/api/audit/events/{sequence}/"),
        (f"/api/audit/events/{first}/proof/", "/api/audit/events/{sequence}/proof/"),
    ]:
        shape = schema["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**shape, "components": schema["components"]}).validate(auditor.get(url).json())
