"""The command line: `mcphub serve`, `chat`, `token`, `catalog` and the like, and Django's commands.

Flags become `MCPHUB_*` variables before the settings are read, so flags win and both go one way. An error stops the
command with one sentence on standard error: status 2 for flags and settings, 1 for the rest.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module, metadata
from typing import Any, NoReturn

from django.core.exceptions import ImproperlyConfigured, ValidationError

from mcphub import feature_list, given, shell_completion
from mcphub.commands.stop import Stop, values_rejected
from mcphub.parts import HubCommand, Verbs
from sessions_app.kit.features import Part

CORE = {
    "serve": "start the hub",
    "stdio": "serve one client over standard input and output",
    "token": "make, list, show, rotate and revoke API keys",
    "tool": "list, show and switch the tools of the catalogue",
    "session": "list, show and end sessions of clients",
    "person": "list, show, disable and enable people, and end all that is open in their names",
    "group": "list, show, create and remove groups, and say which people are in them",
    "workspace": "list, show and make workspaces, and say whose groups belong to them",
    "connection": "bring, add, list, show, test and switch connections to other MCP servers",
    "account": "list and disconnect accounts at upstreams and APIs",
    "offer": "list, approve and reject what other MCP servers offer",
    "profile": "list the commands that the hub may run as children",
    "catalog": "load tools from a bundle or a pack, or write the catalogue out",
    "audit": "list, show, verify, export and ship what is on record, sign checkpoints, change keys, say what is kept",
    "secrets": "list, write and remove secrets by name, or encrypt all under a new key while the hub runs",
    "client-config": "print the configuration for an MCP client",
    "startproject": "write a small Django project with the hub in it",
    "completion": "print the script by which bash, zsh or fish completes commands, options and names",
    "doctor": "say what is wrong and how to mend it",
}
"""Command -> its description. Each has a module of its name in `mcphub.commands`; features declare further ones."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status. Files that it writes, locks included, are for the hub's user alone."""
    os.umask(0o077)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    arguments = list(sys.argv[1:] if argv is None else argv)
    if shell_completion.ASKED in os.environ:
        shell_completion.complete(_parser_of_all())
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
    known = commands()
    if command not in known:
        return _django(_take_data_dir(arguments))
    summary = known[command].summary
    parser = _Parser(prog=f"mcphub {command}", description=f"{summary[:1].upper()}{summary[1:]}.", allow_abbrev=False)
    module, verbs = _declare(known[command], parser)
    options = parser.parse_args(arguments[1:])
    run: Callable[[argparse.Namespace], int | None] = verbs.get(getattr(options, "verb", ""), module).run
    if hasattr(options, "data_dir"):
        given.set_by_flags({"MCPHUB_DATA_DIR": options.data_dir})
    if command in ("serve", "stdio", "completion"):
        return run(options) or 0
    from sessions_app.history.source import CLI, edits_via

    try:
        with edits_via(CLI):
            return run(options) or 0
    except ValidationError as error:
        raise values_rejected(error, _parser_used(parser, options)) from error


def _parser_used(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.ArgumentParser:
    """Return the parser of the verb that the options name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and (verb := getattr(options, action.dest, None)):
            return _parser_used(action.choices[verb], options)
    return parser


def commands() -> dict[str, HubCommand]:
    """Return the commands by name: those of the core, then those of the features that are on."""
    core = (HubCommand(name, words, f"mcphub.commands.{name.replace('-', '_')}") for name, words in CORE.items())
    return {command.name: command for command in (*core, *_declared(HubCommand))}


def _declared(kind: type[Part]) -> list[Part]:
    try:
        return feature_list.declared(kind)
    except ImproperlyConfigured as error:
        raise Stop(f"mcphub: {error}", status=2) from error


def _declare(command: HubCommand, parser: argparse.ArgumentParser) -> tuple[Any, dict[str, Any]]:
    """Let the command's module declare its flags on the parser, and features their verbs; return the modules."""
    module = import_module(command.module)
    module.declare(parser)
    further = _declare_verbs(command.name, parser)
    for each in _with_subparsers(parser):
        each.add_argument(
            "--data-dir",
            metavar="DIR",
            type=_text,
            default=argparse.SUPPRESS,
            help="where database and secrets are kept (MCPHUB_DATA_DIR; var)",
        )
    return module, further


def _declare_verbs(command: str, parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Let features declare further verbs of a command; return verb -> module."""
    found: dict[str, Any] = {}
    for part in _declared(Verbs):
        if part.of != command:
            continue
        module = import_module(part.module)
        verbs = next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
        before = set(verbs.choices)
        module.declare(verbs)
        added = [verb for verb in verbs.choices if verb not in before]
        verbs.metavar = "|".join([str(verbs.metavar), *added])
        found |= dict.fromkeys(added, module)
    return found


def _parser_of_all() -> argparse.ArgumentParser:
    """Return a parser with every command, and with the flags of the one that a shell asks about."""
    parser = _Parser(prog="mcphub")
    subparsers = parser.add_subparsers()
    for command in commands().values():
        own = subparsers.add_parser(command.name, help=command.summary)
        if command.name == shell_completion.command_asked():
            _declare(command, own)
    return parser


class _Parser(argparse.ArgumentParser):
    """Reports errors in one sentence instead of printing the usage."""

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
        raise Stop(f"mcphub: name a command: {', '.join(commands())}. See mcphub --help.", status=2)
    start_django()
    import_module("mcphub.checks")
    known = get_commands()
    if arguments[0] not in known and arguments[0] != "help":
        raise Stop(
            f"mcphub: there is no command {arguments[0]!r}. The hub's commands: {', '.join(commands())}. "
            f"Django's: {', '.join(sorted(known))}.",
            status=2,
        )
    from sessions_app.history.source import CLI, edits_via

    with edits_via(CLI):
        execute_from_command_line(["mcphub", *arguments])
    return 0


def _overview() -> str:
    known = commands()
    width = max(map(len, known)) + 2
    lines = [f"  {name:<{width}}{command.summary}" for name, command in known.items()]
    return "\n".join(
        [
            "usage: mcphub COMMAND [flags] [--data-dir DIR]",
            "",
            *lines,
            f"  {'…':<{width}}every Django command: migrate, createsuperuser, changepassword, shell, …",
            "",
            "mcphub COMMAND --help explains a command, mcphub help lists Django's, mcphub --version prints",
            "the version. Each flag can be given as an MCPHUB_* variable; docs/operate/deployment.md lists them.",
        ]
    )


def _version() -> str:
    try:
        return metadata.version("mcphub")
    except metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
