"""How fast the console is over a million calls, and whether an index answers each of its queries.

    python -m benchmarks.pages [--postgresql] [--calls 1000000] [--tools 5000] [--connections 50] [--rounds 20]
        [--data-dir DIR] [--only WORDS]... [--counts FILE] [--write-counts FILE]

Seeds a database (`tests/rigs/seeding.py`) unless --data-dir holds one. First each page (`tests/rigs/pages.py`: every
address, every list by every filter, order and search) is asked for once and the plan of each statement is judged
(`tests/rigs/plans.py`). Then a hub is started over it and every page is fetched over HTTP, logged in as a superuser.
Ends with 1 where a query has no index, a page does not open, or a page asks more than --counts allows. Times are
printed, those above the limits marked; they decide nothing, since they are the machine's too.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from tests.rigs import seeding
from tests.servers import ROOT, Hub, postgres_database

PASSWORD = "a long password"
PAGE_MS, LIST_MS = 1000, 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--tools", type=int, default=5000)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20, help="requests a page; 0 judges the plans alone")
    parser.add_argument("--database", default="", help="address of a PostgreSQL database that is seeded, or empty")
    parser.add_argument("--postgresql", action="store_true", help="on a PostgreSQL database of its own")
    parser.add_argument("--data-dir", type=Path, help="keep, or use again, what is seeded there")
    parser.add_argument("--only", action="append", help="pages whose address holds this")
    parser.add_argument("--counts", type=Path, help="file of how many statements each page may cost")
    parser.add_argument("--write-counts", type=Path, help="write that file")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        address = options.database
        if options.postgresql:
            address = stack.enter_context(postgres_database())
        folder = options.data_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-pages-")))
        data = folder / "data"
        if not (data / "seeded").exists():
            _seed(data, address, options)
        seeding.setup(str(data), address)
        wrong, found = _judged(options)
        if options.rounds:
            with Hub(folder, environment={"MCPHUB_DATABASE_URL": address} if address else {}) as hub:
                _timed(hub, found, options.rounds)
    print(f"{len(found)} pages; {len(wrong)} faults")
    print("\n".join(wrong))
    return 1 if wrong else 0


def _seed(data: Path, address: str, options: argparse.Namespace) -> None:
    sizes = [f"--{name}={getattr(options, name)}" for name in ("calls", "tools", "connections")]
    words = ["--data-dir", str(data), "--database", address, *sizes, "--seal"]
    subprocess.run([sys.executable, "-m", "tests.rigs.seeding", *words], cwd=ROOT, check=True)
    (data / "seeded").touch()


def _judged(options: argparse.Namespace) -> tuple[list[str], list[tuple[str, str, int]]]:
    """Ask for each page in this process. Give what is wrong, and (group, address, statements) of each."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client

    from mcphub import groups
    from tests.rigs import addresses, filling, pages, plans
    from tools_catalog.backends import python

    logging.getLogger("django.request").setLevel(logging.CRITICAL)  # a refusal is an answer, too
    groups.install()
    addresses.one_of_each()  # one that can be approved, before those whose time is over
    filling.fill()
    if connection.vendor == "postgresql":
        connection.cursor().execute("ANALYZE")  # as it does by itself soon after so many rows
    python.discover(["starter"])
    user = User.objects.filter(username="reader").first() or User.objects.create_superuser("reader", password=PASSWORD)
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    _narrow_windows()
    judge = plans.Judge()
    wrong: dict[str, str] = {}
    found, most = [], defaultdict(int)
    for group, where in pages.places(user):
        if options.only and not any(words in where for words in options.only):
            continue
        if group not in most:
            client.get(where)  # what is cached after the first time is not counted
        with plans.watched() as seen:
            status = client.get(where).status_code
        found.append((group, where, len(seen.statements)))
        most[group] = max(most[group], len(seen.statements))
        if status >= 500:
            wrong.setdefault(where, f"{where}: status {status}")
        for offence in judge.offences(seen):
            if offence not in wrong:
                wrong[offence] = f"{where}\n    {offence}"
                print(wrong[offence], flush=True)
    return [*wrong.values(), *_uncounted(most, options)], found


def _narrow_windows() -> None:
    """Have each list look among fewer rows than there are, as it does where there are many."""
    from django.contrib import admin

    from sessions_app.kit.admin.base import UncountedAdmin

    for model, page in admin.site._registry.items():
        if isinstance(page, UncountedAdmin) and page.is_windowed:
            count = model._default_manager.count()
            page.window = page.window if count > 2 * page.window else 100 if count > 100 else 1


def _uncounted(most: dict[str, int], options: argparse.Namespace) -> Iterator[str]:
    if options.write_counts:
        options.write_counts.write_text("".join(f"{group} {count}\n" for group, count in sorted(most.items())))
    if options.counts:
        allowed = dict(line.rsplit(" ", 1) for line in options.counts.read_text().splitlines())
        for group, count in most.items():
            if count > int(allowed.get(group, 0)):
                yield f"{group}: {count} statements, {allowed.get(group, 'none')} are allowed"


def _timed(hub: Hub, found: list[tuple[str, str, int]], rounds: int) -> None:
    """Fetch each page over HTTP; print its median and p95, the slowest of each list."""
    print(f"{'page':<100}{'median':>10}{'p95':>10}{'queries':>9}")
    slow = 0
    with httpx2.Client(base_url=hub.url, timeout=120) as http:
        _log_in(http)
        for group, where, statements in found:
            took = []
            for _ in range(rounds):
                began = time.perf_counter()
                answer = http.get(where)
                took.append((time.perf_counter() - began) * 1000)
            took.sort()
            p95 = took[-1 - len(took) // 20]
            is_list = re.fullmatch(r"admin/\w+/\w+/", group) is not None
            over = p95 > (LIST_MS if is_list else PAGE_MS)
            slow += over
            remark = "  SLOW" if over else "" if answer.status_code < 400 else f"  {answer.status_code}"
            print(f"{where[:98]:<100}{median(took):>7.0f} ms{p95:>7.0f} ms{statements:>9}{remark}", flush=True)
    print(f"{slow} of {len(found)} above {PAGE_MS} ms, lists above {LIST_MS} ms, at p95")


def _log_in(http: httpx2.Client) -> None:
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', http.get("/admin/login/").text)
    assert token is not None
    words: dict[str, Any] = {"username": "reader", "password": PASSWORD, "csrfmiddlewaretoken": token[1]}
    answer = http.post("/admin/login/", data=words, headers={"Referer": str(http.base_url)})
    assert answer.status_code == 302, answer.text[:500]


if __name__ == "__main__":
    os.environ.setdefault("MCPHUB_ALLOW_NOT_DURABLE", "1")
    sys.exit(main())
