"""`mcphub serve` once its flags are read: socket, database, credentials, then uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import uvicorn
from django.core.exceptions import ImproperlyConfigured

from mcphub import environment as env
from mcphub.commands.stop import Stop, database_or_stop, start_django
from mcphub.process import address, descriptors, leaving, siblings, supervisor
from mcphub.process.garbage import share_one_heap

if TYPE_CHECKING:
    from mcphub.process.connections import Connections
    from mcphub.process.first_run import FirstCredentials

logger = logging.getLogger(__name__)

_APPLICATION = "mcphub.asgi:application"
_BACKLOG = 4096
"""Connections that may wait to be accepted; uvicorn takes 2048, Linux caps at net.core.somaxconn (4096)."""

_ACCEPTED_IN_A_TURN = 32
_SWITCH_SECONDS = 0.001
"""How long a thread that computes keeps the interpreter while others want it; Python's own 5 ms. The event loop and the
ledger ask for it several times in a call, and each time wait so long for each thread that answers a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where to listen, with how many processes, and which packs to load."""

    host: str
    port: int
    workers: int
    packs: tuple[str, ...] = ()

    @classmethod
    def from_environment(cls) -> Listen:
        # Read here and not by the settings: the default of MCPHUB_PUBLIC_URL comes from them.
        if (mode := env.text("MCPHUB_MODE", "remote")) != "remote":
            raise ImproperlyConfigured(f"MCPHUB_MODE is {mode!r}; write remote or stdio.")
        listen = cls(
            host=env.text("MCPHUB_HOST", "127.0.0.1"),
            port=env.whole("MCPHUB_PORT", 8000, least=0, most=65535),
            workers=env.whole("MCPHUB_WORKERS", 1, least=1, most=256),
            packs=env.names("MCPHUB_PACKS"),
        )
        listen._refuse_ports_of_peers()
        return listen

    def _refuse_ports_of_peers(self) -> None:
        """Raise ImproperlyConfigured where a worker's port for other machines is a port of the hub's own."""
        peers, first = env.host_and_port("MCPHUB_PEER_ADDRESS", "10.0.0.5:8100") or ("", 0)
        last = first + self.workers - 1
        metrics = (
            env.text("MCPHUB_METRICS_HOST", "127.0.0.1"),
            env.whole("MCPHUB_METRICS_PORT", 0, least=0, most=65535),
        )
        for (host, port), use in (((self.host, self.port), "clients"), (metrics, "MCPHUB_METRICS_PORT")):
            if first <= port <= last and port and host in (peers, "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
                raise ImproperlyConfigured(
                    f"MCPHUB_PEER_ADDRESS takes a port for each worker, {first} to {last}, and {port} is the port for "
                    f"{use}; name another port in one of them."
                )

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def origin(self) -> str:
        return f"http://{_bracketed(self.host)}:{self.port}"

    @property
    def default_public_url(self) -> str:
        """Return the default address for clients: the first allowed host, beyond loopback."""
        allowed = [name.lstrip(".") for name in env.names("MCPHUB_ALLOWED_HOSTS") if name != "*"]
        return f"http://{allowed[0]}:{self.port}" if allowed and not self.is_loopback else self.origin


def take_free_port(listen: Listen) -> tuple[Listen, list[socket.socket]]:
    """Return `listen` with a port in place of 0, and the sockets bound to it; they come before the public address."""
    if listen.port:
        return listen, []
    taken = _bind(listen)
    return replace(listen, port=taken[0].getsockname()[1]), taken


def serve(listen: Listen, taken: Sequence[socket.socket] = ()) -> int:
    """Serve until SIGTERM or SIGINT, on sockets that are bound already or on its own; give the exit status."""
    leaving.at_once()
    descriptors.raise_limit()
    sockets = list(taken) or _bind(listen)
    own = _bind_metrics(listen)
    # What a start makes stays: to look through it again and again for garbage is a tenth of its time.
    gc.disable()
    share_one_heap()
    start_django()
    _prepare(listen)
    if listen.workers == 1:
        return _work([sockets[0], *own], ready=lambda: _say_ready(listen))
    meeting = siblings.Meeting(listen.workers)

    def work(number: int, *, ready: Callable[[], None]) -> int:
        meeting.enter(number)
        mine = [number, number + listen.workers]
        both = [*sockets, *own]
        for other, listener in enumerate(both):
            if other not in mine:
                listener.close()
        return _work([both[each] for each in mine if each < len(both)], ready=ready)

    try:
        return supervisor.supervise(
            [*sockets, *own],
            listen.workers,
            work=work,
            ready=lambda: _say_ready(listen),
            drain_seconds=_drain_seconds(),
        )
    finally:
        meeting.end()


def _say_ready(listen: Listen) -> None:
    gc.enable()
    print(f"ready {listen.origin}/mcp", flush=True)


def _drain_seconds() -> float:
    from django.conf import settings

    return float(settings.MCPHUB_DRAIN_SECONDS)


# Before the server -----------------------------------------------------------------------------------


def _bind(listen: Listen) -> list[socket.socket]:
    """Take the port before anything else is done: one socket, or one for each worker.

    Each worker listens on a socket of its own, so that the kernel spreads connections evenly; they stay open
    in the parent, so that connections which wait for a worker that died reach its successor.
    """
    try:
        return _sockets(listen.host, listen.port, listen.workers)
    except OSError as error:
        raise _cannot_listen(listen.host, listen.port, error) from error


def _metrics() -> tuple[str, int]:
    """Return host and port for metrics and probes; port 0 stands for none of their own."""
    # Read here and not from the settings, which are not loaded before the ports are taken; they read the same again.
    return env.text("MCPHUB_METRICS_HOST", "127.0.0.1"), env.whole("MCPHUB_METRICS_PORT", 0, least=0, most=65535)


def _bind_metrics(listen: Listen) -> list[socket.socket]:
    """Take the port for metrics and probes, where there is one of its own: again a socket for each worker."""
    host, port = _metrics()
    if not port:
        return []
    if port == listen.port:
        raise Stop(f"mcphub serve: MCPHUB_METRICS_PORT is {port}, where clients come; name another.")
    try:
        return _sockets(host, port, listen.workers)
    except OSError as error:
        raise _cannot_listen(host, port, error, "MCPHUB_METRICS_HOST", "MCPHUB_METRICS_PORT") from error


def _sockets(host: str, port: int, workers: int) -> list[socket.socket]:
    family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    if workers == 1:
        return [_socket(family, where)]
    # Sharing a port is possible for any process of this user: make sure that none has it.
    probe = _socket(family, where)
    probe.listen(1)
    where = probe.getsockname()  # the port that was found, for 0
    probe.close()
    return [_socket(family, where, shared=True) for _ in range(workers)]


def _socket(family: int, where: tuple[object, ...], *, shared: bool = False) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.bind(where)
    made.set_inheritable(True)
    return made


def _cannot_listen(host: str, port: int, error: OSError, of_host: str = "--host", of_port: str = "--port") -> Stop:
    if isinstance(error, socket.gaierror):
        return Stop(f"mcphub serve: {host!r} is no address of this machine; name another with {of_host}.")
    advice = {
        98: f"another program has the port; name another with {of_port}",
        13: f"this user may not open the port; name one above 1023 with {of_port}",
        99: f"the address is not one of this machine's; name another with {of_host}",
    }.get(error.errno or 0, error.strerror or str(error))
    return Stop(f"mcphub serve: it cannot listen on {_bracketed(host)}:{port}: {advice}.")


def _prepare(listen: Listen) -> None:
    from django.conf import settings

    from mcphub.process import first_run

    try:
        with database_or_stop():
            made = first_run.prepare(listen.packs, is_alone=True)
    except first_run.CannotStart as error:
        raise Stop(f"mcphub serve: {error}", status=2) from error
    finally:
        first_run.close_connections()
    address.remember(settings.MCPHUB_PUBLIC_URL)
    if made.username or made.key:
        _print_credentials(made, settings.MCPHUB_PUBLIC_URL.rstrip("/"))


def _print_credentials(made: FirstCredentials, public_url: str) -> None:
    from django.conf import settings

    from mcphub.clients import PLACEHOLDER

    lines = [f"MCP Hub {settings.MCPHUB_VERSION} is set up. Password and key are shown only now.", ""]
    lines += [f"MCP endpoint        {public_url}/mcp", f"Console             {public_url}/admin/"]
    if made.username:
        lines += [f"Operator, password  {made.username}, {made.password}"]
    lines += [f"Connect a client    {public_url}/connect"]
    if made.key:
        lines += [f"API key             {made.key}"]
        lines += [f"                    {_validity(settings.MCPHUB_FIRST_KEY_DAYS)}"]
    lines += [f"Without that page   mcphub client-config NAME, the key in place of {PLACEHOLDER}; --help has the names"]
    lines += ["Another key         mcphub token create NAME", ""]
    print("\n".join(lines), flush=True)


def _validity(days: int) -> str:
    return f"It is valid for {days} days (limit first_key_days)." if days else "It is valid until it is revoked."


# The server ------------------------------------------------------------------------------------------


_UVICORN_WAITS_LONGER_SECONDS = 5
"""Longer than the hub, whose own end of a call is recorded and answered."""


class HubServer(uvicorn.Server):
    """uvicorn, announcing when it accepts connections and ending the hub's streams before it waits for calls."""

    def __init__(self, listeners: Sequence[socket.socket], ready: Callable[[], None]) -> None:
        from mcphub.process.connections import Connections

        self._listeners = listeners
        self._connections = Connections.from_settings()
        super().__init__(configure(self._connections))
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        start_application = self.lifespan.startup

        async def start_and_listen() -> None:
            await start_application()
            if not self.lifespan.should_exit:
                _leave_what_stays_to_itself()
                await self._listen()

        self.lifespan.startup = start_and_listen
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._connections.start()
            sys.setswitchinterval(_SWITCH_SECONDS)
            self._ready()

    async def _listen(self) -> None:
        """Let connections come, now that there is a hub to answer them.

        Before, the kernel would take them, and a balancer would give every second call to a hub that is still starting.
        """
        for listener in self._listeners:
            try:
                # The port may have been taken between bind and here by another start at the same moment.
                listener.listen(_BACKLOG)
            except OSError as error:
                await self.lifespan.shutdown()
                host, port = listener.getsockname()[:2]
                raise _cannot_listen(host, port, error) from error

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        from mcphub.process import runtime

        hub = runtime.current()
        # Beside uvicorn's own wait: a stream never ends by itself, and what overruns is cancelled with an answer.
        drain = asyncio.create_task(hub.drain()) if hub is not None else None
        await super().shutdown(sockets)
        if drain is not None:
            await drain
        await self._connections.stop()


