"""A release has one version."""

from __future__ import annotations

import tomllib

from django.conf import settings

from deploy.release import hashes


def test_package_and_hub_say_one_version() -> None:
    project = tomllib.loads((hashes.HOME / "pyproject.toml").read_text())["project"]
    assert project["version"] == settings.MCPHUB_VERSION
