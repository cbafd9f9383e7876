"""`mcphub client-config`: what to paste into an MCP client so that it finds this hub."""

from __future__ import annotations

import argparse
import sys

from mcphub import address
from mcphub.clients import CLIENTS, PLACEHOLDER, snippets


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", choices=list(CLIENTS), metavar="CLIENT", help=", ".join(CLIENTS))
    parser.add_argument("--url", help="the MCP endpoint (default: where this hub was last started)")
    parser.add_argument("--token", default=PLACEHOLDER, help="the API key to write into it")


def run(options: argparse.Namespace) -> int:
    chosen = {snippet.key: snippet for snippet in snippets(options.url or address.endpoint(), options.token)}
    snippet = chosen[options.client]
    print(f"{snippet.title}: {snippet.where}", file=sys.stderr)
    if options.token == PLACEHOLDER:
        print(f"Put a key in the place of {PLACEHOLDER}; `mcphub token create NAME` makes one.", file=sys.stderr)
    print(snippet.text)
    return 0
