"""Copies of the hub, for rigs and benchmarks that change a file. `python -m mcphub.cli` there runs the copy."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.forking import ROOT

PACKAGES = ("mcphub", "invocations", "sessions_app", "tools_catalog")
_SHARED = ("templates", "tests", "pyproject.toml")
NEXT = "99.1.0"
"""A minor version after this one."""
_COLUMN = 'migrations.AddField("mcptoolinvocation", "next_note", models.CharField(max_length=20, null=True))'
_MIGRATION = """
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("invocations", "{last}")]
    operations = [{operation}]
"""


def copied(home: Path) -> Path:
    """Copy the packages of the hub to a new folder, with links to what they need beside them; give the folder."""
    home.mkdir()
    for name in PACKAGES:
        shutil.copytree(ROOT / name, home / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _SHARED:
        (home / name).symlink_to(ROOT / name)
    return home


def next_version(home: Path) -> Path:
    """Make a tree of a minor version after this one, whose migration adds a column to the calls; give it."""
    copied(home)
    settings = home / "mcphub" / "settings.py"
    text = settings.read_text()
    settings.write_text(re.sub(r'^MCPHUB_VERSION = ".*"$', f'MCPHUB_VERSION = "{NEXT}"', text, flags=re.MULTILINE))
    assert NEXT in settings.read_text()
    folder = home / "invocations" / "migrations"
    last = max(path.stem for path in folder.glob("0*.py"))
    words = _MIGRATION.format(last=last, operation=_COLUMN)
    (folder / "9000_next.py").write_text(words)
    return home
