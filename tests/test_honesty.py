"""CONTRIBUTING promises tests whose verdict depends on no clock, no sleep, no chance and no replaced code of ours.

Each check reads the sources of the tests. What it lets through is listed here, with the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.forking import ROOT
from tests.waiting import PATIENCE_SECONDS

SLEEPS = {
    "tests/browser/conftest.py": "asks a page again until it has loaded",
    "tests/conformance": "servers of the official suite, whose tools take a time that the suite names",
    "tests/features/chat/provider.py": "a provider that is as slow as its script says",
    "tests/servers.py": "`until`, for tests without an event loop",
    "tests/toolbox/tools.py": "a tool that waits for a file of another process",
    "tests/upstreams/peers": "servers of others that are slow on purpose",
    "tests/waiting.py": "`until`, for tests with an event loop",
}
"""Where a test may sleep: what polls, once for all tests, and programs whose slowness is what is tested."""

BRIEF = {
    "tests/features/events/upstream.py": "the heartbeat of a stream, by which the upstream finds that its client left",
    "tests/clients": "programs of others' environments, with a patience of their own",
    "tests/conformance": "the official suite's own bounds, and servers of which it knows the pace",
    "tests/features/chat/test_approvals.py": "a client gives up a call that may be held, and asks again",
    "tests/invocations/test_judging.py": "counts the turns of the loop while a check runs",
    "tests/upstreams/peers": "servers of others",
    "tests/upstreams/test_one_child.py": "looks again and again until the test is over",
    "tests/upstreams/test_supervision.py": "a client gives up a call that nobody answers",
}
"""Where a wait may be shorter than a busy machine may need: its end is no failure."""

LOWERED = {
    "MOST_BYTES_OF_CALLER",
    "MOST_COUNTED",
    "MOST_OF_CALLER",
    "PAGE",
    "SECONDS",
    "FIRST_STRETCH",
    "_CHECK_SECONDS",
    "_LOOK_SECONDS",
    "_MOST_ROWS",
    "_STREAM_SECONDS",
    "_STRETCH",
    "_STRETCHES_A_LOOK",
    "list_per_page",
    "seconds",
    "stretch",
    "window",
}
"""Bounds that a test may set, so that few rows and one look reach them, or no wait. They replace no code."""

STATE = {
    "settling": "what a process knows of earlier tests' rows, made anew",
    "poll": "what the system says of a socket while the goodbye of its server is still under way",
}

_CLOCKS = {"time", "time_ns", "monotonic", "perf_counter", "now", "utcnow", "today", "localdate", "localtime"}
_DRAWS = {"random", "randint", "choice", "choices", "shuffle", "sample", "randrange", "uniform", "randbytes", "gauss"}
_WAITS = {"communicate", "join", "settimeout", "wait"}
_REQUESTS = {"AsyncClient", "Client", "delete", "get", "patch", "post", "put", "request", "stream"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def sources() -> list[tuple[str, ast.Module]]:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    named = ((path.relative_to(ROOT).as_posix(), path) for path in paths)
    return [(name, ast.parse(path.read_text())) for name, path in named if not name.startswith("tests/rigs/")]


def name_of(call: ast.Call) -> tuple[str, str]:
    """Return what a function is taken from, and its name."""
    if isinstance(call.func, ast.Attribute):
        return ast.unparse(call.func.value), call.func.attr
    return "", call.func.id if isinstance(call.func, ast.Name) else ""


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def made_at_import(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that an import of the module makes: not those in the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTIONS):
            parts = [*child.decorator_list, *child.args.defaults, *filter(None, child.args.kw_defaults)]
            yield from made_at_import(ast.Module(body=[ast.Expr(part) for part in parts], type_ignores=[]))
        elif not isinstance(child, ast.Lambda):
            if isinstance(child, ast.Call):
                yield child
            yield from made_at_import(child)


def sleeps(name: str, tree: ast.Module) -> Iterator[ast.Call]:
    if name.startswith(tuple(SLEEPS)):
        return
    for call in calls(tree):
        of, function = name_of(call)
        yields = call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
        if function == "sleep" and of in ("", "time", "asyncio", "anyio", "trio") and not yields:
            yield call


def replaces(_name: str, tree: ast.Module) -> Iterator[ast.Call]:
    for call in calls(tree):
        of, function = name_of(call)
        if function in ("setattr", "delattr") and of.endswith(("monkeypatch", "patch", "MonkeyPatch()")):
            what = call.args[1] if len(call.args) > 1 else None
            if not (isinstance(what, ast.Constant) and what.value in {*LOWERED, *STATE}):
                yield call
        elif of.partition(".")[0] in ("mock", "mocker", "unittest") or (of, function) == ("patch", "object"):
            yield call


def asks_the_clock(_name: str, tree: ast.Module) -> Iterator[ast.Call]:
    return (call for call in made_at_import(tree) if name_of(call)[1] in _CLOCKS)


def draws(_name: str, tree: ast.Module) -> Iterator[ast.Call]:
    """Yield draws that no seed repeats."""
    for call in calls(tree):
        of, function = name_of(call)
        unseeded = function == "Random" and of in ("", "random") and not call.args
        if unseeded or (of == "random" and function in _DRAWS):
            yield call


def hurries(name: str, tree: ast.Module) -> Iterator[ast.Call]:
    """Yield waits whose own bound a busy machine may miss, and requests with the five seconds of the library."""
    if name.startswith(tuple(BRIEF)):
        return
    for call in calls(tree):
        of, function = name_of(call)
        named = {each.arg: each.value for each in call.keywords}
        bounds = [value for word, value in named.items() if word in ("timeout", "connect_timeout")]
        if function in _WAITS or (of, function) in {("asyncio", "timeout"), ("asyncio", "wait_for")}:
            bounds += call.args
        is_short = any(
            isinstance(bound, ast.Constant) and type(bound.value) in (int, float) and 0 < bound.value < PATIENCE_SECONDS
            for bound in bounds
        )
        is_bound = function == "until" and (len(call.args) > 1 or "seconds" in named)
        is_default = of == "httpx2" and function in _REQUESTS and not {"timeout", "transport", None} & named.keys()
        if is_short or is_bound or is_default:
            yield call


@pytest.mark.parametrize(
    ("find", "instead"),
    [
        (sleeps, "wait for an event, or with `until` of tests/waiting.py or tests/servers.py"),
        (replaces, "hand the code what it works with, or lower a bound that LOWERED names"),
        (asks_the_clock, "ask the clock within the test, or name a fixed moment"),
        (draws, "draw with random.Random(SEED)"),
        (hurries, "wait for PATIENCE_SECONDS of tests/waiting.py, which `until` does by itself"),
    ],
    ids=["no sleep", "no replaced code", "no time of the import", "no chance without a seed", "no haste"],
)
def test_no_verdict_hangs_on_what_a_test_cannot_repeat(
    find: Callable[[str, ast.Module], Iterator[ast.Call]], instead: str
) -> None:
    found = [f"{name}:{call.lineno} {ast.unparse(call)}" for name, tree in sources() for call in find(name, tree)]
    assert not found, f"{instead}: {found}"


def test_what_is_let_through_is_there() -> None:
    """A place that is gone leaves the list, too."""
    assert all(Path(ROOT, name).exists() for name in {**SLEEPS, **BRIEF})
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))
    assert not [name for name in {*LOWERED, *STATE} if f'"{name}"' not in text]


WRONG = """
import asyncio, random, time
BEGAN = time.time()
@decorated(until=timezone.now())
def test(monkeypatch, at=datetime.now()):
    time.sleep(1)
    monkeypatch.setattr(module, "function", lambda: None)
    asyncio.sleep(0), time.time(), random.Random(1).random(), monkeypatch.setattr(module, "PAGE", 2)
    random.random()
    until(ready, 60), process.wait(20), httpx2.get(address), run(words, timeout=60)
    until(ready), process.wait(PATIENCE_SECONDS), httpx2.get(address, timeout=PATIENCE_SECONDS)
"""


@pytest.mark.parametrize(
    ("find", "lines"), [(sleeps, [6]), (replaces, [7]), (asks_the_clock, [3, 4, 5]), (draws, [9]), (hurries, [10] * 4)]
)
def test_each_check_finds_what_it_is_for(find: Callable[..., Iterator[ast.Call]], lines: list[int]) -> None:
    assert sorted(call.lineno for call in find("tests/test_x.py", ast.parse(WRONG))) == lines
