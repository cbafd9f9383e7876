"""One program in its confined process: what it may say, what it gets, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mcphub.features.programs import running
from tests.features.code_programs.answering import LIMITS, ProgramAnswers, confined, ran
from tests.servers import until
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.upstream.confinement import machine

pytestmark = [pytest.mark.program, confined]


def test_a_program_prints_returns_and_reads_its_input() -> None:
    found = ran("print('sum', {of: 2}); console.log('é\\u2028'); return input.values.length", {"values": [1, 2]})
    assert (found.output.text, found.output.value) == ('sum {"of":2}\né\u2028\n', "2")


def test_a_program_without_a_value_returns_none() -> None:
    assert ran("print('done')").output.value is None
    assert ran("return () => 1").output.value is None
    assert ran("return undefined").output.value is None


def test_calls_are_awaited_together_or_one_after_the_other() -> None:
    found = ran("return await Promise.all([1, 2, 3].map(n => tools.meet({n})))", calls_at_once=2)
    assert found.output.value == '[{"n":1},{"n":2},{"n":3}]'
    assert (found.output.calls, found.answers.most_at_once) == (3, 2)
    found = ran("const a = await tools['a.b-c']({n: 1}); return (await call('second', a)).n")
    assert [(each.name, each.given) for each in found.answers.asked] == [("a.b-c", {"n": 1}), ("second", {"n": 1})]


def test_a_call_that_nobody_awaits_is_made_to_its_end() -> None:
    found = ran("tools.echo({n: 1}); tools.fail({code: 'x'}); return 'done'")
    assert found.output.value == '"done"'
    assert (len(found.answers.asked), found.answers.at_once, found.output.failed_calls) == (2, 0, 1)


def test_a_missing_engine_names_what_to_install() -> None:
    with pytest.raises(running.ProgramUnavailable, match="installs quickjs-ng"):
        running.engine_folder("no_such_engine")


def test_a_failed_call_is_an_exception_with_its_code() -> None:
    found = ran(
        "try { await tools.fail({code: 'policy_denied'}) } "
        "catch (e) { return [e instanceof HubCallError, e.code, e.message, e.details.why] }"
    )
    assert found.output.value == '[true,"policy_denied","It failed.","asked to"]'
    uncaught = ran("const a = 1;\nawait tools.fail({code: 'policy_denied'});")
    assert uncaught.failure is not None
    assert (uncaught.code, uncaught.failure.call_code) == ("program_exception", "policy_denied")
    assert uncaught.output.failed_calls == 1


@pytest.mark.parametrize(
    ("program", "code", "advice"),
    [
        ("let x = ;", "program_syntax_error", "Send it again, corrected."),
        ("null.x", "program_exception", "Correct the program, and send it again."),
        ("throw 'a text'", "program_exception", "Correct the program, and send it again."),
        ("return 1n", "program_exception", "Correct the program, and send it again."),
        ("const a = {}; a.a = a; return a", "program_exception", "Correct the program, and send it again."),
        ("(function f() { f() })()", "program_exception", "Correct the program, and send it again."),
        (
            "await fetch('https://example.org')",
            "program_exception",
            "A program has tools, call, search, describe, print",
        ),
        ("await tools.fail({code: 'policy_denied'})", "program_exception", "Correct the call, or catch the error."),
        ("while (true);", "program_processor_time", "Look for a loop without an end."),
        ("/^(a+)+$/.test('a'.repeat(64) + 'b')", "program_processor_time", "Look for a loop without an end."),
        ("await new Promise(() => {})", "program_stuck", "Await only calls of tools, search and describe."),
        (
            "const all = []; while (true) all.push('x'.repeat(1000) + all.length)",
            "program_out_of_memory",
            "Handle fewer data at once.",
        ),
        ("'x'.repeat(1 << 29).repeat(4)", "program_out_of_memory", "Handle fewer data at once."),
        ("while (true) print('x'.repeat(100))", "program_output_too_large", "Select and count in the program"),
        ("return 'x'.repeat(6000)", "program_output_too_large", "Select and count in the program"),
        ("print('x'.repeat(2 << 20))", "program_output_too_large", "Print, return and send less."),
        ("while (true) await tools.echo()", "program_too_many_calls", "Divide the work among several programs."),
        ("while (true) await search('words')", "program_too_many_calls", "Ask less often."),
        (
            "await tools.echo(); await Promise.all(Array.from({length: 50}, () => tools.wait()))",
            "program_too_many_calls",
            "Divide the work among several programs.",
        ),
    ],
)
def test_each_way_to_end_has_its_code_and_says_what_to_do(program: str, code: str, advice: str) -> None:
    found = ran(program)
    assert found.code == code
    assert found.failure is not None
    assert advice in found.failure.sentence
    assert found.output.calls <= LIMITS.calls


def test_errors_name_the_programs_own_lines() -> None:
    assert "(line 1, column 9)" in ran("let x = ;").failure.sentence  # type: ignore[union-attr]
    assert "(line 3, column" in ran("\n\nnull.x").failure.sentence  # type: ignore[union-attr]
    failed = "await tools.echo();\nasync function one() {\n  await tools.fail({code: 'denied'});\n}\nawait one();"
    assert "(line 3, column 15; line 5, column 7)" in ran(failed).failure.sentence  # type: ignore[union-attr]  # it failed


def test_a_program_that_waits_longer_than_its_time_ends() -> None:
    found = ran("await tools.wait()", seconds=0.5)
    assert found.code == "program_timeout"


def test_a_result_that_is_too_large_fails_its_call_alone() -> None:
    found = ran(
        "try { await tools.large({size: 5000000}) } catch (e) { print(e.code) } "
        "return (await tools.large({size: 9})).length"
    )
    assert (found.output.text, found.output.value) == ("result_too_large\n", "9")


def test_a_cancelled_program_leaves_no_process() -> None:
    async def cancelled() -> int:
        answers = ProgramAnswers()
        work = asyncio.create_task(running.run("await tools.wait()", None, answers, LIMITS))
        await answers.is_asked.wait()
        (child,) = [each for each in _children(os.getpid()) if "child.py" in _words(each)]
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return child

    assert not Path(f"/proc/{asyncio.run(cancelled())}").exists()


@pytest.mark.parametrize("program", ["await tools.wait()", "print(1); while (true);"])
def test_a_hub_that_is_killed_leaves_no_program(program: str) -> None:
    source = f"""
        import asyncio
        from mcphub.features.programs import running
        async def never(question):
            await asyncio.Event().wait()
        limits = running.ProgramLimits(processor_seconds=600)
        asyncio.run(running.run({program!r}, None, never, limits))
    """
    hub = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source)])
    until(lambda: any("child.py" in _words(each) for each in _children(hub.pid)))
    children = _children(hub.pid)
    hub.send_signal(signal.SIGKILL)
    hub.wait()
    until(lambda: not any(_words(each) for each in children))


_TRIES = """
import os, signal, socket, sys
sys.path.append({packages!r})
from tools_catalog.upstream.confinement import kernel, strict
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
strict.give_up_all()
def tried(what):
    try:
        what()
    except OSError:
        return
    os.write(1, b"escaped")
    os._exit(1)
