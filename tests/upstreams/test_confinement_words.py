"""What a launch profile may name, and what an operator is told when a child was refused something."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError

from tests.factories import LaunchProfileFactory
from tools_catalog.upstream.confinement import hints, machine, paths
from tools_catalog.upstream.spec import LaunchSpec

CHILD = LaunchSpec(name="child", command="true", folder="/nowhere")


def test_a_refusal_names_the_path_and_what_to_do() -> None:
    said = "Traceback\nPermissionError: [Errno 13] Permission denied: '/srv/notes'"
    assert "may not reach /srv/notes; add it to the launch profile" in hints.hint(said, CHILD)
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
@pytest.mark.parametrize("path", ["/", "relative", str(settings.MCPHUB_DATA_DIR), str(settings.MCPHUB_DATA_DIR.parent)])
def test_a_profile_names_no_path_of_the_hub(path: str) -> None:
    with pytest.raises(ValidationError):
        LaunchProfileFactory.build(name="child", readable=[path]).full_clean()