def _leave_what_stays_to_itself() -> None:
    """Keep the garbage collector from going through Django's half a million objects, be it once.

    Measured with 256 clients: a third of the time of a call. To look for garbage before was a tenth of a start, and
    found 3 % of the objects; each worker writes to every page that it shares with the others as it looks.
    """
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)
    gc.enable()


def configure(connections: Connections) -> uvicorn.Config:
    """Return uvicorn's configuration; logging is Django's."""
    from django.conf import settings

    from mcphub.process.connections import KEEP_ALIVE_SECONDS

    behind_proxy = settings.SECURE_PROXY_SSL_HEADER is not None
    return uvicorn.Config(
        _APPLICATION,
        loop="uvloop",
        http=connections.protocol,  # type: ignore[arg-type]  # uvicorn calls it, as it would a class
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=behind_proxy,
        forwarded_allow_ips=list(settings.MCPHUB_PROXIES) if behind_proxy else None,
        backlog=_BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(settings.MCPHUB_DRAIN_SECONDS) + _UVICORN_WAITS_LONGER_SECONDS,
    )


def _work(listeners: list[socket.socket], *, ready: Callable[[], None]) -> int:
    """Serve on `listeners` in this process until stopped; return the exit status."""
    server = HubServer(listeners, ready)
    with _stopped_by_signals(server):
        try:
            server.run([*handles_of(listeners[0]), *listeners[1:]])
        except Stop:
            raise
        except SystemExit:
            print("mcphub serve: the hub could not start; the log above says why.", file=sys.stderr)
            return 1
        except Exception as error:
            logger.exception("The application cannot be loaded")
            print(f"mcphub serve: the hub could not start: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
    return 0


def handles_of(listener: socket.socket) -> list[socket.socket]:
    """Return the listener under as many descriptors as connections are to be accepted in one turn of the event loop.

    libuv accepts one connection a turn from each descriptor. While a turn takes 20 ms, a thousand sockets that come
    again and again would keep everybody else waiting for seconds (docs/develop/decisions.md, A45).
    """
    return [listener, *(listener.dup() for _ in range(_ACCEPTED_IN_A_TURN - 1))]


@contextlib.contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let a signal that comes before or after uvicorn's own handlers stop the server in order.

    One that comes afterwards is ignored: the process ends already, and while the interpreter goes down no handler of
    Python's would be left to keep the signal from ending it with another status.
    """

    def stop(*_: object) -> None:
        server.should_exit = True

    for number in leaving.NUMBERS:
        signal.signal(number, stop)
    leaving.if_signalled()
    try:
        yield
    finally:
        for number in leaving.NUMBERS:
            signal.signal(number, signal.SIG_IGN)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
