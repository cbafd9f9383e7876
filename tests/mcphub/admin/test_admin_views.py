"""The policy of a view's page: what its server declared, as far as browsers may be led there."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from mcphub.console import shown_views


@given(st.one_of(st.none(), st.text(), st.lists(st.text() | st.integers()), st.dictionaries(st.text(), st.text())))
def test_no_declared_source_ends_a_directive(named: Any) -> None:
    for word in shown_views.sources(named):
        assert not set(word) & set(" ;,'\"\n\t")
        assert word.lower().startswith(("https://", "wss://"))
    said = shown_views.policy(dict.fromkeys(("connectDomains", "resourceDomains", "frameDomains"), named))
    assert said.count(";") == 12
    assert said.startswith("sandbox allow-scripts allow-forms; default-src 'none'; script-src 'unsafe-inline'")


@pytest.mark.parametrize(
    "source",
    [
        "https://10.0.0.1",
        "https://[::1]",
        "https://localhost",
        "http://a.example.com",
        "https://a.example.com/path",
        "https://*",
        "https:",
        "'self'",
        "https://a.example.com; script-src *",
    ],
)
def test_sources_within_the_network_and_whole_schemes_are_left_out(source: str) -> None:
    assert shown_views.sources([source, "https://*.example.com:8443"]) == ["https://*.example.com:8443"]


def test_only_who_may_try_a_tool_sees_its_view(log_in: Any, echo: Any) -> None:
    viewer = log_in("Viewer")
    assert viewer.get(reverse("tool_view", args=[echo.pk])).status_code == 403
    assert viewer.post(reverse("tool_view_asked", args=[echo.pk]), {}).status_code == 403


def test_the_page_of_a_view_is_no_page_of_its_own(log_in: Any, echo: Any) -> None:
    answer = log_in("Operator").get(reverse("tool_view", args=[echo.pk]), headers={"Sec-Fetch-Dest": "document"})
    assert answer.status_code == 400
    assert answer["Content-Security-Policy"].startswith("sandbox ")
    assert answer["X-Frame-Options"] == "SAMEORIGIN"
