"""What nobody needs any more goes, although it refers to itself."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from mcphub.process import garbage
from mcphub.process.garbage import GarbageWatch
from sessions_app.models import ApiKey
from tests.rest import by_token, error_of
from tests.servers import ROOT

MANY = 20_000
LARGE = 80 * 1024 * 1024


class Cycle:
    def __init__(self) -> None:
        self.own = self
        self.content = bytearray(LARGE)
        self.content[::4096] = b"x" * (LARGE // 4096)  # pages that were written are resident


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Leave no free memory of earlier tests, so that a large object grows the process."""
    gc.collect()
    garbage._give_back()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.usefixtures("uncollected")
def test_a_process_that_has_grown_collects_cycles() -> None:
    watch = GarbageWatch()
    kept = weakref.ref(Cycle())
    assert kept() is not None
    watch.look()
    assert kept() is None


@pytest.mark.django_db
@pytest.mark.usefixtures("uncollected")
def test_a_refused_body_is_named_in_part_and_let_go() -> None:
    _, token = ApiKey.issue("k", scopes=["catalog:write", "audit:read"])
    body = {f"unknown-{number}": number for number in range(MANY)}
    answer = by_token(token).put("/api/error-mappings/timeout/", body, content_type="application/json")
    fields = error_of(answer, 400, "invalid_params")["details"]["fields"]
    assert len(fields) == 21
    assert fields["*"] == [f"{MANY - 20} more fields are wrong."]
    assert len(answer.content) < 20_000
    del body, answer
    assert not [found for found in gc.get_objects() if type(found) is dict and f"unknown-{MANY - 1}" in found]


@pytest.mark.django_db
def test_names_and_words_of_a_refusal_are_bounded() -> None:
    _, token = ApiKey.issue("k", scopes=["catalog:write", "audit:read"])
    body = {"n" * 100_000: 1, "message_template": 5, "severity": "s" * 100_000}
    answer = by_token(token).put("/api/error-mappings/timeout/", body, content_type="application/json")
    error_of(answer, 400, "invalid_params")
    assert len(answer.content) < 20_000


def test_a_collection_gives_the_system_back_what_malloc_holds_free() -> None:
    garbage._give_back()  # as `uncollected` does
    watch = GarbageWatch()
    pieces = [bytes(600 + number % 3000) for number in range(100_000)]  # each too large for Python's own allocator
    between = pieces[::7]
    del pieces
    held = garbage._resident_bytes()
    watch.look()
    assert held - garbage._resident_bytes() >= LARGE
    assert len(between) > MANY / 2


_THREADS = """
import ctypes, sys, threading
from mcphub.process.garbage import share_one_heap

if sys.argv[1] == "shared":
    share_one_heap()
together = threading.Barrier(8)

def take():
    together.wait()
    kept = [bytes(600 + number % 3000) for number in range(1000)]
    together.wait()

threads = [threading.Thread(target=take) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
ctypes.CDLL(None).malloc_stats()
"""


@pytest.mark.program
@pytest.mark.parametrize(("how", "is_one"), [("shared", True), ("as it comes", False)])
def test_threads_take_memory_from_one_heap(how: str, is_one: bool) -> None:
    told = subprocess.run([sys.executable, "-c", _THREADS, how], capture_output=True, text=True, check=True, cwd=ROOT)
    assert (told.stderr.count("Arena ") == 1) == is_one, told.stderr


_LARGE = """
import sys
from mcphub.process.garbage import _resident_bytes, share_one_heap

if sys.argv[1] == "shared":
    share_one_heap()
size = 16 * 1024 * 1024
first = b"x" * size  # once it is freed, malloc takes the heap for what is no larger
del first
before = _resident_bytes()
second = b"x" * (size - 4096)
after_it = [bytes(600 + number % 3000) for number in range(1000)]
del second
print(_resident_bytes() - before < size / 2)
"""


@pytest.mark.program
@pytest.mark.parametrize(("how", "is_given_back"), [("shared", "True"), ("as it comes", "False")])
def test_what_is_large_goes_back_to_the_system_at_once(how: str, is_given_back: str) -> None:
    told = subprocess.run([sys.executable, "-c", _LARGE, how], capture_output=True, text=True, check=True, cwd=ROOT)
    assert told.stdout.strip() == is_given_back
