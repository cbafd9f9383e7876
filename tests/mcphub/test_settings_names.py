"""What the settings name by a dotted path is there: nothing imports it before it is asked for."""

from __future__ import annotations

import re
from pathlib import Path
from pkgutil import resolve_name

import mcphub.settings

PACKAGES = "mcphub|sessions_app|tools_catalog|invocations"
NAMED = sorted(set(re.findall(rf'"((?:{PACKAGES})(?:\.\w+)+)"', Path(mcphub.settings.__file__).read_text())))


def test_what_the_settings_name_is_there() -> None:
    assert NAMED
    for path in NAMED:
        resolve_name(path)
