"""What each revision allows."""

import pytest

from sessions_app.protocol import revisions
from sessions_app.protocol.revisions import ALL, HANDSHAKE, NEWEST, NEWEST_HANDSHAKE, STATELESS, revision

SINCE = {
    "progress_message": "2025-03-26",
    "audio": "2025-03-26",
    "tool_annotations": "2025-03-26",
    "completions": "2025-03-26",
    "version_header": "2025-06-18",
    "tool_title": "2025-06-18",
    "structured_content": "2025-06-18",
    "output_schema": "2025-06-18",
    "resource_link": "2025-06-18",
    "elicitation": "2025-06-18",
    "tool_icons": "2025-11-25",
    "url_elicitation": "2025-11-25",
    "sampling_tools": "2025-11-25",
    "any_structured_content": "2026-07-28",
    "result_type": "2026-07-28",
    "cache_hints": "2026-07-28",
    "stateless": "2026-07-28",
}
ONLY = {
    "batching": "2025-03-26",
    "url_elicitation_error": "2025-11-25",
    "core_tasks": "2025-11-25",
    "priming_events": "2025-11-25",
}


def test_revisions_are_ordered_oldest_first():
    assert list(ALL) == sorted(ALL)
    assert (*HANDSHAKE, *STATELESS) == ALL
    assert (NEWEST_HANDSHAKE, NEWEST) == ("2025-11-25", "2026-07-28")
    assert revisions.ASSUMED in HANDSHAKE


@pytest.mark.parametrize("version", ALL)
def test_a_feature_is_there_from_its_revision_on(version):
    features = revision(version)
    assert features.version == version
    for name, first in SINCE.items():
        assert getattr(features, name) is (version >= first), name
    for name, only in ONLY.items():
        assert getattr(features, name) is (version == only), name
    assert features.null_error_ids is (version < "2025-11-25")
    assert features.resource_not_found_code == (-32602 if version in STATELESS else -32002)


def test_an_unknown_revision_has_no_features():
    with pytest.raises(ValueError):
        revision("v999")


@pytest.mark.parametrize(
    ("version", "stateless"),
    [(None, False), ("", False), ("2026-07-28", True), ("v999", True), ("2027-01-01", True)]
    + [(version, False) for version in HANDSHAKE],
)
def test_unknown_versions_climb_the_ladder(version, stateless):
    assert revisions.is_stateless(version) is stateless


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_supported_handshake_version_is_echoed(version):
    assert revisions.negotiate(version) == version


@pytest.mark.parametrize("requested", ["2026-07-28", "v999", "", None, 1, [], {}])
def test_any_other_request_gets_the_newest_handshake(requested):
    assert revisions.negotiate(requested) == NEWEST_HANDSHAKE
