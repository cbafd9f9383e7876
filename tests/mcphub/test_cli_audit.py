"""`mcphub audit` as an operator and an auditor use it, on a hub that served real calls."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from invocations.chain import verifier
from sessions_app.history.models import AuditEvent
from tests.in_process import inside, run
from tests.invocations.chain.receivers import Webhook
from tests.servers import Hub, free_port, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program

CALLS = 12
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "=cmd()", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def call(hub: Hub, number: int) -> None:
    params = {"name": "echo", "arguments": {"text": f"no {number}"}, "_meta": _META}
    headers = {
        "Authorization": f"Bearer {hub.key}",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "echo",
        "Accept": "application/json, text/event-stream",
    }
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    assert httpx2.post(f"{hub.url}/mcp", json=body, headers=headers, timeout=PATIENCE_SECONDS).status_code == 200


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of a hub that served some calls, was killed, and started once more."""
    folder = tmp_path_factory.mktemp("audited")
    fast = {"MCPHUB_LIMITS": "seal_seconds=0.1, checkpoint_seconds=0.1"}
    with Hub(folder / "hub", environment=fast) as hub:
        for number in range(CALLS):
            call(hub, number)
        until((hub.data / "audit" / "checkpoints").exists)
        call(hub, CALLS)
    return hub.data


@pytest.fixture
def data(served: Path, tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(served, tmp_path / "data")
    return tmp_path / "data"


def tampered(data: Path, statement: str) -> None:
    with sqlite3.connect(data / "hub.sqlite3") as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        assert raw.execute(statement).rowcount == 1
    raw.close()


def test_a_hub_that_stopped_left_nothing_unsealed(data: Path) -> None:
    done = run(data, "audit", "verify")
    assert (done.returncode, done.stderr) == (0, "")
    assert "are as they were sealed" in done.stdout
    assert "Every row is sealed." in done.stdout


def test_a_changed_row_ends_verify_with_status_1_and_its_name(data: Path) -> None:
    tampered(data, "UPDATE invocations_mcptoolinvocation SET principal = 'key:9' WHERE id = 5")
    done = run(data, "audit", "verify")
    assert done.returncode == 1
    assert done.stderr.startswith("BAD: invocation 5 (position ")
    assert "was changed after it was sealed" in done.stderr


def test_an_export_verifies_without_the_hub(data: Path, tmp_path: Path) -> None:
    """In an environment that has `cryptography` and nothing else, by the one file alone."""
    export = tmp_path / "audit.jsonl"
    done = run(data, "audit", "export", "--output", str(export))
    assert done.returncode == 0, done.stderr
    alone = tmp_path / "verify_audit.py"
    shutil.copy(verifier.__file__, alone)
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    ours, theirs = Path(sysconfig.get_paths()["purelib"]), next((bare / "lib").glob("python*/site-packages"))
    for name in ("cryptography", "cffi", "pycparser", "_cffi_backend*"):
        for found in ours.glob(name):
            (theirs / found.name).symlink_to(found)
    words = [bare / "bin" / "python", "-I", alone, export, "--key", data / "audit" / "public.keys"]
    python = {"PATH": os.environ["PATH"]}

    def judge(*more: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, *more], env=python, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )

    assert (
        "ModuleNotFoundError"
        in subprocess.run(
            [*words[:2], "-c", "import django"], env=python, capture_output=True, text=True, check=False
        ).stderr
    )
    good = judge("--checkpoint", data / "audit" / "checkpoints")
    assert (good.returncode, good.stderr) == (0, ""), good.stderr
    assert "are as they were sealed" in good.stdout
    lines = export.read_text().splitlines(keepends=True)
    changed = next(at for at, line in enumerate(lines) if '"row":"invocation"' in line)
    export.write_text("".join([*lines[:changed], lines[changed].replace("no 0", "no 1"), *lines[changed + 1 :]]))
    bad = judge()
    assert bad.returncode == 1
    assert f"BAD: invocation {json.loads(lines[changed])['id']} (position " in bad.stderr
    assert judge("--key", tmp_path / "nothing").returncode == 2
    with inside(data):
        assert AuditEvent.objects.filter(kind="audit.exported").exists()


