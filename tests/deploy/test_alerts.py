"""The alert rules under deploy/, by Prometheus' own program: they are rules, and fire when they should."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.release import hashes

RULES = hashes.HOME / "deploy" / "prometheus" / "alerts.yaml"
CASES = Path(__file__).parent / "alerts.yaml"

pytestmark = [
    pytest.mark.rig,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of Prometheus, is not installed"),
]


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, timeout=600)


def test_prometheus_takes_the_rules() -> None:
    found = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{len(alerts())} rules found" in found.stdout


def test_each_alert_fires_when_it_should_and_is_silent_before() -> None:
    found = promtool("test", "rules", CASES)
    assert found.returncode == 0, found.stdout + found.stderr


def test_of_each_alert_there_is_a_case_that_fires_and_one_that_does_not() -> None:
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    names = {rule["alert"] for rule in alerts()}
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == names
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == names


def test_a_rule_that_fires_at_another_moment_is_found_out(tmp_path: Path) -> None:
    """Else the cases would hold of any rules."""
    for rule in alerts():
        spoilt = yaml.safe_load(RULES.read_text())
        (other,) = [each for each in spoilt["groups"][0]["rules"] if each["alert"] == rule["alert"]]
        other["expr"] = f"({rule['expr']}) and vector(1) == 2"
        (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(spoilt))
        cases = yaml.safe_load(CASES.read_text()) | {"rule_files": ["alerts.yaml"]}
        (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
        found = promtool("test", "rules", tmp_path / "cases.yaml")
        assert found.returncode == 1
        assert f"alertname: {rule['alert']}," in found.stdout + found.stderr


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
