"""A hub with a hostile child: as root, and as a user without rights, whom a test that is root makes one."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.servers import ROOT, Hub, until
from tests.upstreams.conftest import PEERS, Operator
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker

ATTACKER = PEERS / "attacker.py"
CANARY = "canary-of-the-hub"
PLAIN = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
POSTGRESQL = 5432


class PlainHub(Hub):
    """A hub that nobody runs: the user of that name."""

    def __init__(self, folder: Path, *, environment: Mapping[str, str], python: Sequence[str]) -> None:
        super().__init__(folder, environment=environment)
        self.python = python

    def _spawn(self, module: str, *words: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen([*self.python, "-m", module, *words], cwd=ROOT, env=self.environment, **options)

    def _make_database(self) -> None:
        super()._make_database()
        subprocess.run(["chown", "-R", "nobody:nogroup", str(self.folder)], check=True)


def plain_python() -> Sequence[str]:
    """Return the words that run this interpreter's packages as a user without rights."""
    for python in (sys.executable, "/usr/bin/python3"):
        asked = "import os, sys; print(sys.version_info[:2], os.access(sys.executable, os.X_OK))"
        told = subprocess.run([*PLAIN, python, "-c", asked], capture_output=True, text=True, cwd="/")
        if told.stdout.strip() == f"{sys.version_info[:2]} True":
            return (*PLAIN, python)
    return (*PLAIN, str(_copied_python()))


def _copied_python() -> Path:
    """Copy this interpreter into its environment, once: the original lies where other users may not look."""
    home = Path(sys.prefix) / "for-plain-users"
    program = home / "bin" / f"python{sysconfig.get_python_version()}"
    if not program.exists():
        library = Path(sysconfig.get_path("stdlib"))
        left_out = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a")
        shutil.copytree(library, home / "lib" / library.name, ignore=left_out, dirs_exist_ok=True)
        for shared in library.parent.glob("libpython3*.so*"):
            shutil.copy(shared, home / "lib")
        program.parent.mkdir()
        shutil.copy(Path(sys.executable).resolve(), program)
        there, here = os.fsencode(library.parent), b"$ORIGIN/../lib"  # where it looks for its library
        program.write_bytes(program.read_bytes().replace(there + b"\0", here.ljust(len(there), b"\0") + b"\0"))
    return program


def users() -> tuple[str, ...]:
    """Who may run a hub here."""
    return ("root", "plain") if os.geteuid() == 0 else ("plain",)


@contextmanager
def hostile_hub(user: str) -> Iterator[Hub]:
    """Run a hub as `root` or `plain`, in a folder of its own."""
    is_root = os.geteuid() == 0
    if user == "root" and not is_root:
        pytest.skip("Only root starts a hub as root")
    environment = {
        "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
        "MCPHUB_CALL_TIMEOUT_SECONDS": str(PATIENCE_SECONDS),
        "HOSTILE_TEST_SECRET": CANARY,
    }
    folder = Path(tempfile.mkdtemp(prefix="mcphub-attacked-"))
    try:
        if user == "plain" and is_root:
            os.chown(folder, 65534, 65534)
            environment |= {"PYTHONPATH": sysconfig.get_path("purelib"), "HOME": str(folder)}
            made: Hub = PlainHub(folder, environment=environment, python=plain_python())
        else:
            made = Hub(folder, environment=environment)
        with made as running:
            yield running
    finally:
        shutil.rmtree(folder)


@contextmanager
def bystanders(owner: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """What else runs on the machine, of the hub's user: a program, files, services at ports and at unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="bystander-"))
    listener, named, abstract = socket.socket(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    listener.bind(("127.0.0.1", 0))
    named.bind(str(folder / "database"))
    hidden = f"@bystander-{os.getpid()}"
    abstract.bind(hidden.replace("@", "\0"))
    for each in (listener, named, abstract):
        each.listen()
    (folder / "notes").write_text("of another")
    for path in (folder, *folder.iterdir()):
        os.chown(path, *owner)
    program = subprocess.Popen(["sleep", "600"], user=owner[0] if os.geteuid() == 0 else None)
    try:
        yield {
            "process": program.pid,
            "ports": [listener.getsockname()[1], POSTGRESQL],
            "sockets": [str(folder / "database"), hidden],
            "files": [str(folder / "notes")],
        }
    finally:
        program.kill()
        program.wait()
        for each in (listener, named, abstract):
            each.close()
        shutil.rmtree(folder)


def attacked(hub: Hub, name: str, only: Sequence[str] = (), **profile: Any) -> dict[str, Any]:
    """Let the attacker be a child of the hub, by a profile; give what it tells.

    `only` names the attacks that are tried, where not all are.
    """
    words = {"name": name, "command": hub.python[-1], "arguments": [str(ATTACKER)], **profile}
    operator = Operator(hub)
    operator.connect(name, transport="stdio", profile=words)
    operator.limit(f"{name}.", PATIENCE_SECONDS)  # dozens of attacks are one call
    hub.settle()
    owner = hub.data.stat()
    with Speaker(hub.url, hub.key) as speaker, bystanders((owner.st_uid, owner.st_gid)) as others:
        until(lambda: f"{name}.attack" in speaker.modern("tools/list").text)
        others["ports"].append(hub.port)
        arguments = {"data": str(hub.data), "hub": hub.pid, "only": only, **others}
        answer = speaker.modern_call(f"{name}.attack", arguments)
    told: dict[str, Any] = json.loads(answer.json()["result"]["content"][0]["text"])
    return told
