"""What a launch profile may name, and what an operator is told when a child was refused something."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as of_hub
from django.core.exceptions import ValidationError

from sessions_app.protocol.errors import ConnectionFailed
from tests.factories import LaunchProfileFactory
from tools_catalog.upstream import scripts
from tools_catalog.upstream.confinement import hints, machine, paths, plan
from tools_catalog.upstream.spec import LaunchSpec

CHILD = LaunchSpec(name="child", command="true", folder="/nowhere")


def test_a_refusal_names_the_path_and_what_to_do() -> None:
    said = "Traceback\nPermissionError: [Errno 13] Permission denied: '/srv/notes'"
    assert "may not reach /srv/notes; add it to the launch profile" in hints.hint(said, CHILD)
    shells = "/srv/shims/python3: line 12: /srv/libexec/tool: Permission denied"
    assert "may not reach /srv/libexec/tool;" in hints.hint(shells, CHILD)
    assert "network" in hints.hint("Error: getaddrinfo EAI_AGAIN packages.example", CHILD)
    assert hints.hint("It crashed.", CHILD) == ""


def test_a_machine_without_landlock_says_so() -> None:
    held = list(
        machine.held(CHILD, machine.Machine(landlock_abi=0, filters_calls=True, is_root=False, makes_mounts=False))
    )
    assert [each.is_held for each in held] == [False]
    assert "unconfined" in held[0].how


def test_what_is_hidden_is_left_out_of_what_holds_it(tmp_path: Path) -> None:
    for folder in ("lib", "bin", "var"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bin" / "python").touch()
    (tmp_path / "pyvenv.cfg").touch()
    hidden = str(tmp_path / "var")
    allowed = paths.read_only(str(tmp_path / "bin" / "python"), [], {}, [hidden])
    assert str(tmp_path / "lib") in allowed
    assert not any(path == hidden or hidden.startswith(f"{path}/") for path in allowed)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "relative", str(of_hub.MCPHUB_DATA_DIR), str(of_hub.MCPHUB_DATA_DIR.parent)])
def test_a_profile_names_no_path_of_the_hub(path: str) -> None:
    with pytest.raises(ValidationError):
        LaunchProfileFactory.build(name="child", readable=[path]).full_clean()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("command", "arguments", "field"),
    [("./server.py", [], "command"), ("bin/server", [], "command"), ("python3", ["-u", "src/server.py"], "arguments")],
)
def test_a_relative_program_needs_a_directory(command: str, arguments: list[str], field: str) -> None:
    row = LaunchProfileFactory.build(name="child", command=command, arguments=arguments)
    with pytest.raises(ValidationError) as refused:
        row.full_clean()
    (words,) = refused.value.message_dict[field]
    assert "is a relative path" in words
    assert "as the directory" in words
    row.directory = "/srv"
    row.full_clean()


def test_words_that_are_no_program_may_be_relative_to_the_childs_own_folder() -> None:
    assert scripts.without_folder("uvx", ["mcp-server-sqlite", "--db-path", "./rows.db"], "") == ""
    assert scripts.without_folder("python3", ["-m", "server.py"], "") == ""


def test_a_stored_profile_without_a_folder_is_not_started_in_a_wrong_one() -> None:
    spec = LaunchSpec(name="child", command="./server", folder="/nowhere")
    with pytest.raises(ConnectionFailed, match="relative path, and no directory"):
        plan.start_of(spec, {})


# What children write ---------------------------------------------------------------------------------------


def problem(path: Path | str, *roots: Path) -> str:
    return paths.problem_of_writable(str(path), [], list(map(str, roots)), paths.executed({}))


def test_a_child_writes_beneath_the_folders_that_the_deployment_names(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "notes").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (root / "out").symlink_to(tmp_path / "other")
    assert problem(root, root) == problem(root / "notes", root) == ""
    assert "MCPHUB_CHILDREN_WRITABLE" in problem(root / "notes")
    assert str(root) in problem(tmp_path / "other", root)
    for outside in (tmp_path, root / "out", root / "notes" / ".." / ".." / "other", f"{root}-beside"):
        assert "MCPHUB_CHILDREN_WRITABLE" in problem(outside, root)


def test_what_the_hub_runs_or_reads_at_its_start_is_written_by_no_child(tmp_path: Path) -> None:
    code = Path(paths.__file__).resolve().parents[3]
    for path in (
        code,
        code / "mcphub",
        code / "mcphub" / "settings.py",
        code.parent,
        Path(sys.prefix) / "lib",
        Path(sys.base_prefix),
        Path(sys.executable).parent,
        Path("/etc"),
        Path("/etc/cron.d"),
        Path("/usr/local/bin"),
        Path("/proc/self/root") / "etc",
    ):
        assert "at its start" in problem(path, path, code.parent, Path("/etc"), Path("/usr"))
    (tmp_path / "link").symlink_to(code / "mcphub")
    assert "at its start" in problem(tmp_path / "link", tmp_path, code)
    own = tmp_path / "hub.env"
    own.touch()
    named = paths.executed({"MCPHUB_ANYTHING_FILE": str(own)})
    assert "at its start" in paths.problem_of_writable(str(tmp_path), [], [str(tmp_path)], named)


@pytest.mark.django_db
def test_a_child_replaces_no_program_of_another_profile(tmp_path: Path, settings: Any) -> None:
    settings.MCPHUB_CHILDREN_WRITABLE = (str(tmp_path),)
    program = tmp_path / "bin" / "server"
    program.parent.mkdir()
    program.touch()
    LaunchProfileFactory(name="runs", command=str(program))
    with pytest.raises(ValidationError, match="could replace"):
        LaunchProfileFactory.build(name="writes", writable=[str(tmp_path / "bin")]).full_clean()
    (tmp_path / "notes").mkdir()
    LaunchProfileFactory(name="elsewhere", writable=[str(tmp_path / "notes")]).full_clean()
    (tmp_path / "notes" / "server").touch()
    with pytest.raises(ValidationError, match="could replace"):
        LaunchProfileFactory.build(name="later", command=str(tmp_path / "notes" / "server")).full_clean()


@pytest.mark.django_db
def test_a_profile_whose_path_leads_elsewhere_since_it_was_saved_does_not_start(tmp_path: Path, settings: Any) -> None:
    settings.MCPHUB_CHILDREN_WRITABLE = (str(tmp_path),)
    (tmp_path / "notes").mkdir()
    row = LaunchProfileFactory(name="moved", writable=[str(tmp_path / "notes")])
    row.full_clean()
    (tmp_path / "notes").rmdir()
    (tmp_path / "notes").symlink_to(Path(paths.__file__).resolve().parents[3] / "mcphub")
    with pytest.raises(ConnectionFailed, match=r"MCPHUB_CHILDREN_WRITABLE|at its start"):
        plan.start_of(row.spec(), {})


@pytest.mark.django_db
def test_a_folder_to_start_in_is_written_only_where_children_may_write(tmp_path: Path, settings: Any) -> None:
    row = LaunchProfileFactory(name="starts", directory=str(tmp_path))
    row.full_clean()
    words = plan.start_of(row.spec(), {}).words
    assert f"read={tmp_path}" in words
    assert f"write={tmp_path}" not in words
    settings.MCPHUB_CHILDREN_WRITABLE = (str(tmp_path),)
    assert f"write={tmp_path}" in plan.start_of(row.spec(), {}).words
