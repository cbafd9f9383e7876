"""Additions of features to the catalogue as it is read: to tools, and resources beside its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sessions_app.kit.features import declared, loaded
from tools_catalog.call.base import Backend

if TYPE_CHECKING:
    from tools_catalog.catalog.offers import OfferedResource, Prompt


@dataclass(frozen=True, slots=True)
class ToolAdditions:
    """Declares additions: `module:function` that reads them from the database, by the keys of their tools."""

    read: str


@dataclass(frozen=True, slots=True)
class OfferAdditions:
    """Declares further resources and prompts: `module:function`s that read them from the database.

    They return `OfferedResource`s and `Prompt`s of `catalog.offers`. A resource hides the catalogue's row with its URI,
    a prompt is hidden by the row with its name. Whoever changes the rows publishes `bus.RESOURCES_CHANGED`, for both.
    """

    resources: str
    prompts: str = ""


class Addition:
    """What a feature adds to one tool. Most tools have none, and pay for none."""

    __slots__ = ()

    @property
    def key(self) -> str:
        """Differs where two additions do."""
        raise NotImplementedError

    def definition(self, definition: dict[str, Any]) -> dict[str, Any]:
        """Return the definition as clients get it. Rows keep theirs."""
        return definition

    def backend(self, backend: Backend) -> Backend:
        """Return what runs the tool's calls."""
        return backend


Additions = tuple[Addition, ...]


def read_additions() -> Mapping[int, Additions]:
    """Read the additions of all features by the keys of their tools."""
    found: dict[int, Additions] = {}
    for part in declared(ToolAdditions):
        for tool, addition in loaded(part.read)().items():
            found[tool] = (*found.get(tool, ()), addition)
    return found


def read_resources() -> Iterator[OfferedResource]:
    """Read the resources of all features."""
    for part in declared(OfferAdditions):
        found: Iterable[OfferedResource] = loaded(part.resources)()
        yield from found


def adds_prompts() -> bool:
    return any(part.prompts for part in declared(OfferAdditions))


def read_prompts() -> Iterator[Prompt]:
    """Read the prompts of all features."""
    for part in declared(OfferAdditions):
        if part.prompts:
            found: Iterable[Prompt] = loaded(part.prompts)()
            yield from found
