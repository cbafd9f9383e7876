"""What the tests of the wire know of the toolbox: the marks its tools leave, and calls on their way in a thread."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable

import httpx2

from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS


class Box:
    """What the toolbox's tools leave behind under one name."""

    def __init__(self, hub: Hub) -> None:
        self.name = uuid.uuid4().hex
        self._folder = hub.data / "toolbox"

    def has(self, mark: str) -> bool:
        return (self._folder / f"{self.name}.{mark}").exists()

    def times(self, mark: str) -> int:
        return len((self._folder / f"{self.name}.{mark}").read_text())

    def write(self, text: str) -> None:
        """Put a text where the resource `box://text/<name>` reads it."""
        self._folder.mkdir(exist_ok=True)
        (self._folder / f"{self.name}.text").write_text(text)

    def release(self) -> None:
        self._folder.mkdir(exist_ok=True)
        (self._folder / f"{self.name}.release").touch()


class Apart(threading.Thread):
    """A request on its way in another thread."""

    def __init__(self, ask: Callable[[], httpx2.Response]) -> None:
        super().__init__(daemon=True)
        self._ask = ask
        self._answer: httpx2.Response | None = None
        self.start()

    def run(self) -> None:
        with contextlib.suppress(httpx2.HTTPError):
            self._answer = self._ask()

    def settled(self) -> httpx2.Response | None:
        """The answer, or None where the connection ended without one."""
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()
        return self._answer

    def answer(self) -> httpx2.Response:
        answer = self.settled()
        assert answer is not None
        return answer


def text_of(answer: httpx2.Response) -> str:
    text: str = answer.json()["result"]["content"][0]["text"]
    return text
