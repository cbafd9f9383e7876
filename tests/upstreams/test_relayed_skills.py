"""Skills of an upstream at the hub's wire: served from the approved copy, whatever becomes of the upstream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.features.skills.operations import ENTRY
from tests.servers import until
from tests.upstreams import connecting
from tests.upstreams.conftest import Operator, Peer
from tests.wire.speech import Speaker

URI = "skill://shelf.acme/refunds/SKILL.md"
RULES = "skill://shelf.acme/refunds/RULES.md"
THERE = "skill://acme/refunds/SKILL.md"


def result(speaker: Speaker, method: str, **params: Any) -> dict[str, Any]:
    found: dict[str, Any] = speaker.modern(method, params).json()["result"]
    return found


def listed(speaker: Speaker) -> dict[str, Any]:
    return {skill["uri"]: skill for skill in result(speaker, "skills/list")["skills"]}


def rules(speaker: Speaker) -> str:
    return str(result(speaker, "resources/read", uri=RULES)["contents"][0]["text"])


def test_a_generated_skill_is_read_over_there_each_time(operator: Operator, speaker: Speaker, tmp_path: Path) -> None:
    skill = tmp_path / "daily"
    skill.mkdir()
    (skill / "SKILL.md").write_text(ENTRY.format(name="daily"))
    (tmp_path / "habits.json").write_text('{"dynamic": ["daily"]}')
    uri, report = "skill://press/daily/SKILL.md", "skill://press/daily/report.md"
    with Peer("skilled.py", str(tmp_path)) as peer:
        operator.connect("press", url=peer.url, policy="trust", generated_skills=True)
        assert until(lambda: listed(speaker).get(uri))["resources"] == "dynamic"
        for text in ("Monday", "Tuesday"):
            (skill / "report.md").write_text(text)
            (content,) = result(speaker, "resources/read", uri=report)["contents"]
            assert content == {"uri": report, "text": text}
        assert (
            speaker.modern("resources/read", {"uri": "skill://press/daily/none.md"}).json()["error"]["code"] == -32602
        )
        (skill / "SKILL.md").write_text(ENTRY.format(name="daily").replace("MIT", "Other"))
        assert "error" in speaker.modern("resources/read", {"uri": uri}).json()
        operator.change("press", enabled=False)


def test_an_approved_copy_outlives_its_upstream_and_a_change_waits(
    operator: Operator, speaker: Speaker, tmp_path: Path
) -> None:
    skill = tmp_path / "acme" / "refunds"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(ENTRY.format(name="refunds"))
    (skill / "RULES.md").write_text("Rules")
    with Peer("skilled.py", str(tmp_path)) as peer:
        operator.connect("shelf", url=peer.url, policy="hold_all")
        until(lambda: operator.row("shelf")["states"].get(THERE) == "new")
        assert URI not in listed(speaker)
        operator.approve("shelf")
        entry = until(lambda: listed(speaker).get(URI))
        assert entry["_meta"]["mcphub/origin"] == {"connection": "shelf", "uri": THERE}
        assert result(speaker, "skills/get", uri=URI)["skill"] == entry
        peer.kill()
        assert rules(speaker) == "Rules"
        row = operator.hub.rows(client=speaker.name)[0]
        assert (row["method"], row["target"], row["connection"]) == ("resources/read", RULES, "shelf")
        (skill / "RULES.md").write_text("Other rules")
        peer.start()
        operator.hub.operate(connecting.refresh, "shelf")
        until(lambda: operator.row("shelf")["states"][THERE] == "changed")
        assert rules(speaker) == "Rules"
        assert listed(speaker)[URI] == entry
        operator.approve("shelf")
        until(lambda: rules(speaker) == "Other rules")
        assert listed(speaker)[URI] != entry
        operator.change("shelf", enabled=False)
        until(lambda: URI not in listed(speaker))
