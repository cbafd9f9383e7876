"""Workers that ask about one call in the same moment share the question: none ends what another has just asked."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from mcphub.features.approvals import asking
from mcphub.features.approvals.models import McpApproval
from tests.features.approvals.test_many import asked

_WORKERS, _ROUNDS = 6, 12


@pytest.mark.usefixtures("transactional_db")
def test_workers_that_ask_in_the_same_moment_share_one_question() -> None:
    for number in range(_ROUNDS):
        of = asked("key:one", n=number)
        begin, found, failures = threading.Barrier(_WORKERS), [], []

        def work(
            of: asking.Asked = of,
            begin: threading.Barrier = begin,
            found: list[str] = found,
            failures: list[Exception] = failures,
        ) -> None:
            try:
                begin.wait()
                found.append(asking.attach(of).pk)
            except Exception as error:
                failures.append(error)
            finally:
                connection.close()

        threads = [threading.Thread(target=work) for _ in range(_WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(found) == _WORKERS
        assert len(set(found)) == 1
    assert set(McpApproval.objects.values_list("status", flat=True)) == {"pending"}
    assert McpApproval.objects.count() == _ROUNDS
