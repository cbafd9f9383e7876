"""`MCPHUB_COMPLIANCE`: what `mcphub doctor` reports of retention, and which names it takes."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

from invocations.chain.models import AuditPolicy
from mcphub.features.compliance.doctor import check


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("frames", "days", "found"),
    [
        ((), 1, []),
        (("ai-act",), None, []),
        (("ai-act",), 184, []),
        (("ai-act",), 183, ["the EU AI Act"]),
        (("ai-act", "soc2"), 184, ["SOC 2"]),
        (("ai-act", "soc2"), 30, ["the EU AI Act", "SOC 2"]),
    ],
)
def test_a_record_that_is_kept_too_short_is_reported(settings, frames, days, found) -> None:
    settings.MCPHUB_COMPLIANCE = frames
    AuditPolicy(rows_days=days).save()
    findings = list(check())
    assert [finding.level for finding in findings] == ["wrong"] * len(found)
    for finding, title in zip(findings, found, strict=True):
        assert f"kept for {days} days, too short for {title}" in finding.what
        assert "mcphub audit policy --rows-days" in finding.mend


@pytest.mark.django_db
def test_a_record_without_a_policy_is_kept_for_ever(settings) -> None:
    settings.MCPHUB_COMPLIANCE = ("soc2",)
    assert list(check()) == []


def test_a_frame_that_does_not_exist_stops_the_start(settings) -> None:
    settings.MCPHUB_COMPLIANCE = ("soc3",)
    with pytest.raises(ImproperlyConfigured, match=r"names 'soc3'.*ai-act, soc2"):
        apps.get_app_config("compliance").ready()