for each in (
    lambda: os.open("/etc/passwd", os.O_RDONLY), lambda: os.open("/tmp/made", os.O_CREAT | os.O_WRONLY),
    lambda: os.listdir("/"), lambda: os.stat("/"), lambda: os.fork(), lambda: os.execv("/bin/true", ["true"]),
    lambda: socket.socket(), lambda: socket.socketpair(), lambda: os.pipe(), lambda: os.kill(os.getppid(), 0),
    lambda: os.unlink("/tmp/none"), lambda: os.chmod("/tmp", 0o777), lambda: os.mkdir("/tmp/a"), lambda: os.getcwd(),
    lambda: os.setuid(0), lambda: os.nice(1), lambda: os.chdir("/tmp"), lambda: os.symlink("/", "/tmp/b"),
    lambda: os.dup(1), lambda: os.memfd_create("a"), lambda: os.pidfd_open(os.getppid()),
):
    tried(each)
os.write(1, b"held")
os._exit(0)
"""


def test_code_that_took_over_the_process_can_neither_open_nor_start_nor_signal_anything() -> None:
    source = _TRIES.format(packages=str(Path(machine.__file__).parents[3]))
    done = subprocess.run(
        [sys.executable, "-I", "-c", source], capture_output=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.stdout == b"held", done.stderr.decode()


def _children(of: int) -> list[int]:
    found = []
    for each in Path(f"/proc/{of}/task").iterdir():
        found += [int(word) for word in (each / "children").read_text().split()]
    return found


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
