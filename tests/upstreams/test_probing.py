"""Of what era an upstream is, when its first answers are not its own: a proxy's, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.servers import until
from tests.upstreams.conftest import Operator, Peer
from tests.upstreams.fronting import front

AWAY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
MODERN = "2026-07-28"


@pytest.mark.parametrize(
    ("slug", "instead"), [("away", [AWAY]), ("long_away", [AWAY, AWAY, AWAY]), ("broken_off", [b""])]
)
def test_an_upstream_that_was_not_there_at_first_is_not_taken_for_an_old_one(
    operator: Operator, running: Callable[..., Peer], slug: str, instead: list[bytes]
) -> None:
    with front(running("sdk_v2.py", "http"), list(instead)) as before:
        operator.connect(slug, url=before.url)
        until(lambda: operator.row(slug)["version"])
        version = operator.row(slug)["version"]
        operator.change(slug, enabled=False)
    assert version == MODERN
