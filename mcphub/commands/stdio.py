"""`mcphub stdio`: the hub as a program that an MCP client starts. Standard output carries protocol alone."""

from __future__ import annotations

import argparse
import os
import sys

from mcphub.commands.stop import Stop, data_private_or_stop, database_or_stop, start_django


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pack",
        action="append",
        metavar="NAME",
        help="load this pack of tools at the start; may be repeated (MCPHUB_PACKS)",
    )


def run(options: argparse.Namespace) -> int:
    if options.pack:
        os.environ["MCPHUB_PACKS"] = ",".join(options.pack)
    return serve()


def serve() -> int:
    """Serve one client until it closes its end, or SIGTERM; give the exit status."""
    from mcphub.process import leaving
    from mcphub.transports import pipes

    leaving.at_once()
    try:
        source, sink = pipes.take_standard()
    except OSError as error:
        raise Stop("mcphub stdio: standard input or output is closed; start it from an MCP client.") from error
    if os.isatty(source):
        print(
            "mcphub stdio: waiting for MCP messages, one a line. A client starts this command by itself: "
            "mcphub client-config --stdio CLIENT.",
            file=sys.stderr,
        )
    # The ports for other machines are those of the workers of `serve`, which this machine may run as well.
    os.environ.pop("MCPHUB_PEER_ADDRESS", None)
    start_django()
    data_private_or_stop()
    _prepare()
    leaving.if_signalled()

    import uvloop

    from mcphub.transports import stdio

    with database_or_stop():
        uvloop.run(stdio.run(source, sink))
    return 0


def _prepare() -> None:
    from mcphub import environment as env
    from mcphub.process import first_run

    try:
        with database_or_stop():
            # What a client shows of our words is lost on most people: the first `serve` tells the credentials.
            first_run.prepare(env.names("MCPHUB_PACKS"), credentials=False, is_alone=True)
            _check_key()
    except first_run.CannotStart as error:
        raise Stop(f"mcphub stdio: {error}", status=2) from error
    finally:
        first_run.close_connections()


def _check_key() -> None:
    """Stop at an invalid key: a client shows its server's exit better than its responses."""
    from django.conf import settings

    from sessions_app.caller import Keys
    from sessions_app.protocol.errors import Unauthenticated

    if settings.MCPHUB_API_KEY:
        try:
            Keys.load().caller(f"Bearer {settings.MCPHUB_API_KEY}")
        except Unauthenticated as error:
            raise Stop(f"mcphub stdio: MCPHUB_API_KEY: {error}", status=2) from error
