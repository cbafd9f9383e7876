"""Kinds of tools: one object per kind of backend, used wherever a tool's configuration is needed.

A kind is one file that registers a `ToolKind`: in this folder, or `kinds.py` of an operator's own app. Models,
snapshot, admin, bundles, REST and `doctor` ask the registry and name no kind. The database holds a kind's name and
does not know which kinds there are.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from django.db.models import Q
from django.utils.functional import Promise
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext as _t

from sessions_app.protocol import json
from tools_catalog import kinds, requirements
from tools_catalog.bindings import Destination
from tools_catalog.call.base import Backend, Json

if TYPE_CHECKING:
    from django import forms
    from django.http import QueryDict

    from tools_catalog.upstream.sights import Sight


class DefinedTool(Protocol):
    """A kind's view of a row of the catalogue."""

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


class Configured(Protocol):
    """A row with a configuration."""

    configuration: Json


Row = TypeVar("Row", bound=Configured)


class TakeCredentials(Protocol):
    """Gives texts by name with references in place of credentials; raises ValueError for one that has to go."""

    def __call__(self, texts: Json, place: str, to: Destination, before: Json = None, *, is_moved: bool) -> Json: ...


def _sends_none(_backend: Backend) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The runtime parts of one tool in a snapshot."""

    make: Callable[[], Backend]
    """Compiles the tool; raises for a configuration that cannot be run. Not called again while `key` stays."""
    key: str = ""
    """The backend's dependencies beside the tool's definition."""
    why_not: str = ""
    """Why the tool may not be called, for clients; empty where it may."""
    connection: str | None = None
    """The upstream behind the tool, for the audit."""
    upstream_name: str = ""
    """The tool's name there."""
    sight: Sight | None = None
    """The callers that the upstream shows it to, if that depends on the user."""
    place: str = ""
    """Digest of the settings beside the tool that decide where a call goes and as whom. An approval is bound to it."""
    secrets: Callable[[Any], Iterable[str]] = _sends_none
    """Names the secrets that the compiled tool sends."""


class ToolKind:
    """How tools of one kind are checked, compiled, described, carried in bundles and edited.

    Every method but `basis` has a default that suits a kind with a plain object as configuration.
    """

    name: ClassVar[str]
    """Stored with every tool of the kind."""
    label: ClassVar[str | Promise]
    short_label: ClassVar[str]
    """For the list of tools, beside `source`."""
    comes_by_approval: ClassVar[bool] = False
    """Its tools are written when an upstream's offer is approved: no bundle holds them, no past version is called."""
    about: ClassVar[str | Promise] = ""
    """For the page that asks for the kind of a new tool."""
    edits_configuration: ClassVar[bool] = True
    """The form of its tools shows the configuration as JSON; else the fields of the kind make it."""
    form_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of the tool's form that this kind adds: see `make_form_fields`."""

    # Checking and serving ----------------------------------------------------------------------------

    def offered(self) -> Mapping[str, Sequence[str]]:
        """Return the choices that come before the form of a new tool: field -> values."""
        return {}

    def initial(self, chosen: Mapping[str, str]) -> dict[str, Json]:
        """Return the initial values of a new tool's form, from a choice of the values `offered`."""
        return {}

    def check(self, tool: DefinedTool) -> None:
        """Raise ValueError or LookupError, with words for an operator, for a configuration that cannot be kept."""

    def without_credentials(self, tool: DefinedTool, before: Json, take: TakeCredentials) -> Json:
        """Return the configuration with references in place of credentials that stand in it as they are.

        `before` is the stored configuration, None for a new tool. Raises ValueError where one must not stand there.
        """
        return tool.configuration

    def read(self) -> object:
        """Read the shared dependencies of the kind's tools once per snapshot; `basis` receives them."""
        return None

    def basis(self, tool: DefinedTool, ground: object) -> Basis:
        """Return the runtime parts of the tool. Raises ValueError for a configuration that cannot be run."""
        raise NotImplementedError

    def annotations(self, tool: DefinedTool) -> dict[str, Json]:
        """Return the ToolAnnotations that clients see."""
        return tool.annotations

    # Describing --------------------------------------------------------------------------------------

    def source(self, configuration: Mapping[str, Json]) -> str:
        """Return a tool's source in a word: its function, its service, its connection."""
        return ""

    def secrets(self, configuration: Json) -> Iterable[tuple[str, Destination]]:
        """Return the names of the secrets that a tool sends, each with where it goes; raises ValueError as `check`."""
        return ()

    def not_served(self, tool: DefinedTool) -> str:
        """Return why a tool that is switched on is not served, for its page; empty where it is."""
        return requirements.why_not(tool.requirements, None)

    DOES: ClassVar[tuple[str, ...]] = ()
    """Members of a configuration, all texts, by which tools do the same to the outside; none: by the whole."""

    def likeness(self, one: Json) -> Callable[[Json], bool]:
        """Return whether tools of another configuration may do the same to the outside as those of this one."""
        if not self.DOES:
            return lambda other: bool(one == other)
        return lambda other: isinstance(other, dict) and all(one.get(name) == other.get(name) for name in self.DOES)

    def narrowed(self, one: Json) -> Q:
        """Return a condition that rows with a like configuration meet; it spares reading the others."""
        texts = [one.get(name) for name in self.DOES]
        # Other characters may stand in the column with escapes or without.
        plain = [text for text in texts if isinstance(text, str) and text.isascii() and text.isprintable()]
        return Q(*(Q(configuration__contains=json.dumps(text).decode()) for text in plain))

    PLACE: ClassVar[str] = ""
    """The member of a configuration that names the place of its tools, a row that several share; empty: none."""

    def slugs_of(self, place: object) -> frozenset[str]:
        """Return the places, as `PLACE` names them, that a row decides about."""
        return frozenset()

    def moved(self, place: object, rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
        """Yield the pairs of tools that do the same only once `place` is saved as it is: a tool of the place first."""
        return iter(())

    # Bundles -----------------------------------------------------------------------------------------

    def completed(self, entry: dict[str, Json], members: Iterable[str]) -> dict[str, Json]:
        """Return a bundle's entry with defaults for optional members; raise ValueError if one is missing."""
        if missing := [name for name in ("name", "description", "inputSchema", "configuration") if name not in entry]:
            raise ValueError(f"{missing[0]}: it is missing.")
        return dict(entry)

    # The form ----------------------------------------------------------------------------------------

    def make_form_fields(self, configuration: Mapping[str, Json]) -> dict[str, forms.Field]:
        """Return the form's fields of `form_fields`, filled from the configuration of a tool of this kind."""
        return {}

    def completed_form(self, data: QueryDict) -> QueryDict:
        """Return the submitted form of a new tool, with the kind's defaults."""
        return data

    def clean_form(self, form: forms.ModelForm, cleaned: dict[str, Json]) -> None:  # type: ignore[type-arg]
        """Make `cleaned["configuration"]` whole, or add errors to the form."""
        if not cleaned.get("configuration"):
            form.add_error("configuration", _t("This kind of tool needs a configuration here."))


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
    """Return the values of the column `backend`."""
    return [(kind.name, kind.label) for kind in KINDS.values()]


def by_approval() -> list[str]:
    """Name the kinds whose tools are never in a bundle."""
    return [kind.name for kind in KINDS.values() if kind.comes_by_approval]
