"""The command line: `mcphub serve`, `chat`, `token`, `catalog` and the like, and Django's commands.

Flags become `MCPHUB_*` variables before the settings are read, so flags win and both go one way. What is
wrong stops the command with one sentence on standard error: status 2 for flags and settings, 1 for the rest.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from typing import Any, NoReturn

from mcphub import completing
from mcphub.commands.stop import Stop

COMMANDS = {
    "serve": "start the hub",
    "stdio": "serve one client over standard input and output",
    "chat": "ask a model that may use the hub's tools, once or in a conversation",
    "token": "make, list, show, rotate and revoke API keys",
    "tool": "list, show and switch the tools of the catalogue",
    "service": "make a service that comes in with client credentials",
    "session": "list, show and end sessions of clients",
    "person": "list, show, disable and enable people, and end all that is open in their names",
    "workspace": "list, show and make workspaces, and say whose groups belong to them",
    "approval": "list, show, approve and deny calls that wait for a person's yes",
    "error": "list, mute and resolve groups of errors",
    "connection": "bring, add, list, show, test and switch connections to other MCP servers",
    "account": "list and disconnect accounts at upstreams and APIs",
    "offer": "list, approve and reject what other MCP servers offer",
    "profile": "list the commands that the hub may run as children",
    "provider": "add a provider of models for the chat",
    "catalog": "load tools from a bundle or a pack, or write the catalogue out",
    "policy": "list, show and switch rules about calls, check those in a file, or try them on calls",
    "guardrail": "list, show and switch guardrails, check those in a file, or try detectors on a text",
    "quota": "list and switch quotas, list prices, say who is near which limit, and whether a call would be refused",
    "audit": "list, show, verify, export and ship what is on record, sign checkpoints, change keys, say what is kept",
    "backup": "write database and keys of one moment into one encrypted file, while the hub runs",
    "restore": "put a backup into an empty data directory and database, and verify its audit",
    "notice": "test whether notices arrive, and send once more what was given up",
    "secrets": "list, write and remove secrets by name, or encrypt all under a new key while the hub runs",
    "client-config": "print the configuration for an MCP client",
    "second-factor": "take away the second factors of a person who lost them",
    "demo": "start a hub of its own with tools, clients and calls to look at, or remove it",
    "completion": "print the script by which bash, zsh or fish completes commands, options and names",
    "doctor": "say what is wrong and how to mend it",
}
"""Command -> what it does. Each has a module of its name in `mcphub.commands`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status. What it writes, locks too, is for the hub's user alone."""
    os.umask(0o077)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    arguments = list(sys.argv[1:] if argv is None else argv)
    if completing.ASKED in os.environ:
        completing.complete(_parser_of_all())
    try:
        return _run(arguments)
    except Stop as stop:
        print(stop, file=sys.stderr)
        return stop.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_overview())
        return 0
    if arguments[0] == "--version":
        print(f"mcphub {_version()}")
        return 0
    command = arguments[0]
    if command not in COMMANDS:
        return _django(_take_data_dir(arguments))
    parser = _Parser(prog=f"mcphub {command}", description=f"{COMMANDS[command].capitalize()}.", allow_abbrev=False)
    run: Callable[[argparse.Namespace], int | None] = _declare(command, parser).run
    options = parser.parse_args(arguments[1:])
    if hasattr(options, "data_dir"):
        os.environ["MCPHUB_DATA_DIR"] = options.data_dir
    if command in ("serve", "stdio", "completion"):
        return run(options) or 0
    from sessions_app.history.source import CLI, edits_via

    with edits_via(CLI):
        return run(options) or 0


def _declare(command: str, parser: argparse.ArgumentParser) -> Any:
    """Let the command's module declare its flags on the parser; give the module."""
    module = import_module(f"mcphub.commands.{command.replace('-', '_')}")
    module.declare(parser)
    for each in _with_subparsers(parser):
        each.add_argument(
            "--data-dir",
            metavar="DIR",
            type=_text,
            default=argparse.SUPPRESS,
            help="where database and secrets are kept (MCPHUB_DATA_DIR; var)",
        )
    return module


def _parser_of_all() -> argparse.ArgumentParser:
    """Give a parser with every command, and with the flags of the one that a shell asks about."""
    parser = _Parser(prog="mcphub")
    commands = parser.add_subparsers()
    for command, words in COMMANDS.items():
        own = commands.add_parser(command, help=words)
        if command == completing.command_asked():
            _declare(command, own)
    return parser


class _Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong, instead of printing the usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ").replace("unrecognized arguments:", "unknown:").rstrip(".")
        raise Stop(f"{self.prog}: {message}. See {self.prog} --help.", status=2)


def _with_subparsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    children = [child for action in nested for child in action.choices.values()]
    return [parser, *(below for child in children for below in _with_subparsers(child))]


def _text(value: str) -> str:
    if not value.strip():
        raise argparse.ArgumentTypeError("it is empty")
    return value


def _take_data_dir(arguments: list[str]) -> list[str]:
    """Take --data-dir out of a Django command's arguments, which do not know it."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name != "--data-dir":
            kept.append(argument)
            continue
        value = value if equals else next(rest, "")
        if not value.strip():
            raise Stop("mcphub: --data-dir needs the name of a folder.", status=2)
        os.environ["MCPHUB_DATA_DIR"] = value
    return kept


def _django(arguments: list[str]) -> int:
    from django.core.management import execute_from_command_line, get_commands

    from mcphub.commands.stop import start_django

    if not arguments or arguments[0].startswith("-"):
        raise Stop(f"mcphub: name a command: {', '.join(COMMANDS)}. See mcphub --help.", status=2)
    start_django()
    import_module("mcphub.checks")
    known = get_commands()
    if arguments[0] not in known and arguments[0] != "help":
        raise Stop(
            f"mcphub: there is no command {arguments[0]!r}. The hub's commands: {', '.join(COMMANDS)}. "
            f"Django's: {', '.join(sorted(known))}.",
            status=2,
        )
    from sessions_app.history.source import CLI, edits_via

    with edits_via(CLI):
        execute_from_command_line(["mcphub", *arguments])
    return 0


def _overview() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{words}" for name, words in COMMANDS.items()]
    return "\n".join(
        [
            "usage: mcphub COMMAND [flags] [--data-dir DIR]",
            "",
            *lines,
            f"  {'…':<{width}}every Django command: migrate, createsuperuser, changepassword, shell, …",
            "",
            "mcphub COMMAND --help explains a command, mcphub help lists Django's, mcphub --version prints",
            "the version. Each flag can be given as an MCPHUB_* variable; docs/deployment.md lists them.",
        ]
    )


def _version() -> str:
    try:
        return metadata.version("mcphub")
    except metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
