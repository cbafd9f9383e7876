"""The program for OpenAI's SDK that the hub tells people to run, run as it is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mcphub import clients
from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS


def test_the_program_asks_a_model(chat_hub: tuple[Hub, str], tmp_path: Path) -> None:
    hub, key = chat_hub
    text = next(each.text for each in clients.programs(f"{hub.url}/mcp", key) if each.key == "openai")
    (tmp_path / "ask.py").write_text(text)
    ended = subprocess.run(
        [sys.executable, str(tmp_path / "ask.py")], capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip().endswith("]")
