"""Additions of features to the catalogue as it is read: to tools and their calls, and resources beside its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sessions_app.kit.features import declared, loaded
from sessions_app.protocol.json import Json
from tools_catalog.call.base import Backend
from tools_catalog.call.noted import Noted
from tools_catalog.policy.scope import RuledTool

if TYPE_CHECKING:
    from tools_catalog.catalog.offers import OfferedResource, Prompt


@dataclass(frozen=True, slots=True)
class ToolAdditions:
    """Declares additions: `module:function` that reads them from the database, by the keys of their tools."""

    read: str
    follow_toolsets: str = ""
    """`module:function` that returns whether they depend on the tools of a toolset now. Empty: they never do."""


@dataclass(frozen=True, slots=True)
class OfferAdditions:
    """Declares further resources and prompts: `module:function`s that read them from the database.

    They return `OfferedResource`s and `Prompt`s of `catalog.offers`. A resource hides the catalogue's row with its URI,
    a prompt is hidden by the row with its name. Whoever changes the rows publishes `bus.RESOURCES_CHANGED`, for both.
    """

    resources: str
    prompts: str = ""


@dataclass(frozen=True, slots=True)
class CallChecks:
    """Declares checks of calls: `module:function` that reads them from the database. They stand in `Tool.checks`."""

    name: str
    read: str
    may_hide: bool = False
    """True for checks that may hide tools from callers."""


class ToolCheck:
    """A feature's checks of one tool's calls."""

    __slots__ = ()

    def shown(self, arguments: Json, seconds: float) -> Json:
        """Return arguments as a record shows them of a call that is not made, or not yet.

        {} where looking takes longer than `seconds`.
        """
        return arguments

    def hides(self, tool: RuledTool, caller: Principal) -> Noted | None:
        """Return the note for the record where the tool is hidden from the caller whatever the call is; else None.

        Asked of those that are declared to hide tools.
        """
        return None

    @property
    def may_hide(self) -> bool:
        """Return whether it decides that: most checks leave it to others."""
        return type(self).hides is not ToolCheck.hides


class Principal(Protocol):
    """The attributes by which checks distinguish callers."""

    @property
    def principal(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def groups(self) -> frozenset[int]: ...
    @property
    def claims(self) -> str:
        """Of its access token, as JSON; empty where it has none."""
        ...


class Checks(Protocol):
    """All checks of a feature at one moment. False: none."""

    def __bool__(self) -> bool: ...

    @property
    def names_toolsets(self) -> bool:
        """Whether a toolset's choice decides which tools they concern."""
        ...

    def of_any(self, views: Iterable[RuledTool], toolsets: Mapping[str, frozenset[str]]) -> ToolCheck | None:
        """Return those that concern one of these views of a tool. `toolsets`: names of tools by the toolset's."""
        ...


class Addition:
    """What a feature adds to one tool. Most tools have none, and pay for none."""

    __slots__ = ()

    @property
    def key(self) -> str:
        """Differs where two additions do."""
        raise NotImplementedError

    @property
    def examples(self) -> tuple[str, ...]:
        """Return examples of use that a search finds the tool by. Clients do not get them."""
        return ()

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


def additions_follow_toolsets() -> bool:
    """Return whether a change of toolsets may change the additions of tools."""
    return any(loaded(part.follow_toolsets)() for part in declared(ToolAdditions) if part.follow_toolsets)


def read_checks(*, only_hiding: bool = False) -> dict[str, Checks]:
    """Read the checks of all features that have any, by the feature's name for them; or only those that hide tools."""
    parts = (part for part in declared(CallChecks) if part.may_hide or not only_hiding)
    read: dict[str, Checks] = {part.name: loaded(part.read)() for part in parts}
    return {name: checks for name, checks in read.items() if checks}


def checks_of(
    views: Iterable[RuledTool], checks: Mapping[str, Checks], toolsets: Mapping[str, frozenset[str]]
) -> dict[str, ToolCheck]:
    """Return the checks that concern one of these views of a tool."""
    seen = tuple(views)
    found = ((name, each.of_any(seen, toolsets)) for name, each in checks.items())
    return {name: check for name, check in found if check is not None}


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
