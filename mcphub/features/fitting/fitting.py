"""One result made to fit: projected, shortened, and with a note of the omissions. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mcphub.features.fitting.fields import FieldsError, projected
from mcphub.features.fitting.preview import MOST_NAMED, Omission, head, shortened, size
from mcphub.features.fitting.tables import LEGEND, with_tables
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json
from tools_catalog.call.base import NOTHING, Absent

CHARACTERS_A_TOKEN = 4
"""An estimate: each model counts in its own way."""
META = "mcphub/fitted"
_MOST_GROWTH = 1.25
"""A projection that names members anew may grow a little."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A result as its client gets it, before the note and the link."""

    wire: dict[str, Json]
    is_whole: bool
    left_out: list[Omission] = field(default_factory=list)
    fields: str = ""
    """The expression that was applied."""
    problem: str = ""
    """Why fields were not applied."""
    without_structured: str = ""
    """Why `structuredContent` was left out."""
    has_tables: bool = False
    """Its text has tables as CSV. A whole result may have them, too."""

    @property
    def is_unchanged(self) -> bool:
        return self.is_whole and not self.problem and not self.has_tables


def value_of(wire: dict[str, Json]) -> Json | Absent:
    """Return a result's JSON value: the structured one, or that of its only text; NOTHING where there is none."""
    structured = wire.get("structuredContent", NOTHING)
    if structured is not NOTHING:
        return structured
    texts = _texts(wire)
    if len(texts) != 1 or not texts[0].lstrip().startswith(("{", "[")):
        return NOTHING
    try:
        return json.loads(texts[0].encode("utf-8", "replace"))
    except ParseError:
        return NOTHING


def text_of(wire: dict[str, Json]) -> str:
    """Return the texts of a result."""
    return "\n".join(_texts(wire))


def _texts(wire: dict[str, Json]) -> list[str]:
    return [block["text"] for block in wire["content"] if block.get("type") == "text"]


def fitted(
    wire: dict[str, Json],
    fields: str,
    most_characters: int | None,
    is_valid: Callable[[Json], bool],
    *,
    has_tables: bool = False,
) -> Fitted:
    """Return a result made to fit. `is_valid`: whether a structured value keeps to the tool's schema.

    `has_tables`: its tables are sent as CSV.
    """
    value = value_of(wire)
    applied = problem = ""
    if fields and value is NOTHING:
        problem = "The result is no JSON, so fields cannot be selected."
    elif fields:
        try:
            value = _projected(fields, value)
            applied = fields
        except FieldsError as error:
            problem = str(error)
    others = [block for block in wire["content"] if block.get("type") != "text"]
    kept, media = _media(others, most_characters)
    shown, left_out, text = _shown(wire, value, applied, most_characters)
    left_out = [*left_out, *media]
    tables = with_tables(shown) if has_tables and value is not NOTHING else None
    is_whole = not applied and not left_out
    if is_whole and tables is None:
        return Fitted(wire, True, problem=problem)
    made: dict[str, Json] = {name: each for name, each in wire.items() if name != "structuredContent"}
    made["content"] = [{"type": "text", "text": text if tables is None else tables}, *kept]
    why = ""
    # Clients that show their model the structured result alone, as Codex does, would show a part as the whole.
    if "structuredContent" in wire:
        structured = shown if isinstance(shown, dict) else {"result": shown}
        if tables is not None:
            why = "The structured result is left out, as its tables are in the text."
        elif left_out:
            why = "The structured result has no place for this note, so what is left is sent as text only."
        elif is_valid(structured):
            made["structuredContent"] = structured
        else:
            why = "What is left does not fit the tool's output schema, so it is sent as text only."
    return Fitted(made, is_whole, left_out, applied, problem, why, tables is not None)


def _shown(
    wire: dict[str, Json], value: Json | Absent, applied: str, most_characters: int | None
) -> tuple[Json, list[Omission], str]:
    """Return the rest of a result's value, its omissions, and its text."""
    if value is NOTHING:
        text = text_of(wire)
        if most_characters is None or len(text) <= most_characters:
            return None, [], text
        short = head(text, most_characters)
        return None, [Omission("", "characters", len(short), len(text))], short
    if not applied and (most_characters is None or max(size(value), len(text_of(wire))) <= most_characters):
        return value, [], text_of(wire)
    shown, left_out = (value, []) if most_characters is None else shortened(value, most_characters)
    if not applied and not left_out:
        # Short as a value; only its text was long, as an indented one is.
        left_out = [Omission("", "characters", size(value), len(text_of(wire)))]
    return shown, left_out, json.dumps(shown).decode("utf-8", "surrogatepass")


def _projected(fields: str, value: Json) -> Json:
    found = projected(fields, value)
    if size(found) > size(value) * _MOST_GROWTH + 1000:
        raise FieldsError("The expression makes the result larger.")
    return found


def _media(blocks: list[dict[str, Json]], most_characters: int | None) -> tuple[list[dict[str, Json]], list[Omission]]:
    """Return the images, sounds and resources that fit, and those that do not."""
    if most_characters is None:
        return blocks, []
    kept: list[dict[str, Json]] = []
    room, whole = most_characters, 0
    for block in blocks:
        taken = size(block)
        whole += 1
        if taken <= room:
            kept.append(block)
            room -= taken
    missing = len(blocks) - len(kept)
    return kept, [Omission("/content", "images, sounds and resources", len(kept), whole)] if missing else []


def note(made: Fitted, whole: int, shown: int, handle: str, until: str) -> str:
    """Return the note that accompanies a result. `whole`, `shown`: characters. `handle`: a URI, or nothing."""
    if made.is_whole:
        return f"[MCP Hub: {' '.join(filter(None, (made.problem, LEGEND if made.has_tables else '')))}]"
    lines = [f"[MCP Hub: this is not the whole result: {shown} of {whole} characters."]
    if made.fields:
        lines.append(f"Only these fields are here: {made.fields}.")
    if made.problem:
        lines.append(made.problem)
    if made.left_out:
        named = "; ".join(each.words() for each in made.left_out[:MOST_NAMED])
        more = len(made.left_out) - MOST_NAMED
        lines.append(f"Shown are {named}{f'; and {more} more' if more > 0 else ''}.")
    if made.has_tables:
        lines.append(LEGEND)
    elif made.without_structured:
        lines.append(made.without_structured)
    if handle:
        lines.append(
            f"The rest can be read until {until} as the resource {handle}: add ?path=/items&start=20&end=40 for items "
            "of a list (characters of a text), or ?search=words. Without resources, call read_result if it is listed."
        )
    else:
        lines.append("The rest is not kept. Ask for less, or for a part.")
    return f"{' '.join(lines)}]"
