"""The data of a release as a file, for later versions to migrate: a hub that clients have used, on each database.

    python -m tests.releases.keeping     makes tests/releases/VERSION.KIND.tar.xz of this version, when it is released

An archive holds the data directory, for PostgreSQL the database as `pg_dump` writes it (`hub.sql`), and `known.json`:
a key, and what must be found again. All its secrets are made for it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from mcphub.features.demo.command import LIMITS
from mcphub.features.demo.filling import fill
from mcphub.features.demo.serving import DemoServer
from tests import operations, secret_operations
from tests.servers import POSTGRES, ROOT, Hub

FOLDER = Path(__file__).parent
KINDS = ("sqlite", "postgresql")
SECRET = "s3cret-of-the-house"
_LEFT = {"start.lock", "migrated", "static", "children"}


def released() -> list[str]:
    """Return the versions that CHANGELOG.md calls released, from 1.0.0 on."""
    headings = re.findall(r"^## (\d+\.\d+\.\d+) \(\d{4}-", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    return [version for version in headings if int(version.partition(".")[0]) >= 1]


def stored() -> list[Path]:
    return sorted(FOLDER.glob("*.tar.xz"))


@contextmanager
def database(kind: str) -> Iterator[dict[str, str]]:
    """Make an empty database; give the variables of a hub on it."""
    if kind == "sqlite":
        yield {}
        return
    name = f"mcphub_test_release_{os.getpid()}"
    with psycopg.connect(f"{POSTGRES}/postgres", autocommit=True) as server:
        server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")  # type: ignore[arg-type]
        server.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
        try:
            yield {"MCPHUB_DATABASE_URL": f"{POSTGRES}/{name}"}
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


def make(kind: str, archive: Path, folder: Path) -> dict[str, Any]:
    """Fill a hub of this version in `folder` and write its data; give what `known.json` says."""
    with database(kind) as variables:
        own = {"MCPHUB_LIMITS": LIMITS}  # as `mcphub demo` has it: its clients wait for nobody's approval
        with (
            DemoServer() as demo,
            Hub(folder, environment={**variables, **own, "MCPHUB_EGRESS_ALLOW": demo.address}) as hub,
        ):
            hub.operate(fill, hub.url, demo.url)
            hub.operate(secret_operations.make_secret, "house", SECRET)
            hub.command("audit", "checkpoint")
            calls = hub.operate(secret_operations.count_of_calls)
            # Where it was made is nobody's business.
            hub.operate(operations.update, "sessions_app.ServerProcess", {}, host="hub", address="")
            known = {"key": hub.key, "calls": calls}
        (folder / "known.json").write_text(json.dumps(known))
        with tarfile.open(archive, "w:xz") as packed:
            packed.add(folder / "known.json", "known.json")
            for path in sorted(hub.data.iterdir()):
                if path.name not in _LEFT:
                    packed.add(path, f"data/{path.name}")
            if kind == "postgresql":
                words = ["pg_dump", "--no-owner", "--no-privileges", "-f", str(folder / "hub.sql")]
                subprocess.run([*words, variables["MCPHUB_DATABASE_URL"]], check=True)
                packed.add(folder / "hub.sql", "hub.sql")
    return known


def unpack(archive: Path, folder: Path, variables: Mapping[str, str]) -> dict[str, Any]:
    """Put the data of an archive where a hub in `folder` finds it; give what `known.json` says."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (folder / "data").chmod(0o700)
    if "MCPHUB_DATABASE_URL" in variables:
        words = ["psql", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(folder / "hub.sql"), variables["MCPHUB_DATABASE_URL"]]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    known: dict[str, Any] = json.loads((folder / "known.json").read_text())
    return known


def main() -> int:
    from django.conf import settings

    for kind in KINDS:
        archive = FOLDER / f"{settings.MCPHUB_VERSION}.{kind}.tar.xz"
        if archive.exists():
            print(f"{archive} exists. What a release wrote does not change; a new version has a file of its own.")
            return 1
        with tempfile.TemporaryDirectory() as scratch:
            known = make(kind, archive, Path(scratch))
        print(f"{archive.relative_to(ROOT)}: {archive.stat().st_size // 1024} KiB, {known['calls']} calls")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    sys.exit(main())
