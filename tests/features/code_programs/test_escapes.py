"""Attempts of programs to get out. Each returns `escaped` where it succeeds."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.features.code_programs.answering import ProgramRun, confined, ran

pytestmark = [pytest.mark.program, confined]

_FORGED = '{"done": "\\"escaped\\""}'
ATTEMPTS = {
    # files
    "reads a file with std": "return std.open(input.file, 'r').readAsString() && 'escaped'",
    "reads a file with os": "return os.open(input.file, 0) >= 0 ? 'escaped' : 'no'",
    "reads a file with require": "return require('fs').readFileSync(input.file) && 'escaped'",
    "reads a file with import": "return (await import(input.file)) && 'escaped'",
    "imports a module of QuickJS": "return (await import('qjs:std')) && 'escaped'",
    "imports by name": "return (await import('os')) && 'escaped'",
    "imports a file URL": "return (await import('file://' + input.file)) && 'escaped'",
    "imports JSON": "return (await import(input.file, {with: {type: 'json'}})) && 'escaped'",
    "reads with load": "load(input.file); return 'escaped'",
    "reads with loadScript": "return loadScript(input.file) && 'escaped'",
    "asks Deno or Bun": "return (Deno ?? Bun).readTextFile(input.file) && 'escaped'",
    # network
    "fetches": "await fetch(`http://127.0.0.1:${input.port}/`); return 'escaped'",
    "opens a web socket": "new WebSocket(`ws://127.0.0.1:${input.port}/`); return 'escaped'",
    "sends with XMLHttpRequest": "new XMLHttpRequest().open('GET', 'http://127.0.0.1/'); return 'escaped'",
    "imports over HTTP": "return (await import(`http://127.0.0.1:${input.port}/a.js`)) && 'escaped'",
    # processes and the machine
    "starts a program with os.exec": "os.exec(['/bin/true']); return 'escaped'",
    "starts a program with child_process": "require('child_process').execSync('true'); return 'escaped'",
    "reads the environment": "return process.env.PATH && 'escaped'",
    "reads the environment with std": "return std.getenviron() && 'escaped'",
    "ends the process": "process.exit(0); return 'escaped'",
    "starts a worker": "new Worker('data:,'); return 'escaped'",
    "sleeps with os": "os.sleep(1); return 'escaped'",
    "waits on shared memory": "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); return 'escaped'",
    # the hub's side of the child
    "calls the function that sends": "__send('{}'); return 'escaped'",
    "finds it among the globals": (
        "return Object.getOwnPropertyNames(globalThis).some(n => n.startsWith('__')) ? 'escaped' : 'no'"
    ),
    "finds the hub's functions": "return typeof __hub === 'object' ? 'escaped' : 'no'",
    "reaches Python from a function": "return tools.echo.__globals__ || print.__class__ ? 'escaped' : 'no'",
    "reaches the caller": "return (function f() { return f.caller })() ? 'escaped' : 'no'",
    "reaches the caller's arguments": "return print.caller || print.arguments ? 'escaped' : 'no'",
    "compiles beside strict mode": "return Function('return this')().__send ? 'escaped' : 'no'",
    "evaluates indirectly": "return (0, eval)('typeof std === `object` || typeof os === `object`') ? 'escaped' : 'no'",
    "makes a realm": "return new ShadowRealm().evaluate('1') && 'escaped'",
    "replaces the tools": "tools = {echo: () => 'escaped'}; return await tools.echo()",
    "replaces one tool": "tools.echo = () => 'escaped'; return await tools.echo()",
    "defines one tool": "Object.defineProperty(tools, 'echo', {value: () => 'escaped'}); return await tools.echo()",
    "replaces print": "globalThis.print = () => {}; return 'escaped'",
    "deletes call": "delete globalThis.call; return 'escaped'",
    # prototypes: whatever they do, the hub's messages stay the hub's
    "gives all objects a result": "Object.prototype.done = '\"escaped\"'; print('x'); return 'no'",
    "gives all objects an end": "Object.prototype.failed = 'escaped'; const a = await tools.echo({}); return 'no'",
    "replaces JSON": (
        'JSON.stringify = () => \'{"done": "\\\\"escaped\\\\""}\'; JSON.parse = () => \'escaped\'; '
        "return await tools.echo({a: 1})"
    ),
    "replaces toJSON": "String.prototype.toJSON = () => 'escaped'; return (await tools.echo({a: 'no'})).a",
    "replaces the map": "Map.prototype.get = () => [() => {}, () => {}]; return (await tools.echo({a: 'no'})).a",
    "replaces then": ("Promise.prototype.then = function (f) { f('{}') }; await tools.echo({a: 'no'}); return 'no'"),
    "replaces the array's methods": "Array.prototype.join = () => 'escaped'; print('no'); return 'no'",
    # forged messages
    "prints a message": f"print({_FORGED!r}); print('\\n' + {_FORGED!r} + '\\n'); return 'no'",
    "prints a line of the answer": 'print(\'\\n{"id": 1, "text": "1"}\'); return \'no\'',
    "names a tool like a message": f"return await call('a\\n' + {_FORGED!r}, {{}}).then(() => 'no')",
    "throws a message": f"throw new Error('\\n' + {_FORGED!r})",
    "throws what looks like a call's failure": "const e = new Error('no'); e.code = 'ok'; throw e",
    "ends its function": f"}})(); print({_FORGED!r}); (async () => {{ return 'no'",
    "calls with what is no object": "return await call('echo', 'escaped').then(() => 'no')",
    "calls without a name": "return await call({toString: () => 'escaped'}, {}) && 'escaped'",
    "lies in toJSON": "await call('echo', {toJSON: () => { throw new Error('no') }}); return 'escaped'",
    # more than it may have
    "computes for ever": "for (;;);",
    "computes for ever after its end": "Promise.resolve().then(() => { for (;;); }); return 'no'",
    "queues jobs for ever": "const again = () => Promise.resolve().then(again); await again(); return 'escaped'",
    "backtracks for ever": "/^(a|a)*$/.test('a'.repeat(99) + 'b'); return 'escaped'",
    "sorts for ever": "[3, 2, 1].sort(() => { for (;;); }); return 'escaped'",
    "counts to a large number": "return (2n ** 40000000n > 0n) && (9n ** 30000000n > 0n) ? 'escaped' : 'no'",
    "takes all memory": "const a = []; for (;;) a.push(new Uint8Array(1 << 20)); ",
    "takes all memory at once": "new ArrayBuffer(2 ** 33); return 'escaped'",
    "takes memory and goes on": (
        "for (let i = 0; i < 50; i++) { try { const a = []; for (;;) a.push(new Uint8Array(1 << 22)) } catch {} } "
        "print('x'.repeat(9999)); return 'no'"
    ),
    "calls itself for ever": "const f = () => f(); return f()",
    "nests without end": "let a = []; for (let i = 0; i < 200000; i++) a = [a]; return a",
    "nests in its arguments": "let a = {}; for (let i = 0; i < 5000; i++) a = {a}; await tools.echo(a); return 'no'",
    "prints without end": "for (;;) print('x'.repeat(4000))",
    "prints one large line": "print('x'.repeat(8 << 20)); return 'escaped'",
    "returns too much": "return 'x'.repeat(8 << 20)",
    "calls without end": "for (;;) call('echo', {})",
    "asks without end": "for (;;) await describe('echo')",
    "sends large arguments": "await tools.echo({a: 'x'.repeat(2 << 20)}); return 'escaped'",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("outside") / "secret.json"
    made.write_text('{"hoard": true}')
    return made


@pytest.fixture(scope="module")
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.setblocking(False)
        yield made


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_no_attempt_gets_out(attempt: str, file: Path, listener: socket.socket) -> None:
    found = ran(ATTEMPTS[attempt], {"file": str(file), "port": listener.getsockname()[1]})
    assert _held(found), (found.code, found.output, found.failure)
    with pytest.raises(BlockingIOError):
        listener.accept()
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def _held(found: ProgramRun) -> bool:
    """True where the program neither succeeded nor broke its surroundings."""
    if found.failure is not None:
        return bool(found.code) and found.code != "program_broken" and "hoard" not in found.failure.sentence
    return found.output.value != '"escaped"'
