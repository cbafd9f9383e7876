"""`mcphub serve --reload`: a tool is there, and changes, as its source does."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.servers import ROOT, Hub, until
from tests.wire.speech import Speaker

SOURCE = '''
from tools_catalog.backends.python import tool

@tool(read_only=True, open_world=False)
def greet({parameters}) -> str:
    """Greet somebody."""
    return {answer}
'''


@pytest.mark.rig
def test_a_tool_follows_its_source(tmp_path: Path) -> None:
    package = tmp_path / "apps" / "reloaded_tools"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    source = package / "tools.py"
    source.write_text(SOURCE.format(parameters="name: str", answer="f'Hello {name}'"))
    # Two writes within one second, of one length, share the compiled file; so none is made.
    environment = {
        "MCPHUB_APPS": "reloaded_tools",
        "PYTHONPATH": os.pathsep.join([str(package.parent), str(ROOT), *sys.path]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with (
        Hub(tmp_path / "hub", flags=["--reload"], environment=environment) as hub,
        Speaker(hub.url, hub.key) as speaker,
    ):

        def answer(**arguments: Any) -> str:
            try:
                result = speaker.modern_call("greet", arguments).json()
                return str(result["result"]["content"][0]["text"])
            except (httpx2.HTTPError, KeyError):
                return ""

        assert answer(name="you") == "Hello you"
        source.write_text(SOURCE.format(parameters="who: str", answer="f'Welcome {who}'"))
        until(lambda: answer(who="you") == "Welcome you")
        source.write_text("this is no Python")
        until(lambda: "starts again when a source changes" in hub.log())
        source.write_text(SOURCE.format(parameters="", answer="'Back'"))
        until(lambda: answer() == "Back")
