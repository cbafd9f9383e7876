"""Every version migrates the data of every release before it, on both kinds of database."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from deploy.release import first_call
from tests import forking, secret_operations
from tests.mcphub.running import environment
from tests.releases import keeping
from tests.servers import Hub

pytestmark = pytest.mark.slow

TODAY = "of this version"


def test_each_release_has_left_its_data() -> None:
    """From 1.0.0 on: a release without them would be one that nobody knows to be migrated."""
    wanted = {f"{version}.{kind}.tar.xz" for version in keeping.released() for kind in keeping.KINDS}
    assert {path.name for path in keeping.stored()} == wanted, "run `make release-fixture` in the release's checkout"


@pytest.mark.rig
@pytest.mark.parametrize("kind", keeping.KINDS)
@pytest.mark.parametrize(
    "release", [*sorted({path.name.split(".tar")[0].rpartition(".")[0] for path in keeping.stored()}), TODAY]
)
def test_data_of_a_release_is_migrated_and_whole(tmp_path: Path, release: str, kind: str) -> None:
    """The data made here and now shows that a file is written and read as it must be, also where none is stored yet."""
    archive = keeping.FOLDER / f"{release}.{kind}.tar.xz"
    if release == TODAY:
        archive = tmp_path / "today.tar.xz"
        keeping.make(kind, archive, tmp_path / "made")
    with keeping.database(kind) as variables:
        known = keeping.unpack(archive, tmp_path / "hub", variables)
        hub = Hub(tmp_path / "hub", environment=variables)
        hub.key = known["key"]
        with hub:
            assert hub.operate(secret_operations.count_of_calls) == known["calls"]
            assert hub.operate(secret_operations.secret_of, "house") == keeping.SECRET
            assert "add(2, 40) = 42" in first_call.make(hub.url, known["key"])
            assert "published checkpoints agree" in hub.command("audit", "verify")


@pytest.mark.program
def test_two_hubs_that_migrate_at_once_make_the_tables_once(tmp_path: Path) -> None:
    """On PostgreSQL, where each may have a machine of its own: the second waits, and finds nothing to do."""
    with keeping.database("postgresql") as variables:
        folders = [tmp_path / "one", tmp_path / "two"]
        begun = [
            forking.start(
                "mcphub.cli",
                "token",
                "create",
                "x",
                env=environment(folder, **variables),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for folder in folders
        ]
        ended = [(process.communicate(timeout=240), process.returncode) for process in begun]
        assert [status for _, status in ended] == [0, 0], ended
        listed = forking.run("mcphub.cli", "token", "list", env=environment(folders[0], **variables), timeout=240)
        assert len(listed.stdout.splitlines()) == 2
