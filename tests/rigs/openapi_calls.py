"""Operations of surveyed documents, called through a hub: a mock server answers, and says what it was asked."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcphub.features.importers import descriptions
from mcphub.features.importers.candidates import Candidate
from sessions_app.protocol import json, schemas
from tests import operations
from tests.servers import Hub
from tests.wire.service import Service
from tests.wire.speech import Speaker

_OF_ONE_DOCUMENT = 12
_VALUE = "user:password-of-the-survey"


@dataclass(frozen=True, slots=True)
class _Chosen:
    slug: str
    path: Path
    candidate: Candidate
    secrets: frozenset[str]
    arguments: dict[str, Any]


def call_through_a_hub(documents: list[Path], count: int, seed: int, folder: Path) -> bool:
    """Import and call so many operations; print and give whether all calls arrived as the documents say."""
    chosen = list(_choose(documents, count, random.Random(seed)))
    failures: list[str] = []
    with (
        Service(lambda _asked: (200, {"answered": True})).running() as mock,
        Hub(folder / "hub", environment={"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}) as hub,
    ):
        _import(chosen, mock, hub)
        with Speaker(hub.url, hub.key) as speaker:
            session = speaker.open_session()
            for each in chosen:
                before = len(mock.asked)
                answer = speaker.call(session, each.candidate.name, each.arguments).json()
                problem = _problem(each, answer, mock.asked[before:])
                failures += [f"{each.slug} {each.candidate.key}: {problem}"] if problem else []
    for line in failures:
        print(f"  FAILED: {line[:300]}")
    print(f"{len(chosen) - len(failures)} of {len(chosen)} calls through the hub arrived as the documents say")
    return not failures and len(chosen) == count


def _choose(documents: list[Path], count: int, lots: random.Random) -> Iterator[_Chosen]:
    """Draw operations, of each document some, whose arguments can be made up."""
    left = count
    for number, path in enumerate(documents):
        slug = f"api{number}"
        found = descriptions.look(
            path.read_bytes(), "openapi", slug=slug, prefix=f"{slug}_", source="https://h.example/"
        )
        drawn = lots.sample(found.candidates, len(found.candidates))
        written = json.dumps([found.headers, *(each.definition["configuration"] for each in found.candidates)]).decode()
        secrets = frozenset(re.findall(r"\{(?:secret|basic):([^}]+)\}", written))
        taken = 0
        for candidate in drawn:
            arguments = _arguments(candidate.definition, lots)
            if arguments is None or taken == _OF_ONE_DOCUMENT or not left:
                continue
            taken, left = taken + 1, left - 1
            yield _Chosen(slug, path, candidate, secrets, arguments)
        if not left:
            return


def _import(chosen: list[_Chosen], mock: Service, hub: Hub) -> None:
    for slug in dict.fromkeys(each.slug for each in chosen):
        of_it = [each for each in chosen if each.slug == slug]
        only = [word for each in of_it for word in ("--only", each.candidate.key)]
        where = ["--service", slug, "--prefix", f"{slug}_", "--url", f"{mock.url}/{slug}"]
        hub.command("catalog", "import", "openapi", str(of_it[0].path), *where, *only, "--enable")
        for name in of_it[0].secrets:
            hub.operate(operations.keep_secret, name, _VALUE, mock.url, f"service:{slug}", "headers.* query.*")


def _problem(each: _Chosen, answer: Any, asked: list[Any]) -> str:
    result = answer.get("result")
    if result is None or result.get("isError"):
        return str(answer)
    if len(asked) != 1:
        return f"the server was asked {len(asked)} times"
    method, _, path = each.candidate.key.partition(" ")
    parts = re.split(r"(\{[^{}]+\})", re.split(r"[?#]", path)[0])
    wanted = f"/{each.slug}" + "".join("[^/]+" if part.startswith("{") else re.escape(part) for part in parts)
    if asked[0].method != method or not re.fullmatch(wanted, asked[0].raw_path):
        return f"the server was asked {asked[0].method} {asked[0].raw_path}"
    return ""


def _arguments(definition: dict[str, Any], lots: random.Random) -> dict[str, Any] | None:
    """Make up what is required, and some of what is not; None where what was made up does not fit."""
    schema = definition["input_schema"]
    headers = " ".join(definition["configuration"].get("headers", {}).values())
    in_header = {name.partition("|")[0] for name in re.findall(r"\{([^}]+)\}", headers)}
    wanted = set(schema.get("required", ()))
    made: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        if name in wanted or lots.random() < 0.3:
            made[name] = _value(part, lots, 0)
            if name in in_header and isinstance(made[name], str):
                made[name] = made[name].replace("ä", "a")
    validator = schemas.compile(schema)
    if validator.is_valid(made):
        return made
    least = {name: value for name, value in made.items() if name in wanted}
    return least if validator.is_valid(least) else None


def _value(schema: Any, lots: random.Random, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > 8:
        return "x"
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    if schema.get("enum"):
        return lots.choice(schema["enum"])
    for name in ("oneOf", "anyOf"):
        if schema.get(name):
            return _value({**schema, name: None, **schema[name][0]}, lots, depth + 1)
    if schema.get("allOf"):
        merged = {key: value for part in schema["allOf"] for key, value in part.items()}
        return _value({**schema, "allOf": None, **merged}, lots, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind in ("integer", "number"):
        return max(schema.get("minimum", 1), schema.get("exclusiveMinimum", 0) + 1)
    if kind == "boolean":
        return lots.random() < 0.5
    if kind == "array":
        return [_value(schema.get("items"), lots, depth + 1) for _ in range(max(1, schema.get("minItems", 2)))]
    if kind == "object" or "properties" in schema:
        named = schema.get("properties", {})
        return {name: _value(named.get(name), lots, depth + 1) for name in schema.get("required", list(named)[:2])}
    return (
        "an ä/b" if schema.get("minLength", 0) < 7 <= schema.get("maxLength", 7) else "x" * schema.get("minLength", 1)
    )