def test_an_export_that_was_cut_off_is_resumed(data: Path, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert run(data, "audit", "export", "-o", str(whole), "--last-block", "1").returncode == 0
    raw = whole.read_bytes()
    blocks = [at for at, line in enumerate(raw.splitlines(keepends=True)) if line.startswith(b'{"block"')]
    assert len(blocks) == 2
    for length in (len(raw) // 2, len(raw) - 3, sum(len(line) for line in raw.splitlines(keepends=True)[: blocks[1]])):
        cut.write_bytes(raw[:length])
        done = run(data, "audit", "export", "-o", str(cut), "--resume", "--last-block", "1")
        assert done.returncode == 0, done.stderr
        assert cut.read_bytes() == raw
    wrong = run(data, "audit", "export", "-o", str(cut), "--resume", "--tool", "other")
    assert (wrong.returncode, "other filters" in wrong.stderr) == (2, True)


def test_csv_is_safe_to_open_in_a_spreadsheet(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "calls.csv"
    assert run(data, "audit", "export", "--format", "csv", "-o", str(file), "--tool", "echo").returncode == 0
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == CALLS + 1
    assert {row["client_name"] for row in rows} == {"'=cmd()"}
    assert json.loads(rows[0]["arguments"]) == {"text": "no 0"}
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) // 2])
    assert (
        run(data, "audit", "export", "--format", "csv", "-o", str(file), "--tool", "echo", "--resume").returncode == 0
    )
    assert file.read_bytes() == raw


def test_a_key_is_rotated_and_the_first_one_still_suffices(data: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.keys"
    shutil.copy(data / "audit" / "public.keys", first)
    before = (data / "audit" / "signing.key").read_text()
    done = run(data, "audit", "rotate-key")
    assert done.returncode == 0, done.stderr
    assert (data / "audit" / "signing.key").read_text() != before
    assert run(data, "token", "create", "another").returncode == 0
    note = run(data, "audit", "checkpoint").stdout
    assert verifier.Checkpoint.parse(note).key_id in done.stdout
    assert run(data, "audit", "verify", "--key", str(first)).returncode == 0


def test_doctor_says_when_the_audit_cannot_be_sealed(data: Path) -> None:
    assert "ok    audit" in run(data, "doctor").stdout
    checkpoints = data / "audit" / "checkpoints"
    with sqlite3.connect(data / "hub.sqlite3") as raw:
        (last,) = raw.execute("SELECT max(number) FROM invocations_auditblock").fetchone()
    raw.close()
    tampered(data, f"DELETE FROM invocations_auditblock WHERE number = {last}")
    assert checkpoints.exists()
    assert "which the log does not have" in run(data, "doctor").stdout
    (data / "audit" / "signing.key").unlink()
    assert "signing key" in run(data, "doctor").stdout


def test_a_lost_key_begins_anew_and_auditors_are_told(data: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.keys"
    shutil.copy(data / "audit" / "public.keys", first)
    assert run(data, "audit", "rotate-key", "--lost").returncode == 2  # it is there
    (data / "audit" / "signing.key").unlink()
    assert "rotate-key --lost" in run(data, "audit", "rotate-key").stderr
    assert run(data, "audit", "rotate-key", "--lost").returncode == 0
    judged = run(data, "audit", "verify", "--key", str(first))
    assert (judged.returncode, "which no trusted key introduced" in judged.stderr) == (1, True)
    assert run(data, "audit", "verify").returncode == 0


def test_a_key_that_the_hub_is_given_follows_the_one_on_disk(data: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.keys"
    shutil.copy(data / "audit" / "public.keys", first)
    made = run(data, "audit", "new-key")
    private, public = made.stdout.strip(), made.stderr.splitlines()[0]
    file = tmp_path / "credential"
    file.write_text(private + "\n")
    given = {"MCPHUB_SIGNING_KEY_FILE": str(file)}
    assert run(data, "token", "create", "one", **given).returncode == 0
    assert "is signed with the key" in run(data, "audit", "checkpoint", **given).stderr
    done = run(data, "audit", "rotate-key", "--to", public)
    assert (done.returncode, done.stdout.strip()) == (0, public), done.stderr
    (data / "audit" / "signing.key").unlink()
    assert run(data, "token", "create", "another", **given).returncode == 0
    note = run(data, "audit", "checkpoint", **given)
    assert verifier.Checkpoint.parse(note.stdout).key_id in public, note.stderr
    assert run(data, "audit", "verify", "--key", str(first)).returncode == 0
    assert "--to PUBLIC-KEY" in run(data, "audit", "rotate-key", **given).stderr
    assert "ok    audit" in run(data, "doctor", **given).stdout
    assert "No such file" in run(data, "doctor", MCPHUB_SIGNING_KEY_FILE=str(tmp_path / "gone")).stdout
    both = run(data, "audit", "verify", **given, MCPHUB_SIGNING_COMMAND="kms")
    assert (both.returncode, "Set only one of" in both.stderr) == (2, True)


def test_a_key_in_the_environment_reaches_no_child(tmp_path: Path) -> None:
    private = run(tmp_path / "hub" / "data", "audit", "new-key").stdout.strip()
    fast = {"MCPHUB_LIMITS": "seal_seconds=0.1, checkpoint_seconds=0.1", "MCPHUB_SIGNING_KEY": private}
    with Hub(tmp_path / "hub", environment=fast, flags=["--workers", "2"]) as hub:
        call(hub, 1)
        until((hub.data / "audit" / "checkpoints").exists)
        hub.end_operator()
        environments = until(lambda: seen if len(seen := environments_of(hub.pid)) >= 3 else None)
        carried = {child for child, environment in environments.items() if private.encode() in environment}
        assert carried <= set(descendants(hub.pid, deep=False)), "workers are forked; nothing they start has it"
    assert not (hub.data / "audit" / "signing.key").exists()
    del hub.environment["MCPHUB_SIGNING_KEY"]
    assert "published checkpoint" in hub.command("audit", "verify")


def descendants(pid: int, *, deep: bool = True) -> list[int]:
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *(descendants(child) if deep else [])]
    return found


def environments_of(pid: int) -> dict[int, bytes]:
    """Return those of all descendants: two workers, and the sealing process of one of them.

    A look may miss some: two workers may start a sealing process at once, and the second one leaves.
    """
    return {child: environment for child in descendants(pid) if (environment := environment_of(child))}


def environment_of(pid: int) -> bytes:
    """Nothing, when it has ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_checkpoints_leave_for_a_webhook_and_verify_from_there(tmp_path: Path) -> None:
    port = free_port()
    settings = {
        "MCPHUB_LIMITS": "seal_seconds=0.1, checkpoint_seconds=0.1, checkpoint_tries=1",
        "MCPHUB_CHECKPOINT_WEBHOOK": f"http://127.0.0.1:{port}/hook",
        "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
    }
    with Hub(tmp_path / "hub", environment=settings) as hub:
        call(hub, 1)
        parts = until(lambda: audit_part(hub))
        assert "do not arrive at webhook" in parts
        call(hub, 2)  # goes on
        with Webhook(port) as webhook:
            until(lambda: not audit_part(hub))
            brought = webhook.bodies.get(timeout=PATIENCE_SECONDS)
            note = hub.command("audit", "checkpoint").encode()
            until(lambda: note in [brought, *webhook.bodies.queue])  # kept after the answer
    kept = tmp_path / "kept"
    kept.write_bytes(brought)
    assert "1 published checkpoints agree" in hub.command("audit", "verify", "--checkpoint", str(kept))


def audit_part(hub: Hub) -> str:
    """What /ready says of the audit; nothing where it says nothing."""
    return str(httpx2.get(f"{hub.url}/ready", timeout=PATIENCE_SECONDS).json()["parts"].get("audit", ""))


def test_a_log_that_was_cut_is_found_by_the_published_checkpoints(data: Path) -> None:
    with sqlite3.connect(data / "hub.sqlite3") as raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        last = raw.execute("SELECT max(number) FROM invocations_auditblock").fetchone()[0]
        header = json.loads(
            raw.execute("SELECT header FROM invocations_auditblock WHERE number = ?", [last]).fetchone()[0]
        )
        for table, name in (
            ("envelope", "invocations_mcprequestenvelope"),
            ("invocation", "invocations_mcptoolinvocation"),
            ("event", "sessions_app_auditevent"),
        ):
            raw.execute(f"DELETE FROM {name} WHERE id > ?", [header[table][0]])
        raw.execute("DELETE FROM invocations_auditblock WHERE number = ?", [last])
        raw.execute("DELETE FROM invocations_auditleaves WHERE block_id = ?", [last])
    raw.close()
    done = run(data, "audit", "verify")
    assert (done.returncode, "The log is truncated" in done.stderr) == (1, True)
    published = (data / "audit" / "checkpoints").read_bytes()
    for verb in ("checkpoint", "rotate-key"):  # what they would publish would speak for the cut log
        refused = run(data, "audit", verb)
        assert (refused.returncode, "Nothing was sealed" in refused.stderr) == (1, True)
        assert refused.stderr.startswith("BAD: ")
    assert (data / "audit" / "checkpoints").read_bytes() == published
    (data / "audit" / "checkpoints").unlink()
    done = run(data, "audit", "verify")
    assert (done.returncode, "No checkpoint was found" in done.stdout) == (1, True)
    assert "OPEN ALARM" in done.stdout  # what was found before, though nothing shows it any more
    assert json.loads(run(data, "audit", "verify", "--json").stdout)["ok"] is False
    assert run(data, "audit", "lift-alarm", "--reason", " ").returncode != 0
    assert "lifted, 0 open" in run(data, "audit", "lift-alarm", "--reason", "the test cut it").stdout
    assert run(data, "audit", "verify").returncode == 0
    assert run(data, "audit", "lift-alarm", "--reason", "again").returncode == 1


def test_the_policy_is_shown_and_changed(data: Path) -> None:
    assert run(data, "audit", "policy").stdout == "rows    for ever\nbodies  as long as rows\n"
    assert "30 days" in run(data, "audit", "policy", "--bodies-days", "30", "--reason", "privacy").stdout
    assert run(data, "audit", "policy", "--rows-days", "20").returncode == 2
    assert "for ever" in run(data, "audit", "policy", "--rows-days", "forever").stdout
    assert run(data, "audit", "retain", "--dry-run").stdout.startswith("0 rows would be removed")
    assert run(data, "audit", "retain").returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["verify", "nowhere.jsonl"],
        ["verify", "--key", "nowhere"],
        ["export", "--resume"],
        ["export", "--from", "soon"],
        ["policy", "--rows-days", "0"],
        ["export", "-o", "/nowhere/x"],
        ["export", "--first-block", "-1"],
        ["export", "--first-block", "99999"],
    ],
    ids=" ".join,
)
def test_wrong_words_end_with_a_sentence(words: list[str], served: Path) -> None:
    done = run(served, "audit", *words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()


def test_a_hold_is_set_listed_and_released(data: Path) -> None:
    words = ["set", "case 7", "--tool", "echo", "--from", "2026-01-01", "--reason", "court"]
    assert run(data, "audit", "hold", *words).stdout == "case 7 holds\n"
    listed = run(data, "audit", "hold", "list").stdout
    assert listed == "holds     case 7  tool=echo from=2026-01-01T00:00:00+00:00  court\n"
    assert run(data / "another", "audit", "hold", "list", "--data-dir", str(data)).stdout == listed
    released = run(data, "audit", "hold", "release", "case 7", "--reason", "closed")
    assert released.stdout == "case 7 is released\n"
    again = run(data, "audit", "hold", "release", "case 7", "--reason", "x")
    assert (again.returncode, "no hold named" in again.stderr) == (2, True)
