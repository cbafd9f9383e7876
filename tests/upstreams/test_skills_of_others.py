"""Skills with the libraries of others, unmodified, on both sides: FastMCP 4.2 and the TypeScript SDK 2.4.

The clients verify every file by their own rules, and reject a list with one entry that breaks them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients import install
from tests.features.skills import operations as skills
from tests.servers import Hub, until
from tests.upstreams import connecting
from tests.upstreams.conftest import Operator, Peer, generations_needed
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker

pytestmark = pytest.mark.rig

CLIENTS = ["fastmcp", "typescript auto", "typescript legacy"]
SERVERS = ["fastmcp", "typescript stateless", "typescript sessions"]
TEXT = "---\nname: {name}\ndescription: |\n  About {name}.\n{more}---\n\nRead [the rules](references/RULES.md).\n"
OTHER_FILES = {
    "references/RULES.md": b"Rules\r\n",
    "references/a b.json": b'{"a": 1}',
    "assets/x.bin": b"\x00\xff",
    "assets/é & #1.txt": "é".encode(),
}
READ_DIFFERENTLY = (
    "version: 1.0\nurgent: yes\nat: 12:30:45\nmode: 0x1F\nwith: [a, 'b']\nlicense: MIT\nmetadata: {version: '1'}\n"
)
"""Frontmatter that FastMCP reads by YAML 1.1, and TypeScript by 1.2."""


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(raw).hexdigest() for path, raw in sorted(files.items())}


def put(folder: Path, place: str, more: str = "") -> dict[str, bytes]:
    """Write a skill into a folder; return its files."""
    name = place.rpartition("/")[2]
    files = {"SKILL.md": TEXT.format(name=name, more=more).encode(), **OTHER_FILES}
    for path, raw in files.items():
        file = folder / place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(raw)
    return files


def peer(server: str, folder: Path) -> Peer:
    library, _, kind = server.partition(" ")
    if library == "fastmcp":
        return Peer("skills_fast.py", str(folder), python=str(install.needed("fastmcp")))
    packages = generations_needed()
    script = install.scripts(packages, install.GENERATIONS.parent) / "skills.mjs"
    return Peer(str(script), str(folder), kind, python=str(packages / "node_modules/.bin/node"))


def seen(client: str, url: str, key: str = "") -> dict[str, Any]:
    """Return what a client reads: digests by URI and path, or why it rejects the skill."""
    library, _, mode = client.partition(" ")
    here = Path(install.__file__).parent
    if library == "fastmcp":
        command = [str(install.needed("fastmcp")), str(here / "skills_fast.py"), url, "auto"]
    else:
        folder = install.needed("node")
        command = [str(folder / "node_modules/.bin/node"), str(install.scripts(folder) / "skills.mjs"), url, mode]
    done = subprocess.run(
        command, env={"MCPHUB_KEY": key}, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_reads_and_verifies_the_hubs_skills(client: str, upstream_hub: Hub) -> None:
    files = {"SKILL.md": TEXT.format(name="refunds", more="license: MIT\n"), "Notes/A b.md": "n", "partial/x.txt": "é"}
    files["partial/SKILL.md"] = TEXT.format(name="partial", more="metadata: {since: '1.0'}\n")
    upstream_hub.operate(skills.add, "Acme/refunds", files, ["partial"])
    upstream_hub.operate(skills.add, "other", {"SKILL.md": "\ufeff" + TEXT.format(name="other", more="a: 1.0\n")})
    upstream_hub.settle()
    found = seen(client, f"{upstream_hub.url}/mcp", upstream_hub.key)
    whole = digests({path: text.encode() for path, text in files.items()})
    inner = {path.removeprefix("partial/"): digest for path, digest in whole.items() if path.startswith("partial/")}
    assert found["skill://Acme/refunds/SKILL.md"] == whole
    assert found["skill://Acme/refunds/partial/SKILL.md"] == inner
    assert set(found["skill://other/SKILL.md"]) == {"SKILL.md"}


@pytest.mark.parametrize("server", SERVERS)
def test_a_servers_skills_are_relayed_to_every_client(
    server: str, operator: Operator, upstream_hub: Hub, speaker: Speaker, tmp_path: Path
) -> None:
    slug = server.replace(" ", "-")
    plain, odd = put(tmp_path, "acme/refunds", "license: MIT\n"), put(tmp_path, "odd", READ_DIFFERENTLY)
    there = {"skill://acme/refunds/SKILL.md": plain, "skill://odd/SKILL.md": odd}
    here = {f"skill://{slug}.acme/refunds/SKILL.md": plain, f"skill://{slug}/odd/SKILL.md": odd}

    def states() -> dict[str, str]:
        found: dict[str, str] = operator.row(slug)["states"]
        return {uri: found.get(uri, "") for uri in there}

    def relayed(client: str) -> dict[str, Any]:
        found = seen(client, f"{upstream_hub.url}/mcp", upstream_hub.key)
        return {uri: each for uri, each in found.items() if uri.startswith(f"skill://{slug}")}

    with peer(server, tmp_path) as running:
        alike = seen("fastmcp" if server == "fastmcp" else "typescript legacy", running.url)
        assert alike == {uri: digests(files) for uri, files in there.items()}
        operator.connect(slug, url=running.url, policy="hold_all")
        until(lambda: set(states().values()) == {"new"})
        assert all(relayed(client) == {} for client in CLIENTS[:1])
        operator.approve(slug)
        until(lambda: set(here) <= {each["uri"] for each in listed(speaker)})
        for client in CLIENTS:
            found = relayed(client)
            assert found.keys() == here.keys()
            plain_uri, odd_uri = here
            # FastMCP and TypeScript reject each other's reading of the odd one without a hub, too.
            is_alike = client.partition(" ")[0] == server.partition(" ")[0]
            for uri in (plain_uri, odd_uri) if is_alike else (plain_uri,):
                assert found[uri] == digests(here[uri])
        changed = tmp_path / "acme/refunds/references/RULES.md"
        changed.write_bytes(b"Other rules")
        operator.hub.operate(connecting.refresh, slug)
        until(lambda: sorted(states().values()) == ["approved", "changed"])
        assert relayed("typescript auto")[plain_uri] == digests(plain)
        operator.change(slug, enabled=False)


def listed(speaker: Speaker) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = speaker.modern("skills/list").json()["result"]["skills"]
    return found
