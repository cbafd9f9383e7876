"""docs/start/tutorial.md works as it is written."""

from __future__ import annotations

from pathlib import Path

from tests import operations
from tests.servers import until
from tests.tutorial import OFFER, Reader


def test_the_tutorial_works_as_written(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    reader.write_files()
    with reader.hub as hub:
        upstream = reader.start_upstream()
        try:
            reader.remember("export HUB")
            found, lent, twice, refused = reader.run("call find_book").splitlines()
            assert '"lent_to":null' in found
            assert '"lent_to":"Mr. Okoro"' in lent
            assert '"isError":true' in twice
            assert "reader" in refused
            assert '"slug"' in reader.run("curl -s -X POST")
            assert "error" in reader.run("call post_postage '{\"grams\": 2500}'    # an error")
            until(lambda: hub.operate(operations.count, OFFER) == 1)
            hub.operate(operations.approve_offers, "post")
            until(lambda: "6.50 euros" in reader.run("call post_postage '{\"grams\": 2500}'    # 6.50"))
        finally:
            upstream.kill()
            upstream.wait()
        assert '"error_code": "invalid_arguments"' in reader.run(
            'curl -s "$HUB/api/invocations/?tool=lend_book&status=error"'
        )
        assert "tutorial {'reader': 'Mr. Okoro'" in reader.run(
            'curl -s "$HUB/api/invocations/?tool=lend_book&status=ok"'
        )
        assert reader.run(".venv/bin/mcphub audit verify")
