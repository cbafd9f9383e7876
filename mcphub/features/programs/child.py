"""Runs one program in JavaScript, in a process of its own that has given up everything but its input and output.

Run as a script, isolated: `child.py PACKAGES ENGINE PARENT SECONDS MEMORY`. Reads lines of JSON: first the program,
then the answers to what it asked. Writes lines of JSON: what it asks, prints and returns. The hub trusts none of them.
It imports as little as it can: each program waits for it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys

_STACK_BYTES = 512 * 1024
_ENDED_BY_PROGRAM, _NOT_CONFINED = 0, 126


def main(packages: str, engine: str, parent: str, seconds: str, memory: str) -> int:
    sys.path += [packages, engine]
    from tools_catalog.upstream.confinement import kernel, strict

    # Within its limit of processor time the kernel would let it outlive the hub.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        return _NOT_CONFINED
    import _quickjs

    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "prelude.js"), encoding="utf-8") as file:
        prelude = file.read()
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 1))
    try:
        strict.give_up_all()
    except OSError as error:
        print(f"mcphub: the program was not started, as the kernel cannot confine it: {error}", file=sys.stderr)
        return _NOT_CONFINED
    return _run(_quickjs, prelude, int(memory))


def _run(engine, prelude: str, memory: int) -> int:  # type: ignore[no-untyped-def]  # typing takes long to import
    read, write = sys.stdin.buffer.readline, sys.stdout.buffer
    open_questions = 0
    is_done = False

    def send(line: str) -> None:
        nonlocal open_questions, is_done
        message = json.loads(line)
        open_questions += "ask" in message
        is_done = is_done or "done" in message or "failed" in message
        write.write(json.dumps(message).encode() + b"\n")
        write.flush()

    context = engine.Context()
    context.set_max_stack_size(_STACK_BYTES)
    context.add_callable("__send", send)
    context.eval(f"globalThis.__hub = {prelude}(globalThis, globalThis.__send)")
    begin, settle = context.eval("__hub.begin"), context.eval("__hub.settle")
    context.eval("delete globalThis.__hub; delete globalThis.__send;")
    source = json.loads(read())
    context.set("input", None if source["input"] is None else context.parse_json(source["input"]))
    context.set_memory_limit(memory)
    try:
        # The program begins on the second line: `outcome.py` counts on it.
        begin(context.eval(f'"use strict"; (async () => {{\n{source["program"]}\n}})'))
        while True:
            while not is_done and context.execute_pending_job():
                pass
            if is_done:
                return _ENDED_BY_PROGRAM
            if not open_questions:
                send(json.dumps({"failed": "", "kind": "NothingLeft"}))
                return _ENDED_BY_PROGRAM
            answer = read()
            if not answer:
                return _ENDED_BY_PROGRAM
            message = json.loads(answer)
            open_questions -= 1
            settle(message["id"], message["text"], message["is_failure"])
    except engine.JSException as error:
        if not is_done:
            send(json.dumps({"failed": str(error), "kind": str(error).partition(":")[0], "code": "", "stack": ""}))
    return _ENDED_BY_PROGRAM


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
