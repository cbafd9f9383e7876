"""`mcphub second-factor forget`: the way back in of who lost everything but the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import template
from tests.mcphub.running import run

pytestmark = pytest.mark.program

SEED = """
from django.contrib.auth.models import User
from mcphub.login.factors import holding
user = User.objects.create_superuser("root", password="a long password")
holding.make_codes(user)
"""


def test_the_factors_of_one_person_are_taken_away(tmp_path: Path) -> None:
    template.copy_to(tmp_path / "hub.sqlite3")
    assert run(tmp_path, "shell", "-c", SEED).returncode == 0
    assert run(tmp_path, "second-factor", "forget", "root", "--reason", "lost").stdout == "root: 1 taken away.\n"
    assert run(tmp_path, "second-factor", "forget", "root").stdout == "root has none.\n"
    nobody = run(tmp_path, "second-factor", "forget", "nobody")
    assert (nobody.returncode, "nobody here is called 'nobody'" in nobody.stderr) == (1, True)
