"""Kinds of tools: what runs a tool, as one object a kind, asked by every place that meets a tool's configuration.

A kind is one file that registers a `ToolKind`: in this folder, or `kinds.py` of an operator's own app. Models,
snapshot, admin, bundles, REST and `doctor` ask the registry and name no kind. The database holds a kind's name and
does not know which kinds there are.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Protocol

from django.utils.functional import Promise
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext as _t

from tools_catalog import kinds, requirements
from tools_catalog.bindings import Destination
from tools_catalog.call.base import Backend, Json

if TYPE_CHECKING:
    from django import forms
    from django.http import QueryDict

    from tools_catalog.upstream.sights import Sight


class DefinedTool(Protocol):
    """What a kind sees of a row of the catalogue."""

    name: str
    configuration: Json
    input_schema: Json
    requirements: Json
    read_only: bool
    destructive: bool
    retry_safe: bool
    enabled: bool

    @property
    def pk(self) -> int | None: ...

    @property
    def annotations(self) -> dict[str, Json]: ...


class TakeCredentials(Protocol):
    """Gives texts by name with references in place of credentials; raises ValueError for one that has to go."""

    def __call__(self, texts: Json, place: str, to: Destination, before: Json = None, *, is_moved: bool) -> Json: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a snapshot needs of one tool to serve it."""

    make: Callable[[], Backend]
    """Compiles the tool; raises for a configuration that cannot be run. Not called again while `key` stays."""
    key: str = ""
    """What the backend depends on beside the tool's definition."""
    why_not: str = ""
    """Why the tool may not be called, for clients; empty where it may."""
    connection: str | None = None
    """The upstream behind the tool, for the audit."""
    upstream_name: str = ""
    """What the tool is called there."""
    sight: Sight | None = None
    """To whom the upstream shows it, where that depends on who asks."""


class ToolKind:
    """How tools of one kind are checked, compiled, described, carried in bundles and edited.

    Every method but `basis` has an answer that suits a kind whose configuration is a plain object.
    """

    name: ClassVar[str]
    """Stored with every tool of the kind."""
    label: ClassVar[str | Promise]
    short_label: ClassVar[str]
    """For the list of tools, beside `source`."""
    comes_by_approval: ClassVar[bool] = False
    """Its tools are written when an upstream's offer is approved: no bundle holds them, no past version is called."""
    form_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of the tool's form that this kind adds: see `make_form_fields`."""

    # Checking and serving ----------------------------------------------------------------------------

    def check(self, tool: DefinedTool) -> None:
        """Raise ValueError or LookupError, with words for an operator, for a configuration that cannot be kept."""

    def without_credentials(self, tool: DefinedTool, before: Json, take: TakeCredentials) -> Json:
        """Give the configuration with references in place of credentials that stand in it as they are.

        `before` is the stored configuration, None for a new tool. Raises ValueError where one must not stand there.
        """
        return tool.configuration

    def read(self) -> object:
        """Read once a snapshot what all tools of the kind stand on; `basis` is given it."""
        return None

    def basis(self, tool: DefinedTool, ground: object) -> Basis:
        """Give what serves the tool. Raises ValueError for a configuration that cannot be run."""
        raise NotImplementedError

    def annotations(self, tool: DefinedTool) -> dict[str, Json]:
        """Give the ToolAnnotations that clients see."""
        return tool.annotations

    # Describing --------------------------------------------------------------------------------------

    def source(self, configuration: Mapping[str, Json]) -> str:
        """Say in a word what is behind a tool: its function, its service, its connection."""
        return ""

    def secrets(self, configuration: Json) -> Iterable[tuple[str, Destination]]:
        """Give the names of the secrets that a tool sends, each with where it goes; raises ValueError as `check`."""
        return ()

    def not_served(self, tool: DefinedTool) -> str:
        """Give why a tool that is switched on is not served, for its page; empty where it is."""
        return requirements.why_not(tool.requirements, None)

    # Bundles -----------------------------------------------------------------------------------------

    def completed(self, entry: dict[str, Json], members: Iterable[str]) -> dict[str, Json]:
        """Give a bundle's entry with what it may leave out; raise ValueError for one that lacks something."""
        if missing := [name for name in ("name", "description", "inputSchema", "configuration") if name not in entry]:
            raise ValueError(f"{missing[0]}: it is missing.")
        return dict(entry)

    # The form ----------------------------------------------------------------------------------------

    def make_form_fields(self, configuration: Mapping[str, Json]) -> dict[str, forms.Field]:
        """Give the form's fields of `form_fields`, filled from the configuration of a tool of this kind."""
        return {}

    def completed_form(self, data: QueryDict) -> QueryDict:
        """Give what was sent for a new tool, with what the kind knows of it."""
        return data

    def clean_form(self, form: forms.ModelForm, cleaned: dict[str, Json]) -> None:  # type: ignore[type-arg]
        """Make `cleaned["configuration"]` whole, or add errors to the form."""
        if not cleaned.get("configuration"):
            form.add_error("configuration", _t("A tool of this kind needs its configuration here."))


KINDS: dict[str, ToolKind] = {}
"""By name."""


def register(kind: type[ToolKind]) -> type[ToolKind]:
    KINDS[kind.name] = kind()
    return kind


def discover() -> None:
    """Import the kinds of this folder, and `kinds.py` of every installed app, so that they register."""
    autodiscover_modules("kinds")
    for module in pkgutil.iter_modules(kinds.__path__):
        import_module(f"{kinds.__name__}.{module.name}")


def kind_of(name: str) -> ToolKind:
    """Raise LookupError for a kind that nobody registered."""
    try:
        return KINDS[name]
    except KeyError:
        raise LookupError(f"There is no kind of tool {name!r}. Kinds: {', '.join(KINDS)}.") from None


def choices() -> list[tuple[str, str | Promise]]:
    """Give what the column `backend` may hold."""
    return [(kind.name, kind.label) for kind in KINDS.values()]


def by_approval() -> list[str]:
    """Name the kinds whose tools no bundle holds."""
    return [kind.name for kind in KINDS.values() if kind.comes_by_approval]
