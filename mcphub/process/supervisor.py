"""Several server processes under one parent, which starts, watches, replaces and stops them.

Workers are forked after the applications are loaded, so they start at once and share that memory. A pipe held open by
the parent alone shows its end, however it ended.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from mcphub.commands.stop import Stop
from mcphub.process import leaving

logger = logging.getLogger(__name__)

_READY = b"r"
_FAILED_STARTS = 5
"""Replacements in a row that may fail to start before the whole hub gives up."""
_KILL_AFTER_SECONDS = 10
"""On top of the drain time, before a worker that does not stop is killed."""
_START_SECONDS = 60
"""A worker that is not ready by then is killed; its first start waits for the database at most this long."""


class ServeWorker(Protocol):
    """Serves as the worker of this number until SIGTERM, calls `ready` once it accepts connections, gives a status."""

    def __call__(self, number: int, *, ready: Callable[[], None]) -> int: ...


@dataclass(slots=True, eq=False)
class _Worker:
    number: int
    pid: int
    status: int
    """Read end of a pipe: a byte when it is ready, the end when it is gone."""
    is_ready: bool = False
    started_at: float = field(default_factory=time.monotonic)


def supervise(
    sockets: Sequence[socket.socket],
    workers: int,
    *,
    work: ServeWorker,
    ready: Callable[[], None],
    drain_seconds: float,
) -> int:
    """Run this many workers, which share the sockets, until SIGTERM or SIGINT; return the exit status.

    `ready` is called once, when all workers accept connections. A worker that dies is replaced. One that
    cannot start ends the hub: the first time at once, a replacement after `_FAILED_STARTS` attempts.
    """
    return _Supervisor(sockets, workers, work, ready, drain_seconds).run()


class _Supervisor:
    def __init__(
        self,
        sockets: Sequence[socket.socket],
        workers: int,
        work: ServeWorker,
        ready: Callable[[], None],
        drain_seconds: float,
    ) -> None:
        self._sockets = sockets
        self._count = workers
        self._work = work
        self._ready = ready
        self._patience_seconds = drain_seconds + _KILL_AFTER_SECONDS
        self._workers: dict[int, _Worker] = {}
        self._due: dict[int, float] = {}
        """Worker number -> when to start its replacement."""
        self._failed_starts = 0
        self._was_ready = False
        self._stopping = False
        self._lifeline = os.pipe()
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        if isinstance(sys.stderr, io.TextIOWrapper):  # under PYTHONUNBUFFERED a line is several writes, which mix
            sys.stderr.reconfigure(line_buffering=True, write_through=False)
        self._listen_for_signals()
        leaving.if_signalled()
        for number in range(self._count):
            self._start(number)
        exit_status = 0
        while not self._stopping:
            for key, _ in self._selector.select(self._next_wake()):
                if isinstance(key.data, _Worker):
                    exit_status = self._hear(key.data) or exit_status
                else:
                    key.fileobj.recv(64)  # type: ignore[union-attr]
            self._start_due()
        killed = self._stop()
        if exit_status:  # after the last line of every worker
            print("mcphub serve: a worker cannot start; the log above says why.", file=sys.stderr)
        return max(exit_status, killed)

    def _listen_for_signals(self) -> None:
        hear, wake = socket.socketpair()
        for end in (hear, wake):
            end.setblocking(False)
        self._wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._selector.register(hear, selectors.EVENT_READ)

    def _on_signal(self, *_: object) -> None:
        self._stopping = True

    def _next_wake(self) -> float | None:
        moments = [*self._due.values()]
        moments += [worker.started_at + _START_SECONDS for worker in self._workers.values() if not worker.is_ready]
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def _start(self, number: int) -> None:
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._be_worker(number, writer)
        os.close(writer)
        worker = _Worker(number, pid, reader)
        self._workers[number] = worker
        self._selector.register(reader, selectors.EVENT_READ, worker)

    def _be_worker(self, number: int, writer: int) -> NoReturn:
        exit_status = 1
        try:
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, signal.SIG_DFL)
            if self._stopping:  # the signal came between the parent's look and the fork
                os._exit(0)
            os.dup2(2, 1)  # standard output is the parent's, for its one line
            os.close(self._lifeline[1])
            threading.Thread(target=self._die_with_parent, daemon=True, name="mcphub-lifeline").start()
            exit_status = self._work(number, ready=lambda: _tell(writer))
        except Stop as stop:
            print(stop, file=sys.stderr)
        except BaseException:
            logger.exception("Worker %d failed", number)
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.flush()
            os._exit(exit_status)

    def _die_with_parent(self) -> None:
        os.read(self._lifeline[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(self._patience_seconds)
        os._exit(1)

    def _hear(self, worker: _Worker) -> int:
        """Take a worker's news: that it is ready, or that it is gone. Give 1 where the hub has to end."""
        if os.read(worker.status, 1) == _READY:
            worker.is_ready = True
            self._failed_starts = 0
            if not self._was_ready and all(each.is_ready for each in self._workers.values()):
                self._was_ready = True
                self._ready()
            return 0
        self._bury(worker)
        if self._stopping:
            return 0
        if not worker.is_ready:
            self._failed_starts += 1
            if not self._was_ready or self._failed_starts >= _FAILED_STARTS:
                self._stopping = True
                return 1
        pause = 0.0 if worker.is_ready else 2.0 ** (self._failed_starts - 1)
        logger.warning("Worker %d (pid %d) is gone and is replaced", worker.number, worker.pid)
        self._due[worker.number] = time.monotonic() + pause
        return 0

    def _bury(self, worker: _Worker) -> None:
        self._selector.unregister(worker.status)
        os.close(worker.status)
        # Its pipe ends with the process; only the waiting for its exit status remains.
        os.waitpid(worker.pid, 0)
        del self._workers[worker.number]

    def _start_due(self) -> None:
        now = time.monotonic()
        for worker in self._workers.values():
            if not worker.is_ready and now - worker.started_at >= _START_SECONDS:
                logger.error("Worker %d is not ready after %d s and is killed", worker.number, _START_SECONDS)
                _send(worker, signal.SIGKILL)
        for number in [number for number, due in self._due.items() if due <= now and not self._stopping]:
            del self._due[number]
            self._start(number)

    def _stop(self) -> int:
        """Stop the workers, let them finish; return 1 if one had to be killed."""
        for listener in self._sockets:
            listener.close()
        for worker in self._workers.values():
            _send(worker, signal.SIGTERM)
        deadline = time.monotonic() + self._patience_seconds
        killed = 0
        while self._workers:
            left = deadline - time.monotonic()
            if left <= 0 and not killed:
                killed = 1
                logger.error("%d workers did not stop in time and are killed", len(self._workers))
                for worker in self._workers.values():
                    _send(worker, signal.SIGKILL)
            for key, _ in self._selector.select(max(0.0, left) if not killed else None):
                if not isinstance(key.data, _Worker):
                    key.fileobj.recv(64)  # type: ignore[union-attr]
                elif os.read(key.fd, 1) != _READY:
                    self._bury(key.data)
        return killed


def _tell(pipe: int) -> None:
    with contextlib.suppress(OSError):
        os.write(pipe, _READY)


def _send(worker: _Worker, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker.pid, number)
