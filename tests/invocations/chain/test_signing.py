"""The signing key elsewhere: its text given at the start, or behind a command that the hub asks for signatures."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from invocations.chain.commanding import SigningCommand
from invocations.chain.keys import KeyFolder, KeyProblem, KeySource, Signer, sign_checkpoint
from invocations.chain.sealer import Sealer
from tests.invocations.chain.processes import Process
from tests.invocations.chain.rows import fill, verify
from tests.servers import until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("transactional_db")

KMS = """
import base64, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex("{seed}"))
if sys.argv[1:] == ["--public"]:
    raw = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    print(base64.b64encode(raw).decode())
else:
    sys.stdout.write(base64.b64encode(key.sign(sys.stdin.buffer.read())).decode())
"""
"""A key of its own, which the hub never sees."""


def command(folder: Path, script: str, seconds: float = PATIENCE_SECONDS) -> SigningCommand:
    file = folder / "kms.py"
    file.write_text(script)
    return SigningCommand((sys.executable, str(file)), seconds)


def commanded(folder: Path, script: str, public_key: str = "", seconds: float = PATIENCE_SECONDS) -> KeyFolder:
    source = KeySource(source="MCPHUB_SIGNING_COMMAND", command=command(folder, script, seconds), public_key=public_key)
    return KeyFolder(folder / "audit", source)


@pytest.fixture
def kms() -> str:
    return KMS.replace("{seed}", "07" * 32)


@pytest.mark.program
def test_a_log_is_signed_by_a_command_and_no_private_key_is_on_disk(database, log, kms, tmp_path) -> None:
    keys = commanded(tmp_path, kms)
    sealer = Sealer(log, keys)
    for _ in range(2):
        fill(database, 1)
        assert sealer.seal() == 2
    assert verify(log, keys).blocks == 2
    assert not keys.private.exists()
    assert len(keys.publics()) == 1
    sealer.check_key()
    carried = KeySource.of(json.loads(json.dumps(keys.given.words())))
    assert KeyFolder(keys.folder, carried).signer().public == keys.publics()[0]


@pytest.mark.program
def test_the_public_key_may_come_from_a_setting_in_any_usual_form(kms, tmp_path) -> None:
    public = Ed25519PrivateKey.from_private_bytes(b"\x07" * 32).public_key()
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert load_der_public_key(der)
    forms = [
        base64.b64encode(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode(),
        base64.b64encode(der).decode(),
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
    ]
    asked = commanded(tmp_path, kms).signer().public
    for form in [*forms, str(asked)]:
        assert commanded(tmp_path, kms, form).signer().public == asked
    with pytest.raises(KeyProblem, match="public key cannot be read"):
        commanded(tmp_path, kms, "nonsense").signer()


@pytest.mark.program
@pytest.mark.parametrize(
    ("script", "seconds", "words"),
    [
        ("import sys; sys.exit(3)", PATIENCE_SECONDS, "ended with status 3"),
        ("print('no signature')", PATIENCE_SECONDS, "gave no Ed25519 signature"),
        ("import sys; sys.stdout.buffer.write(bytes(64))", PATIENCE_SECONDS, "does not fit the public key"),
        ("import sys\nwhile True: sys.stdout.write('x' * 1000)", PATIENCE_SECONDS, "gave more than 4096 bytes"),
        ("import time; time.sleep(3600)", 0.5, "did not end in 0.5 seconds"),
        ("import subprocess; subprocess.Popen(['sleep', '3600'])", 0.5, "did not end in 0.5 seconds"),
        ("import os, time; os.close(1); time.sleep(3600)", 0.5, "did not end in 0.5 seconds"),
    ],
)
def test_a_command_that_gives_no_signature_is_a_problem_that_says_why(
    kms, tmp_path, script: str, seconds: float, words: str
) -> None:
    public = str(commanded(tmp_path, kms).signer().public)
    signer = commanded(tmp_path, script, public, seconds).signer()
    with pytest.raises(KeyProblem, match=words):
        sign_checkpoint(signer, 1, bytes(32))


@pytest.mark.program
def test_a_command_that_is_not_there_is_a_problem(tmp_path) -> None:
    source = KeySource(source="MCPHUB_SIGNING_COMMAND", command=SigningCommand(("/nowhere/kms",), 1))
    with pytest.raises(KeyProblem, match=r"MCPHUB_SIGNING_COMMAND: /nowhere/kms cannot be run: No such file"):
        KeyFolder(tmp_path / "audit", source).signer()


def test_a_key_that_was_given_signs_and_is_written_nowhere(database, log, tmp_path) -> None:
    key = Signer.make("log.example/audit")
    given = KeySource(text=str(key), source="MCPHUB_SIGNING_KEY")
    keys = KeyFolder(tmp_path / "audit", given)
    fill(database, 1)
    assert Sealer(log, keys).seal() == 2
    assert verify(log, keys).keys == [key.public.key_id]
    assert [file.name for file in keys.folder.iterdir()] == ["public.keys"]
    assert str(key) not in repr(given)
    for text, problem in (("nonsense", ""), ("", "Permission denied")):
        with pytest.raises(KeyProblem, match=r"holds no signing key|Permission denied"):
            KeyFolder(keys.folder, KeySource(text=text, source="MCPHUB_SIGNING_KEY_FILE", problem=problem)).signer()


@pytest.mark.program
def test_the_sealing_process_signs_with_what_it_is_given(database, log, kms, tmp_path) -> None:
    keys = commanded(tmp_path, kms)
    fill(database, 1)
    process = Process(folder=str(keys.folder), signing=keys.given.words())
    try:
        until(lambda: log.size() == 1)
    finally:
        process.end()
    assert verify(log, keys).blocks == 1
