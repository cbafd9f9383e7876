"""What operators want most takes no more clicks and keys than each job allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import jobs
from tests.browser.conftest import patient
from tests.browser.operating import PASSWORD, log_in
from tests.servers import Hub


@pytest.fixture(scope="module")
def hub(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with two days of calls."""
    from tests.browser import content

    with Hub(tmp_path_factory.mktemp("hub"), packs=["starter"]) as hub:
        hub.operate(content.fill, PASSWORD)
        hub.operate(content.offer_changes, jobs.DIFFERENCES)
        yield hub


@pytest.fixture(scope="module")
def pages(hub: Hub, chromium: Any) -> Iterator[Callable[[str], Any]]:
    """Return the page of a person who has logged in."""
    opened: dict[str, Any] = {}

    def page_of(name: str) -> Any:
        if name not in opened:
            context = chromium.new_context(base_url=hub.url, locale="en-GB", viewport={"width": 1280, "height": 800})
            opened[name] = patient(context).new_page()
            log_in(opened[name], name)
        return opened[name]

    yield page_of
    for page in opened.values():
        page.context.close()


@pytest.mark.parametrize("job", jobs.JOBS, ids=lambda job: job.words)
def test_a_job_takes_few_clicks_and_keys(job: jobs.Job, pages: Callable[[str], Any]) -> None:
    effort = jobs.do(job, pages(job.by))
    assert (effort.clicks <= job.most_clicks, effort.keys <= job.most_keys) == (True, True), effort
