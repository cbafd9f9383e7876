"""`mcphub client-config`: the configuration that connects an MCP client to this hub."""

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
    SIGN_IN,
    ClientSnippet,
    address_only,
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
    parser.add_argument("--token", help="send this API key, instead of signing in")
    parser.add_argument("--with-key", action="store_true", help=f"send a key, whose place {PLACEHOLDER} marks")
    parser.add_argument(
        "--stdio", action="store_true", help="let the client start the hub on this data directory, without a server"
    )


def run(options: argparse.Namespace) -> int:
    if options.stdio and options.url:
        raise Stop("mcphub client-config: --url applies to HTTP only; leave it or --stdio out.", status=2)
    if options.stdio and options.client in PROGRAMS:
        configured = ", ".join(CLIENTS)
        raise Stop(f"mcphub client-config: --stdio is for clients that start programs: {configured}.", status=2)
    signs_in = _signs_in(options)
    if options.stdio:
        made = _over_stdio(options.token)
    else:
        made = _over_http(options.url or address.endpoint(), None if signs_in else options.token or PLACEHOLDER)
    snippet = {each.key: each for each in made}[options.client]
    print(f"{snippet.title}: {snippet.where}", file=sys.stderr)
    if signs_in:
        print("It holds no key: the client opens a page in the browser. Log in there and allow it.", file=sys.stderr)
        if not env.flag("MCPHUB_CLIENT_REGISTRATION", True) and SIGN_IN[options.client][0] == "registration":
            print("This client registers itself, which MCPHUB_CLIENT_REGISTRATION=0 forbids.", file=sys.stderr)
        print("With --with-key or --token KEY it sends a key instead.", file=sys.stderr)
    elif options.token is None and not options.stdio:
        print(f"Put a key in the place of {PLACEHOLDER}; `mcphub token create NAME` makes one.", file=sys.stderr)
    print(snippet.text)
    return 0


def _signs_in(options: argparse.Namespace) -> bool:
    has_key = options.with_key or options.token is not None or options.stdio
    return options.client in SIGN_IN and not has_key and env.flag("MCPHUB_SIGN_IN", True)


def _over_http(url: str, token: str | None) -> list[ClientSnippet]:
    return address_only(url) if token is None else [*snippets(url, token), *programs(url, token)]


def _over_stdio(token: str | None) -> list[ClientSnippet]:
    data = Path(env.text("MCPHUB_DATA_DIR", "var")).absolute()
    variables = {"MCPHUB_API_KEY": token, "MCPHUB_DATABASE_URL": os.environ.get("MCPHUB_DATABASE_URL")}
    return stdio_snippets(stdio_command(data), {name: value for name, value in variables.items() if value})
