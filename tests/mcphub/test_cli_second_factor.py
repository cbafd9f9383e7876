"""`mcphub second-factor forget`: the way back in of who lost everything but the machine."""

from __future__ import annotations

from pathlib import Path

from django.contrib.auth.models import User

from mcphub.features.login.factors import holding
from tests import template
from tests.in_process import inside, run


def test_the_factors_of_one_person_are_taken_away(tmp_path: Path) -> None:
    template.copy_to(tmp_path / "hub.sqlite3")
    with inside(tmp_path):
        holding.make_codes(User.objects.create_superuser("root"))
    assert run(tmp_path, "second-factor", "forget", "root", "--reason", "lost").stdout == "root: 1 taken away.\n"
    assert run(tmp_path, "second-factor", "forget", "root").stdout == "root has none.\n"
    nobody = run(tmp_path, "second-factor", "forget", "nobody")
    assert (nobody.returncode, "there is no person 'nobody'" in nobody.stderr) == (1, True)
