"""`mcphub client-config`: what to paste into an MCP client so that it finds this hub."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mcphub import address
from mcphub import environment as env
from mcphub.clients import CLIENTS, PLACEHOLDER, Snippet, snippets, stdio_snippets
from mcphub.commands.stop import Stop


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", choices=list(CLIENTS), metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument("--url", help="the MCP endpoint (default: where this hub was last started)")
    parser.add_argument("--token", help="the API key to write into it")
    parser.add_argument(
        "--stdio", action="store_true", help="let the client start the hub on this data directory, without a server"
    )


def run(options: argparse.Namespace) -> int:
    if options.stdio and options.url:
        raise Stop("mcphub client-config: --url is about HTTP; leave it or --stdio out.", status=2)
    made = _over_stdio(options.token) if options.stdio else _over_http(options.url, options.token)
    snippet = {each.key: each for each in made}[options.client]
    print(f"{snippet.title}: {snippet.where}", file=sys.stderr)
    if options.token is None and not options.stdio:
        print(f"Put a key in the place of {PLACEHOLDER}; `mcphub token create NAME` makes one.", file=sys.stderr)
    print(snippet.text)
    return 0


def _over_http(url: str | None, token: str | None) -> list[Snippet]:
    return snippets(url or address.endpoint(), token or PLACEHOLDER)


def _over_stdio(token: str | None) -> list[Snippet]:
    """Name program and data by whole paths: clients start it in a directory of their own."""
    program = Path(sys.executable).with_name("mcphub")
    words = [str(program)] if program.is_file() else [sys.executable, "-m", "mcphub.cli"]
    data = Path(env.text("MCPHUB_DATA_DIR", "var")).absolute()
    told = {"MCPHUB_API_KEY": token, "MCPHUB_DATABASE_URL": os.environ.get("MCPHUB_DATABASE_URL")}
    return stdio_snippets(
        [*words, "stdio", "--data-dir", str(data)], {name: value for name, value in told.items() if value}
    )
