"""`mcphub connection import`, `add`, `known`, `search`: drafts are shown, filled in, saved, tried and approved.

The user of the command owns the machine, and may start programs on it. Nothing is started before it is saved, and its
command is printed first.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands.connection_trial import try_out
from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from mcphub.features.importers.configured.drafts import Blank, Draft
    from mcphub.features.importers.configured.sources import ReadConfiguration


def declare(verbs: Any) -> None:
    bring = verbs.add_parser("import", help="make connections of a client's configuration or a server.json")
    bring.add_argument(
        "source", metavar="FILE|URL", help="a file, - for standard input, or the address of a server.json"
    )
    bring.add_argument("--only", action="append", metavar="NAME", help="take this server only; repeated for more")
    add = verbs.add_parser("add", help="make a connection of a known server, a registry's, an address or a command")
    add.add_argument(
        "name",
        metavar="NAME",
        help="as `mcphub connection known` or `search` names it, an address, or a command: './server.py --all'",
    )
    add.add_argument("--as", dest="slug", default="", metavar="NAME", help="name of the connection")
    add.add_argument("--registry", metavar="URL", help="take the server of this registry")
    add.add_argument("--program", action="store_true", help="run its program, where it has an address as well")
    for each in (bring, add):
        each.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="fill in a value, or @FILE to read it from"
        )
        each.add_argument(
            "--from-environment", action="store_true", help="fill in what is missing from variables of the same name"
        )
        each.add_argument("--no-network", action="store_true", help="let no program of these reach the network")
        for kind, does in (("read", "read"), ("write", "change")):
            each.add_argument(
                f"--{kind}",
                action="append",
                metavar="PATH",
                help=f"let the programs {does} this too; repeated for more",
            )
        each.add_argument("--dry-run", action="store_true", help="say what would be made and run, and change nothing")
        each.add_argument("--test", action="store_true", help="connect to each and list what it offers")
        each.add_argument("--approve", action="store_true", help="test, and serve all that they offer now")
    known = verbs.add_parser("known", help="name the servers that the hub knows, or those with a word")
    known.add_argument("word", metavar="WORD", nargs="?", default="", help="in the name or what it does")
    search = verbs.add_parser("search", help="search a registry of servers")
    search.add_argument("word", metavar="WORD", nargs="?", default="", help="in the name")
    search.add_argument("--registry", metavar="URL", help="its address (MCPHUB_REGISTRY_URL)")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    if options.verb == "known":
        return _known(options.word)
    if options.verb == "search":
        return _search(options)
    return _import(options, _one(options) if options.verb == "add" else _read(options.source))


def _import(options: argparse.Namespace, found: ReadConfiguration) -> int:
    from mcphub.features.importers.configured import drafts as drafts_of
    from mcphub.features.importers.configured import saving

    drafts = _chosen(found, options)
    given = _given(options.set)
    slugs = saving.free_slugs(drafts)
    there = saving.there_already(drafts)
    chosen, left = [], list(found.refused if options.verb == "import" and not options.only else ())
    for draft, slug in zip(drafts, slugs, strict=True):
        slug = getattr(options, "slug", "") or slug
        if draft.name in there:
            print(f"{draft.name}: the connection {there[draft.name]} reaches it already.")
            continue
        has_network = draft.fetches and not options.no_network
        print("\n".join(_lines(draft, slug, has_network)))
        values = _values(draft, given, from_environment=options.from_environment, asks=not options.dry_run)
        missing = [blank.name for blank in draft.missing if not values.get(blank.name)]
        if draft.problem:
            left.append((draft.name, draft.problem))
        elif missing and not options.dry_run:
            left.append((draft.name, f"{', '.join(missing)}: give it with --set NAME=VALUE or --from-environment."))
        elif not missing:
            try:
                made = drafts_of.filled(draft, values, slug)
            except drafts_of.DraftRefused as error:
                left.append((draft.name, str(error)))
                continue
            chosen.append(
                saving.Chosen(
                    draft=draft,
                    slug=slug,
                    values=values,
                    has_network=has_network,
                    readable=[*made.readable, *map(os.path.abspath, options.read or ())],
                    writable=[*made.writable, *map(os.path.abspath, options.write or ())],
                )
            )
    saved = saving.save(chosen, reason=_reason(options), dry_run=options.dry_run)
    for name, why in [*left, *saved.refused]:
        print(f"{name}: left out: {why}", file=sys.stderr)
    if saved.refused:
        raise Stop(f"mcphub connection {options.verb}: nothing was saved; refused servers: {len(saved.refused)}.")
    words = f"{len(saved.connections)} new, {len(there)} there already, {len(left)} left out"
    print(f"{words}; dry run, nothing was changed" if options.dry_run else words)
    if options.dry_run or not saved.connections:
        return 1 if left else 0
    status = 0
    if options.test or options.approve:
        status = try_out(saved.connections, approve=options.approve)
    else:
        names = " ".join(row.slug for row in saved.connections)
        print(f"Next: mcphub connection test --approve {names}")
    return 1 if left or status else 0


def _chosen(found: ReadConfiguration, options: argparse.Namespace) -> list[Draft]:
    only = getattr(options, "only", None)
    names = [draft.name for draft in found.drafts]
    refused = dict(found.refused)
    for name in only or ():
        if name in refused:
            raise Stop(f"mcphub connection import: {name}: {refused[name]}")
        if name not in names:
            raise Stop(f"mcphub connection import: there is no server {name!r}. Servers: {', '.join(names)}.", status=2)
    return [draft for draft in found.drafts if not only or draft.name in only]


def _lines(draft: Draft, slug: str, has_network: bool) -> list[str]:
    """Return the commands or addresses of a draft, with secrets masked."""
    from mcphub.features.importers.configured.drafts import words_shown
    from sessions_app.kit.shown import visible

    def shown(text: Any) -> str:
        return visible(words_shown(draft, text), one_line=True)

    lines = [f"+ {slug}" + ("" if slug == draft.name else f"  ({visible(draft.name, one_line=True)})")]
    if draft.runs_program:
        command = " ".join(map(shown, (draft.command, *draft.arguments)))
        lines.append(f"    runs: {command}")
        lines += [f"    {name}={shown(text)}" for name, text in draft.environment]
        if draft.directory:
            lines.append(f"    in: {shown(draft.directory)}")
        lines += [f"    reads: {shown(path)}" for path in draft.readable]
        lines += [f"    writes: {shown(path)}" for path in draft.writable]
        lines.append(f"    network: {'open' if has_network else 'none'}")
    else:
        lines.append(f"    reaches: {shown(draft.url)} ({draft.transport})")
        lines += [f"    {name}: {shown(text)}" for name, text in draft.headers]
    lines += [f"    secret: {slug}.{blank.name}" for blank in draft.blanks if blank.is_secret]
    lines += [f"    missing: {blank.name} {_words(blank)}".rstrip() for blank in draft.missing]
    return lines + [f"    note: {note}" for note in draft.notes]


def _words(blank: Blank) -> str:
    from sessions_app.kit.shown import visible

    words = visible(blank.words, one_line=True)
    return f"{words} ({', '.join(blank.choices)})" if blank.choices else words


def _given(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Stop(f"mcphub connection: --set {name!r}: write NAME=VALUE, or NAME=@FILE.", status=2)
        if value.startswith("@"):
            try:
                value = Path(value[1:]).read_text(encoding="utf-8").strip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise Stop(f"mcphub connection: --set {name}: {value[1:]!r} cannot be read.", status=2) from error
        found[name] = value
    return found


def _values(draft: Draft, given: Mapping[str, str], *, from_environment: bool, asks: bool) -> dict[str, str]:
    values = {blank.name: given[blank.name] for blank in draft.blanks if blank.name in given}
    for blank in draft.missing:
        if blank.name in values or draft.problem:
            continue
        if from_environment and (value := os.environ.get(blank.name)):
            values[blank.name] = value
        elif asks and sys.stdin.isatty() and sys.stderr.isatty():
            ask = f"{draft.name}: {blank.name} {_words(blank)}: "
            values[blank.name] = getpass.getpass(ask) if blank.is_secret else input(ask)
    return values


def _reason(options: argparse.Namespace) -> str:
    if options.verb == "add":
        return f"added: {options.name}"[:100]
    return f"import of {'standard input' if options.source == '-' else Path(options.source).name}"[:100]


def _read(source: str) -> ReadConfiguration:
    from mcphub.features.importers.configured import registry, sources
    from mcphub.features.importers.documents import DocumentRefused

    try:
        if source.startswith(("https://", "http://")):
            return sources.read(asyncio.run(registry.fetch(source)))
        if source == "-":
            return sources.read(sys.stdin.buffer.read(sources.MAX_BYTES + 1), folder=os.getcwd())
        with Path(source).open("rb") as file:
            return sources.read(file.read(sources.MAX_BYTES + 1), folder=str(Path(source).resolve().parent))
    except OSError as error:
        raise Stop(f"mcphub connection import: {source!r} cannot be read: {error.strerror}.", status=2) from error
    except DocumentRefused as error:
        run = f" `mcphub connection add {source!r}` runs it as a server." if os.access(source, os.X_OK) else ""
        raise Stop(f"mcphub connection import: {source}: {error}{run}") from error


def _one(options: argparse.Namespace) -> ReadConfiguration:
    from mcphub.features.importers.configured import cards, known, registry, sources
    from mcphub.features.importers.documents import DocumentRefused

    try:
        if options.registry is not None:
            found = sources.read(asyncio.run(registry.server(options.registry, options.name)))
        elif _is_line(options.name):
            text = asyncio.run(cards.found(options.name))
            found = sources.read(text, folder=os.getcwd())
            if text != options.name:
                _check_cards(options.name, found)
        else:
            found = sources.ReadConfiguration((known.draft_of(known.find(options.name), by_program=options.program),))
    except (DocumentRefused, LookupError) as error:
        raise Stop(f"mcphub connection add: {error.args[0]}", status=2) from error
    for name, why in found.refused:
        raise Stop(f"mcphub connection add: {name}: {why}")
    return found


def _check_cards(address: str, found: ReadConfiguration) -> None:
    """Raise DocumentRefused unless the cards at an address are one server of that origin: nobody chooses here."""
    from mcphub.features.importers.configured import cards
    from mcphub.features.importers.configured.drafts import words_shown
    from mcphub.features.importers.documents import DocumentRefused

    reached = [words_shown(draft, draft.url) for draft in found.drafts]
    if len(reached) > 1 or not all(cards.is_at(each, address) for each in reached):
        raise DocumentRefused(
            f"the catalogue of {address} names {', '.join(reached)}. Add the server that you want by its own address."
        )


def _is_line(text: str) -> bool:
    """Return whether this is an address or a command. Raises Stop for a path of no file."""
    from mcphub.features.importers.configured import lines

    program = text.split(maxsplit=1)[0] if text.strip() else ""
    is_there = os.path.isfile(os.path.expanduser(program))
    if program.startswith(("./", "../", "/", "~/")) and not is_there:
        raise Stop(
            f"mcphub connection add: {os.getcwd()} has no file {program}. Write the path from the current folder, or "
            "an absolute one.",
            status=2,
        )
    if "://" not in text and " " not in text.strip() and not is_there:
        return False
    return lines.entry_of(text) is not None


def _known(word: str) -> int:
    from mcphub.features.importers.configured import known

    found = known.search(word)
    for each in found:
        print(f"{each.name}\t{each.title}: {each.does}")
    if not found:
        raise Stop(f"mcphub connection known: no known server has {word!r} in it; `mcphub connection known` lists all.")
    return 0


def _search(options: argparse.Namespace) -> int:
    from mcphub.features.importers.configured import registry
    from mcphub.features.importers.documents import DocumentRefused

    try:
        found = asyncio.run(registry.search(options.registry or registry.default(), options.word))
    except DocumentRefused as error:
        raise Stop(f"mcphub connection search: {error}") from error
    for each in found.servers:
        print(f"{each.name}\t{each.version}\t{each.words}")
    if found.has_more:
        print("There are more. Search for a word of the name.", file=sys.stderr)
    if not found.servers:
        print("The registry has no such server.", file=sys.stderr)
    return 0
