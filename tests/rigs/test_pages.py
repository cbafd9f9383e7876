"""Every page of the console, each list by each filter: an index answers each query, and no page asks more than it may.

`statements.txt` holds how many statements the dearest variant of each page costs. After a change that is meant to cost
more, or a new page:
`python -m benchmarks.pages --calls 2500 --tools 60 --connections 4 --rounds 0 --write-counts tests/rigs/statements.txt`
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT

pytestmark = pytest.mark.rig

SIZES = ["--calls", "2500", "--tools", "60", "--connections", "4", "--rounds", "0"]
COUNTS = Path(__file__).with_name("statements.txt")


@pytest.mark.long
def test_each_query_has_an_index_and_each_page_its_pinned_number_of_them():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pages", *SIZES, "--counts", str(COUNTS)],
        cwd=ROOT,
        env={**environment, "MCPHUB_ALLOW_NOT_DURABLE": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "; 0 faults" in done.stdout
