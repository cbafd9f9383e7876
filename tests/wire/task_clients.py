"""Clients that follow tasks of either protocol revision."""

from __future__ import annotations

from typing import Any

from tests.servers import until
from tests.wire.speech import META, Speaker

EXTENSION = "io.modelcontextprotocol/tasks"

ABLE = {f"{META}clientCapabilities": {"extensions": {EXTENSION: {}}}}
"""`_meta` of a client that can follow tasks."""


class Follower:
    """A client of 2026-07-28 that can follow tasks."""

    def __init__(self, speaker: Speaker) -> None:
        self.speaker = speaker

    def ask(self, method: str, **params: Any) -> Any:
        return self.speaker.modern(method, {**params, "_meta": ABLE})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self.speaker.modern_call(tool, arguments, **ABLE)
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["result"]
        return result

    def get(self, task_id: str) -> dict[str, Any]:
        answer = self.ask("tasks/get", taskId=task_id)
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()["result"]
        assert result["resultType"] == "complete"
        return result

    def end(self, task_id: str) -> dict[str, Any]:
        """The task once it is over."""
        return until(lambda: (found := self.get(task_id))["status"] not in ("working", "input_required") and found)


RELATED = "io.modelcontextprotocol/related-task"


class Asker:
    """A client of 2025-11-25 with one session."""

    def __init__(self, speaker: Speaker, version: str = "2025-11-25") -> None:
        self.speaker = speaker
        self.session = speaker.open_session(version)

    def ask(self, method: str, id: Any = None, **params: Any) -> Any:
        return self.speaker.in_session(self.session, method, params, id)

    def call(self, tool: str, arguments: Any = None, id: Any = None, task: Any = None) -> Any:
        return self.ask("tools/call", id, name=tool, arguments=arguments or {}, task={} if task is None else task)

    def start(self, tool: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
        answer = self.call(tool, arguments, **more)
        assert answer.status_code == 200, answer.text
        task: dict[str, Any] = answer.json()["result"]["task"]
        return task

    def get(self, task_id: str) -> dict[str, Any]:
        answer = self.ask("tasks/get", taskId=task_id)
        assert answer.status_code == 200, answer.text
        task: dict[str, Any] = answer.json()["result"]
        return task


ASKABLE = {f"{META}clientCapabilities": {"elicitation": {}, "extensions": {EXTENSION: {}}}}

YES: dict[str, Any] = {"action": "accept", "content": {"confirm": True}}


class Answerer(Follower):
    """A client of 2026-07-28 that follows tasks and can be asked."""

    def start(self, tool: str, arguments: Any = None) -> str:
        answer = self.speaker.modern_call(tool, arguments, **ASKABLE)
        assert answer.json()["result"]["resultType"] == "task", answer.text
        task_id: str = answer.json()["result"]["taskId"]
        return task_id

    def asked(self, task_id: str) -> dict[str, Any]:
        """What the task asks, once it does."""
        found = until(lambda: (task := self.get(task_id))["status"] != "working" and task)
        assert found["status"] == "input_required", found
        requests: dict[str, Any] = found["inputRequests"]
        return requests

    def update(self, task_id: str, **responses: Any) -> None:
        answer = self.ask("tasks/update", taskId=task_id, inputResponses=responses)
        assert answer.status_code == 200, answer.text
        assert answer.json()["result"].keys() <= {"resultType", "_meta"}


def text(task: dict[str, Any]) -> str:
    assert task["status"] == "completed", task
    words: str = task["result"]["content"][0]["text"]
    return words
