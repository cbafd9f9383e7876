"""A sealed, published call is taken out of the middle while the hub runs: what the hub and its commands say of it."""

from __future__ import annotations

from collections.abc import Callable

import httpx2

from tests import forking
from tests.invocations.chain import rewriting
from tests.rigs import console
from tests.servers import Hub, until
from tests.wire.speech import Speaker

FAST = {"MCPHUB_LIMITS": "seal_seconds=0.1, checkpoint_seconds=0.1, verify_seconds=0.5"}
"""Settings of a hub that seals, publishes and verifies at once."""
_CALLS = 6
_SECONDS = 60
"""For a hub's process to hear of it; housekeeping looks every few seconds."""


class Rewriting:
    """One hub whose log grows by a block a call, is then rewritten, and is asked what it says."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self._cookies: dict[str, str] = hub.operate(console.log_in)

    def grow(self) -> None:
        """Make calls, each sealed before the next; wait until a checkpoint tells of all."""
        with Speaker(self.hub.url, self.hub.key) as speaker:
            for number in range(_CALLS):
                blocks = self._state()["blocks"]
                assert speaker.modern_call("echo", {"text": f"no {number}"}).status_code == 200
                until(lambda least=blocks: self._state()["blocks"] > least, _SECONDS)
        until(self._is_settled, _SECONDS)

    def _is_settled(self) -> bool:
        state = self._state()
        return state["published"] == state["blocks"] and not state["waiting"]

    def _state(self) -> dict[str, int]:
        return self.hub.operate(rewriting.state)

    def page(self, path: str, language: str = "en") -> str:
        answer = httpx2.get(
            self.hub.url + path, cookies=self._cookies, headers={"accept-language": language}, timeout=60
        )
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
        return answer.text

    def ready(self) -> str:
        """Return what /ready says of the audit; nothing where it says nothing."""
        said = httpx2.get(f"{self.hub.url}/ready", timeout=60).json()["parts"]
        return str(said.get("audit", ""))

    def alarm_metric(self) -> bool:
        headers = {"authorization": f"Bearer {self.hub.key}"}
        told = httpx2.get(f"{self.hub.url}/metrics", headers=headers, timeout=60).text
        return any(line.startswith("mcphub_audit_alarm{") and line.endswith(" 1.0") for line in told.splitlines())

    def verified(self) -> tuple[int, str]:
        """Return the status of `mcphub audit verify` and what it says."""
        done = forking.run("mcphub.cli", "audit", "verify", env=self.hub.environment, timeout=240)
        return done.returncode, done.stdout + done.stderr

    def run(self) -> dict[str, str]:
        """Rewrite the log; give of each promise what broke it, or nothing. The hub is stopped afterwards."""
        self.grow()
        before = self._state()["blocks"]
        taken = self.hub.operate(rewriting.take_out)
        found = {
            "the hub logs an alarm": self._within(lambda: "ALARM" in self.hub.log()),
            "/ready tells": self._within(lambda: self.ready().startswith("alarm: ")),
            "the metric is 1": self._within(self.alarm_metric),
            "the head of each page tells": self._within(
                lambda: all("gpp_bad" in self.page(path) for path in ("/admin/", "/admin/sessions_app/mcpsession/"))
            ),
        }
        rewritten = self._state()["blocks"]
        with Speaker(self.hub.url, self.hub.key) as speaker:
            called = speaker.modern_call("echo", {"text": "after"}).status_code
        found["calls go on"] = "" if called == 200 else f"status {called}"
        status, said = self.verified()
        is_bad = status == 1 and "BAD: " in said
        found["audit verify says BAD"] = "" if is_bad else f"status {status}: {said[-200:]}"
        stopped = self.hub.stop()
        found["the hub stops well"] = "" if stopped == 0 else f"status {stopped}"
        state = self._state()
        self.hub.end_operator()
        sealed = state["blocks"] != rewritten or not state["waiting"]
        found["nothing is sealed any more"] = f"{state} after {taken} of {before} blocks" if sealed else ""
        return found

    @staticmethod
    def _within(ask: Callable[[], bool]) -> str:
        try:
            until(ask, _SECONDS)
        except AssertionError as late:
            return str(late)
        return ""
