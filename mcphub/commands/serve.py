"""`mcphub serve`: flags to variables, the rules between them, then the server."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable

from mcphub import environment as env
from mcphub import given
from mcphub.commands.stop import Stop, data_private_or_stop, settings_or_stop


def declare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--mode",
        choices=["remote", "stdio"],
        help="serve clients over HTTP, or one client over standard input and output (MCPHUB_MODE; remote)",
    )
    add("--host", type=_host, help="address to listen on (MCPHUB_HOST; 127.0.0.1)")
    add("--port", type=_whole(1, 65535), help="port to listen on (MCPHUB_PORT; 8000)")
    add("--workers", type=_whole(1, 256), help="server processes (MCPHUB_WORKERS; 1)")
    add(
        "--cors",
        type=_origins,
        metavar="ORIGIN|off",
        help="origins that browsers may call from, separated by commas (MCPHUB_ALLOWED_ORIGINS; off)",
    )
    add(
        "--allow-anonymous",
        action="store_true",
        help="serve callers without a key; loopback only (MCPHUB_ALLOW_ANONYMOUS; off)",
    )
    add(
        "--max-clients",
        type=_whole(1, 1_000_000),
        metavar="N",
        help="clients of the remote profile, /mcp/events, at one time (limit max_clients; 10)",
    )
    add(
        "--heartbeat-interval-ms",
        type=_whole(100, 600_000),
        metavar="MS",
        help="pause between heartbeats on a stream (limit heartbeat_seconds; 25000)",
    )
    add(
        "--request-timeout-ms",
        type=_whole(100, 3_600_000),
        metavar="MS",
        help="longest time a call may take (MCPHUB_CALL_TIMEOUT_SECONDS; 60000)",
    )
    add(
        "--pack",
        action="append",
        metavar="NAME",
        help="load this pack of tools at the start; may be repeated (MCPHUB_PACKS)",
    )

    add(
        "--reload",
        action="store_true",
        help="for development: start anew when a source of MCPHUB_APPS changes, and take its tools into the catalogue",
    )


def run(options: argparse.Namespace) -> int:
    if (options.mode or env.text("MCPHUB_MODE")) == "stdio":
        return _over_stdio(options)
    _into_environment(options)
    from django.core.exceptions import ImproperlyConfigured

    from mcphub.process.serve import Listen, serve, take_free_port

    try:
        listen, taken = take_free_port(Listen.from_environment())
        if options.reload:
            from mcphub.process import reloading

            for each in taken:
                each.close()
            os.environ["MCPHUB_PORT"] = str(listen.port)  # the same at each start
            return reloading.serve(env.modules("MCPHUB_APPS"))
    except ImproperlyConfigured as error:
        raise Stop(f"mcphub serve: {error}", status=2) from error
    given.set_default("MCPHUB_PUBLIC_URL", listen.default_public_url)
    settings_or_stop()
    data_private_or_stop()
    _refuse_unsafe(listen.host, is_loopback=listen.is_loopback)
    return serve(listen, taken)


def _over_stdio(options: argparse.Namespace) -> int:
    from mcphub.commands import stdio

    given = {name for name, value in vars(options).items() if value not in (None, False)}
    useless = sorted(given & {"host", "port", "workers", "cors", "allow_anonymous", "max_clients", "reload"})
    if useless:
        flag = useless[0].replace("_", "-")
        raise Stop(f"mcphub serve: --{flag} applies to HTTP only; leave it or --mode stdio out.", status=2)
    _into_environment(options)
    settings_or_stop()
    _refuse_short_timeout()
    return stdio.serve()


def _into_environment(options: argparse.Namespace) -> None:
    bounds = {"max_clients": options.max_clients, "heartbeat_seconds": _seconds(options.heartbeat_interval_ms)}
    limits = [f"{name}={value}" for name, value in bounds.items() if value is not None]
    values = {
        "MCPHUB_MODE": options.mode,
        "MCPHUB_HOST": options.host,
        "MCPHUB_PORT": options.port,
        "MCPHUB_WORKERS": options.workers,
        "MCPHUB_ALLOWED_ORIGINS": options.cors,
        "MCPHUB_ALLOW_ANONYMOUS": "1" if options.allow_anonymous else None,
        "MCPHUB_LIMITS": ",".join([env.text("MCPHUB_LIMITS"), *limits]) if limits else None,
        "MCPHUB_CALL_TIMEOUT_SECONDS": _seconds(options.request_timeout_ms),
        "MCPHUB_PACKS": ",".join(options.pack) if options.pack else None,
    }
    given.set_by_flags(
        {name: str(value) for name, value in values.items() if value is not None},
        (name for name, value in bounds.items() if value is not None),
    )


def _refuse_unsafe(host: str, *, is_loopback: bool) -> None:
    """Stop where a setting contradicts another, or would be unsafe where others can reach the hub."""
    from django.conf import settings

    _refuse_short_timeout()
    if is_loopback:
        return
    if settings.MCPHUB_ALLOW_ANONYMOUS:
        raise Stop(
            f"mcphub serve: --allow-anonymous works on loopback only, and --host {host} can be reached by "
            "other machines; leave one of the two out.",
            status=2,
        )
    if settings.DEBUG:
        raise Stop(
            f"mcphub serve: MCPHUB_DEBUG shows internals to visitors, and --host {host} can be reached by "
            "other machines; leave one of the two out.",
            status=2,
        )
    if not set(settings.ALLOWED_HOSTS) - {"localhost", "127.0.0.1", "[::1]"}:
        raise Stop(
            f"mcphub serve: --host {host} can be reached by other machines, so set MCPHUB_ALLOWED_HOSTS to "
            "the name or address that clients use, for example hub.example.",
            status=2,
        )


def _refuse_short_timeout() -> None:
    from django.conf import settings

    timeout, heartbeat = settings.MCPHUB_CALL_TIMEOUT_SECONDS, settings.MCPHUB_HEARTBEAT_SECONDS
    if timeout <= heartbeat:
        raise Stop(
            f"mcphub serve: --request-timeout-ms ({timeout * 1000:g}) must be longer than "
            f"--heartbeat-interval-ms ({heartbeat * 1000:g}).",
            status=2,
        )


def _seconds(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else f"{milliseconds / 1000:g}"


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
        return int(text)

    return read


def _host(text: str) -> str:
    host = text.strip().removeprefix("[").removesuffix("]")
    if not re.fullmatch(r"[A-Za-z0-9.:_%-]+", host):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as 127.0.0.1 or 0.0.0.0")
    return host


def _origins(text: str) -> str:
    if text.strip().lower() == "off":
        return ""
    origins = text.replace(",", " ").split()
    wrong = [origin for origin in origins if not re.fullmatch(r"https?://[^/\s?#@*]+|\*", origin)]
    if wrong or not origins:
        shown = wrong[0] if wrong else text
        raise argparse.ArgumentTypeError(
            f"{shown!r} is not an origin; write off, or scheme, host and port such as https://app.example"
        )
    return ",".join(origins)
