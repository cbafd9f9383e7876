"""The tutorial as its reader goes through it: its files are written, and a shell runs its commands as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.servers import ROOT, Hub, free_port

PAGE = ROOT / "docs" / "start" / "tutorial.md"


class Reader:
    """Somebody who follows docs/start/tutorial.md in `folder`, with a hub and an upstream at free ports."""

    def __init__(self, folder: Path) -> None:
        self.text = PAGE.read_text()
        self.commands = re.findall(r"^```sh\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE)
        self.port = free_port()
        self._home = folder / "tutorial"
        self._setup = ""
        self.hub = Hub(
            folder,
            flags=["--reload"],
            environment={
                "MCPHUB_APPS": "library_tools",
                "PYTHONPATH": f"{self._home}:{ROOT}",
                "MCPHUB_EGRESS_ALLOW": f"127.0.0.1:{self.port}",
            },
        )

    def write_files(self) -> None:
        """Make the folder by the first command, and put the page's two programs there."""
        self.run("mkdir")
        programs = re.findall(
            r"`(var/tutorial/\S+\.py)`:\n\n```python\n(.*?)^```$", self.text, re.DOTALL | re.MULTILINE
        )
        for name, text in programs:
            Path(self._here(name)).write_text(self._here(text))

    def start_upstream(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, str(self._home / "post_office.py")], stderr=subprocess.DEVNULL)

    def remember(self, words: str) -> None:
        """Run a block before each later one: it sets variables and functions."""
        self._setup += self._block(words)

    def run(self, words: str) -> str:
        """Run the one block that begins with these words; give what it prints."""
        done = subprocess.run(
            ["bash", "-euc", self._setup + self._block(words)],
            cwd=ROOT,
            env=self.hub.environment,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _block(self, words: str) -> str:
        [block] = [block for block in self.commands if block.startswith(words)]
        return self._here(block)

    def _here(self, text: str) -> str:
        """Put this reader's places in place of those of the page."""
        for there, here in (
            ("var/tutorial", str(self._home)),
            ("http://127.0.0.1:8000", self.hub.url),
            ("9100", str(self.port)),
            (".venv/bin/mcphub", f"{sys.executable} -m mcphub.cli"),
        ):
            text = text.replace(there, here)
        return text


OFFER = "tools_catalog.McpUpstreamTool"
