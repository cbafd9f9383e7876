"""A hub whose log is rewritten while it runs, by somebody with all its rights: it says so wherever people look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.rigs.rewriting import FAST, Rewriting
from tests.servers import Hub, postgres_database, until

pytestmark = pytest.mark.program


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.rig)])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    environment, flags = dict(FAST), []
    with ExitStack() as stack:
        if request.param == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
            flags = ["--workers", "2"]
        yield stack.enter_context(Hub(tmp_path / "hub", environment=environment, flags=flags))


def test_a_call_that_is_taken_out_of_the_middle_is_noticed_and_nothing_is_sealed_over_it(hub: Hub) -> None:
    tried = Rewriting(hub)
    tried.grow()
    until(lambda: "verified_user" in tried.page("/admin/"))
    for path in ("/admin/", "/admin/sessions_app/mcpsession/", "/admin/invocations/auditblock/integrity/"):
        assert "Audit log: alarm" not in tried.page(path)
    assert not tried.ready()
    broken = {promise: why for promise, why in tried.run().items() if why}
    assert not broken


def test_the_next_start_begins_with_the_alarm(tmp_path: Path) -> None:
    """Though whoever cut the log cut the checkpoints too, so that both agree."""
    with Hub(tmp_path / "hub", environment=FAST) as hub:
        assert not any(Rewriting(hub).run().values())
        (hub.data / "audit" / "checkpoints").unlink()
    with Hub(tmp_path / "hub", environment=FAST) as hub:
        tried = Rewriting(hub)
        until(lambda: "gpp_bad" in tried.page("/admin/"))
        assert "Аудит: тревога" in tried.page("/admin/", "ru")
        assert "audit verify" in tried.page("/admin/invocations/auditblock/integrity/")
        status, said = tried.verified()
        assert (status, "OPEN ALARM" in said, "BAD" in said) == (1, True, False)
        assert "lifted, 0 open" in hub.command("audit", "lift-alarm", "--reason", "the test cut it")
        assert tried.verified()[0] == 0
        until(lambda: "verified_user" in tried.page("/admin/"))
