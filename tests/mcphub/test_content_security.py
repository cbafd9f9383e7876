"""The content security policy admits nothing written into a page, and the colours that stand in for it are current."""

from __future__ import annotations

import re
from pathlib import Path

from unfold.settings import CONFIG_DEFAULTS

from mcphub import content_security

COLOURS = Path(content_security.__file__).parent / "static" / "mcphub" / "colours.css"


def test_nothing_inline_is_admitted_anywhere() -> None:
    assert "unsafe" not in content_security.ELSEWHERE
    assert re.findall(r"'unsafe-[a-z-]+'", content_security.ADMIN) == ["'unsafe-eval'"]


def test_the_colours_are_those_of_the_theme() -> None:
    """When the theme changes its colours, so shall the file."""
    wanted = {
        f"--color-{name}-{weight}": value
        for name, weights in CONFIG_DEFAULTS["COLORS"].items()
        for weight, value in weights.items()
    }
    assert dict(re.findall(r"(--[\w-]+): ([^;]+);", COLOURS.read_text())) == wanted
