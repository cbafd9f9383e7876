"""`mcphub client-config`: what to paste into an MCP client so that it finds this hub."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mcphub import environment as env
from mcphub.clients import (
    CLIENTS,
    PLACEHOLDER,
    PROGRAMS,
    ClientSnippet,
    programs,
    snippets,
    stdio_command,
    stdio_snippets,
)
from mcphub.commands.stop import Stop
from mcphub.process import address


def declare(parser: argparse.ArgumentParser) -> None:
    known = [*CLIENTS, *PROGRAMS]
    parser.add_argument("client", choices=known, metavar="CLIENT", help=", ".join(known))
    parser.add_argument("--url", help="the MCP endpoint (default: where this hub was last started)")
    parser.add_argument("--token", help="the API key to write into it")
    parser.add_argument(
        "--stdio", action="store_true", help="let the client start the hub on this data directory, without a server"
    )


def run(options: argparse.Namespace) -> int:
    if options.stdio and options.url:
        raise Stop("mcphub client-config: --url applies to HTTP only; leave it or --stdio out.", status=2)
    if options.stdio and options.client in PROGRAMS:
        configured = ", ".join(CLIENTS)
        raise Stop(f"mcphub client-config: --stdio is for clients that start programs: {configured}.", status=2)
    made = _over_stdio(options.token) if options.stdio else _over_http(options.url, options.token)
    snippet = {each.key: each for each in made}[options.client]
    print(f"{snippet.title}: {snippet.where}", file=sys.stderr)
    if options.token is None and not options.stdio:
        print(f"Put a key in the place of {PLACEHOLDER}; `mcphub token create NAME` makes one.", file=sys.stderr)
    print(snippet.text)
    return 0


def _over_http(url: str | None, token: str | None) -> list[ClientSnippet]:
    url, token = url or address.endpoint(), token or PLACEHOLDER
    return [*snippets(url, token), *programs(url, token)]


def _over_stdio(token: str | None) -> list[ClientSnippet]:
    data = Path(env.text("MCPHUB_DATA_DIR", "var")).absolute()
    variables = {"MCPHUB_API_KEY": token, "MCPHUB_DATABASE_URL": os.environ.get("MCPHUB_DATABASE_URL")}
    return stdio_snippets(stdio_command(data), {name: value for name, value in variables.items() if value})
