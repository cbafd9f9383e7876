"""Which endpoints tokens can be for, and how they are named."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app import endpoints, tokens

PUBLIC = "https://hub.example/tools"


@pytest.fixture
def public(settings: Any) -> None:
    settings.MCPHUB_PUBLIC_URL = PUBLIC + "/"


@pytest.mark.parametrize("endpoint", [*endpoints.own(), "/mcp/s/few", "/mcp/s/few/sse", "/w/team-1/mcp"])
@pytest.mark.usefixtures("public")
def test_an_endpoint_is_found_by_the_name_it_was_given(endpoint: str) -> None:
    assert endpoints.named(endpoints.identifier(endpoint)) == endpoint
    assert endpoints.of_path(endpoint) == endpoints.of_path(endpoint + "/") == endpoint


@pytest.mark.parametrize(
    "foreign",
    [
        "https://hub.example/mcp",
        "http://hub.example/tools/mcp",
        "https://hub.example:444/tools/mcp",
        "https://hub.example.evil.example/tools/mcp",
        "https://hub.example@evil.example/tools/mcp",
        "https://evil@hub.example/tools/mcp",
        "https://hub.example/tools/mcp#x",
        "https://hub.example/tools/mcp?x",
        "https://hub.example/tools/mcp/../admin",
        "https://hub.example/tools/messages",
        "https://hub.example/tools/mcp/s/",
        "https://hub.example/tools/mcp/s/a/b",
        "https://hub.example/tools/w//mcp",
        "https://hub.example/tools/w/Team/mcp",
        "https://hub.example/tools/w/team/sse",
        "https://127.0.0.1/tools/mcp",
        "https://hub.example:x/tools/mcp",
        "/tools/mcp",
        "",
    ],
)
@pytest.mark.usefixtures("public")
def test_what_is_not_served_here_has_no_name(foreign: str) -> None:
    assert endpoints.named(foreign) == ""


@pytest.mark.usefixtures("public")
def test_the_public_address_is_told_whatever_host_a_client_used() -> None:
    for host in (None, "hub.example", "localhost:8000", "10.0.0.1"):
        assert endpoints.identifier("/mcp", host) == f"{PUBLIC}/mcp"
    assert endpoints.named("HTTPS://HUB.example:443/tools/mcp/") == "/mcp"


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000"])
def test_names_of_this_machine_are_one_hub(settings: Any, host: str) -> None:
    settings.MCPHUB_PUBLIC_URL = "http://127.0.0.1:8000"
    assert endpoints.identifier("/mcp", host) == f"http://{host}/mcp"
    assert endpoints.named(f"http://{host}/mcp") == "/mcp"
    assert endpoints.identifier("/mcp", host.replace("8000", "9000")) == "http://127.0.0.1:8000/mcp"
    assert endpoints.named(f"http://{host}/mcp".replace("8000", "9000")) == ""


@given(st.text() | st.text(alphabet="[]:/@1.lh"))
def test_no_text_makes_a_name_fail(text: str) -> None:
    assert endpoints.named(text) in ("", *endpoints.own())
    endpoints.of_path(text)
    endpoints.origin_for(text)


@given(st.text())
def test_only_the_hub_makes_tokens(text: str) -> None:
    assert not tokens.is_own(text)
    made = tokens.new_text(tokens.ACCESS)
    assert tokens.is_own(made)
    assert not tokens.is_own(made + text) or not text
    assert not tokens.is_own(tokens.new_text(tokens.REFRESH))
