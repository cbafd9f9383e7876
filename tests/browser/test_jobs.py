"""What operators want most takes no more clicks and keys than each job allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser import jobs
from tests.browser.conftest import patient
from tests.browser.operating import PASSWORD, log_in
from tests.servers import Hub


@pytest.fixture(scope="module")
def page(program: str, chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A page of the operator of a hub with two days of calls."""
    from tests.browser import content

    with Hub(tmp_path_factory.mktemp("hub"), packs=["starter"]) as hub:
        hub.operate(content.fill, PASSWORD)
        hub.operate(content.offer_changes, jobs.DIFFERENCES)
        context = patient(
            chromium.new_context(base_url=hub.url, locale="en-GB", viewport={"width": 1280, "height": 800})
        )
        page = context.new_page()
        log_in(page)
        yield page
        context.close()


@pytest.mark.parametrize("job", jobs.JOBS, ids=lambda job: job.words)
def test_a_job_takes_few_clicks_and_keys(job: jobs.Job, page: Any) -> None:
    effort = jobs.do(job, page)
    assert (effort.clicks <= job.most_clicks, effort.keys <= job.most_keys) == (True, True), effort
