"""`mcphub demo`: a hub of its own, on a folder of its own, with a company's calls; `--remove` takes it away.

Records are never deleted, so nothing of a demo goes into the data of another hub.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from mcphub.commands.stop import Stop
from mcphub.features.demo.serving import MARK_FILE, DemoServer

_FOLDER = "var/demo"
LIMITS = "approval_hold_seconds=0, approval_seconds=2592000, chat_burst=1000"
"""Nobody sits at the other end of a call that waits, and it waits as long as the demo is looked at."""
_KEPT = (
    "MCPHUB_ALLOW_NOT_DURABLE",
    "MCPHUB_EGRESS_PROXY",
    "MCPHUB_LEDGER_TIMEOUT_SECONDS",
    "MCPHUB_LOG_LEVEL",
    "MCPHUB_LOG_FORMAT",
)
"""Variables that a demo takes over; the others locate another hub's data."""


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, default=8000, help="port to listen on, on 127.0.0.1 (8000)")
    parser.add_argument("--remove", action="store_true", help="remove the folder of the demo with all that is in it")
    parser.add_argument(
        "--reset", action="store_true", help="remove what is in the folder first, and make the demo anew"
    )


def run(options: argparse.Namespace) -> int:
    # The environment may name the data of a real hub; a demo has its own unless the flag says otherwise.
    folder = Path(getattr(options, "data_dir", _FOLDER)).absolute()
    if options.remove:
        return _remove(folder)
    if options.reset:
        _remove(folder)
    _make(folder)
    with _held(folder):
        return _serve(folder, options.port)


def _make(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK_FILE).is_file():
        raise Stop(
            f"mcphub demo: {folder} holds something else than a demo; name an empty folder with --data-dir.", status=2
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK_FILE).touch()
    except OSError as error:
        raise Stop(f"mcphub demo: {folder} cannot be made: {error.strerror}; name another with --data-dir.") from error


def _remove(folder: Path) -> int:
    if not folder.is_dir():
        print(f"There is no demo in {folder}.", file=sys.stderr)
        return 0
    if not (folder / MARK_FILE).is_file():
        raise Stop(f"mcphub demo: {folder} was not made by this command, and stays; remove it yourself.", status=2)
    with _held(folder):
        shutil.rmtree(folder)
    print(f"The demo in {folder} is gone.", file=sys.stderr)
    return 0


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the folder: one demo runs in it, or it is removed."""
    with (folder / MARK_FILE).open("a") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Stop(f"mcphub demo: a demo runs in {folder}; stop it first (Ctrl-C where it runs).") from error
        yield


def _serve(folder: Path, port: int) -> int:
    """Start the hub, fill it when it serves, and end when it ends."""
    for name in [name for name in os.environ if name.startswith("MCPHUB_") and name not in _KEPT]:
        del os.environ[name]
    with _server(folder) as server:
        os.environ |= {
            "MCPHUB_DATA_DIR": str(folder),
            "MCPHUB_PUBLIC_URL": f"http://127.0.0.1:{port}",
            "MCPHUB_EGRESS_ALLOW": server.address,
            "MCPHUB_LIMITS": LIMITS,
        }
        words = [sys.executable, "-m", "mcphub.cli", "serve", "--port", str(port)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as hub:  # noqa: S603
            assert hub.stdout is not None
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: hub.terminate())
            ready = _relayed(hub.stdout)
            if ready:
                print("Filling the demo ...", file=sys.stderr, flush=True)
                _fill(hub, folder, port, server)
                print(ready, end="", flush=True)
                sys.stdout.writelines(hub.stdout)
            return hub.wait()


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[DemoServer]:
    """Serve what the hub calls, at the port that the rows of an earlier start name."""
    mark = folder / MARK_FILE
    try:
        server = DemoServer(int(mark.read_text() or "0")).__enter__()
    except OSError as error:
        raise Stop(
            f"mcphub demo: another program has the port {mark.read_text()} of the demo's API. Stop it, or begin anew "
            "with --reset."
        ) from error
    try:
        mark.write_text(str(server.port))
        yield server
    finally:
        server.__exit__(None, None, None)


def _relayed(lines: IO[str]) -> str:
    """Print the hub's output until it is ready; return that last line, or nothing if the hub ended."""
    for line in lines:
        if line.startswith("ready "):
            return line
        print(line, end="", flush=True)
    return ""


def _fill(hub: subprocess.Popen[str], folder: Path, port: int, server: DemoServer) -> None:
    from mcphub.features.demo.filling import DemoFailed, fill

    try:
        told = fill(f"http://127.0.0.1:{port}", server.url)
    except DemoFailed as error:
        hub.terminate()
        hub.wait()
        raise Stop(f"mcphub demo: {error}") from error
    except BaseException:
        hub.terminate()  # whoever leaves the block waits for it
        raise
    for line in told:
        print(line)
    where = "" if folder == Path(_FOLDER).absolute() else f" --data-dir {folder}"
    print(f"Remove all of it    mcphub demo --remove{where}\n", flush=True)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, a whole number from 1 to 65535")
    return int(text)
