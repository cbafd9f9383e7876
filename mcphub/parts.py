"""Parts that a feature may add to this floor, listed in its `FeatureConfig`.

Imports nothing heavy: commands read the parts before Django is set up. Code is named as `module:attribute`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from django.utils.functional import _StrOrPromise


@dataclass(frozen=True, slots=True)
class HubCommand:
    """A command of `mcphub`."""

    name: str
    summary: str
    module: str
    """It has `declare(parser)` and `run(options)`."""


@dataclass(frozen=True, slots=True)
class Verbs:
    """Further verbs of a command of the core."""

    of: str
    module: str
    """It has `declare(verbs)` for the action of `add_subparsers`, and `run(options)`."""


@dataclass(frozen=True, slots=True)
class PageRoutes:
    """Addresses that Django serves: a module with `urlpatterns`, and their prefix."""

    urls: str
    below: str = ""


@dataclass(frozen=True, slots=True)
class RestResource:
    """Rows that REST serves below `/api/`."""

    prefix: str
    viewset: str
    about: _StrOrPromise = ""
    """One sentence for `/api/`."""
    basename: str | None = None
    named_as: str = ""
    """The member by which answers name such a row. Pages of REST link it."""


@dataclass(frozen=True, slots=True)
class RestAction:
    """One address below `/api/` that is no list of rows: a regular expression, and the actions by HTTP method."""

    pattern: str
    viewset: str
    actions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RestEndpoint:
    """An address below `/api/` that is served by an ASGI application, as `/api/` lists it for keys."""

    name: str
    about: _StrOrPromise
    scope: str = ""
    """The scope that shows it to a key."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """ASGI applications by path.

    `routes` names a module with `CONSUMERS`, `PREFIXES`, `ROOTS` and, optionally, `AT_TOOLSET`: applications by the
    rest of the path after a toolset's address.
    """

    routes: str


@dataclass(frozen=True, slots=True)
class TransportEndpoints:
    """A transport of MCP: its declaration, and the ASGI applications by path."""

    transport: str
    served: str


@dataclass(frozen=True, slots=True)
class ConsoleArea:
    """An entry of the side bar."""

    name: str
    title: _StrOrPromise
    icon: str
    place: int
    """Entries stand in the order of their places; those of the core have tens."""


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A tab of an area: `page` is `<app>_<model>` for the list of a table, else the name of an address."""

    area: str
    title: _StrOrPromise
    icon: str
    page: str
    key: str = ""
    """The letter that leads there, after `g` (keys.js)."""
    place: int = 100
    """Tabs stand in the order of their places; those of the core have tens."""
    words: _StrOrPromise = ""
    """Further names, by which the command menu finds it."""
    about: _StrOrPromise = ""
    """Of a list: what its rows are for, or how they come about. Shown while it is empty."""
    docs: str = ""
    """Its chapter of the documentation: `secure/quotas`, or `secure/quotas#windows`."""
    permissions: tuple[str, ...] = ()
    """The permissions to open a page that is no list."""
    group: _StrOrPromise = ""
    """The menu among the tabs that has the page, where an area has many; its pages stand beside each other."""
    first_step: str = ""
    """Of a list without a form for new rows: the `page` that leads to the first row."""


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """A line of the settings page about rows: `page` is the `<app>_<model>` of their list. Enabled ones are counted."""

    section: str
    """A name of `mcphub.console.configuration.variables.SECTIONS`."""
    page: str
    about: _StrOrPromise


@dataclass(frozen=True, slots=True)
class ConsoleBanner:
    """What every page of the console says: a function of the request that yields `mcphub.console.banners.Banner`s."""

    banners: str


@dataclass(frozen=True, slots=True)
class PendingRows:
    """Rows that wait for somebody's decision, which the overview counts for people who may see their list."""

    title: _StrOrPromise
    page: str
    """`<app>_<model>` of the list."""
    rows: str
    """A function that returns them, as a `QuerySet`."""
    query: str = ""
    """The part of the list's address that chooses them."""


@dataclass(frozen=True, slots=True)
class HostPages:
    """The pages of a model in the stock admin of a host: the model, and a subclass of `embedding.pages.HostPage`."""

    model: str
    pages: str


@dataclass(frozen=True, slots=True)
class OverviewCard:
    """A card at the top of the overview: a function of the request that returns its template and context, or None."""

    card: str


@dataclass(frozen=True, slots=True)
class PaletteAction:
    """Something to do that has a page of its own; `words` are other names of it."""

    title: _StrOrPromise
    icon: str
    page: str
    permissions: tuple[str, ...] = ()
    words: _StrOrPromise = ""
    query: str = ""


@dataclass(frozen=True, slots=True)
class MyAccessPart:
    """A part of *My access*: names a `mcphub.my_access.parts.Part`."""

    part: str
    place: int = 100
    """Parts stand in the order of their places; those of the core have tens."""


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """A subject that `mcphub doctor` looks into: a function that yields findings and needs the database."""

    subject: _StrOrPromise
    check: str


@dataclass(frozen=True, slots=True)
class PeriodicSweep:
    """A function that deletes expired data. A process calls it about every half a minute, on a thread."""

    function: str


@dataclass(frozen=True, slots=True)
class HubService:
    """Work that goes on beside calls: names a subclass of `mcphub.process.services.BackgroundService`."""

    name: str
    service: str


@dataclass(frozen=True, slots=True)
class ResourceReader:
    """Resources that are in no catalogue: those whose URIs begin with `prefix`.

    `reading` names a function that takes the exchange and the URI and returns an `invocations.reading.Reading`.
    """

    prefix: str
    reading: str


@dataclass(frozen=True, slots=True)
class ProtocolExtension:
    """An extension of MCP that the hub serves: its name among the capabilities, and its methods."""

    name: str
    methods: Mapping[str, str]
    """Handlers by method: each takes the exchange and the parameters. The core's own methods cannot be replaced."""
    capability: Mapping[str, object] = field(default_factory=dict)
    """The settings among the capabilities."""
    stateless: Mapping[str, str] = field(default_factory=dict)
    """Further handlers, for requests without a session alone."""
    draft_name: str = ""
    """The member of the capabilities, beside `extensions`, where clients of its drafts look for it."""


@dataclass(frozen=True, slots=True)
class RowMetrics:
    """A function that returns metrics that the database has, once for all processes."""

    function: str


@dataclass(frozen=True, slots=True)
class HubMetrics:
    """A function that takes the hub and returns metrics of its process."""

    function: str


@dataclass(frozen=True, slots=True)
class OverviewPanel:
    """A panel of the overview: its template, and a function of the request that returns `PanelRows`, or None."""

    template: str
    rows: str


@dataclass(frozen=True, slots=True)
class PanelRows:
    """Rows of a panel before people and keys in it have names: the overview looks all of them up at once."""

    subjects: Sequence[str]
    shown: Callable[[Mapping[str, str]], Mapping[str, object]]
    """Returns members of `panel` in the template, by the names."""


@dataclass(frozen=True, slots=True)
class SchemaHook:
    """A function that adds to the OpenAPI document, as drf-spectacular's postprocessing hooks do."""

    function: str


@dataclass(frozen=True, slots=True)
class SchemaEnum:
    """The name in the OpenAPI document of choices that several components have, and where they are: a dotted path."""

    name: str
    choices: str


@dataclass(frozen=True, slots=True)
class RestExamples:
    """A module with examples of the OpenAPI document: `REQUESTS` and `COMPONENTS` by component.

    It may have `OPERATIONS`: texts and parameters of paths by operation.
    """

    module: str


@dataclass(frozen=True, slots=True)
class RolePermissions:
    """Permissions of roles that ship; without roles of all."""

    permissions: tuple[str, ...]
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoticeKind:
    """A kind of notice: something of which people may be notified."""

    name: str
    title: _StrOrPromise
    words: _StrOrPromise
    """With the notice's facts as `%(name)s`."""
    permission: str
    """People with it may read such notices, besides the person concerned."""
    page: str
    """Of the admin: the list on which something can be done about it."""
    is_alarm: bool = False
    """Sent during quiet hours if a subscription allows it."""
    ends: bool = False
    """A state that ends by itself, as opposed to something that happened once."""
    states: str = ""
    """A function that returns the states of this kind that hold now: facts by subject. Empty: it is noted by others."""
    outcome: str = ""
    """A function that returns further facts of a state that is over, by its subject."""
    of_person: bool = False
    """The person, or a key of the person, that the fact `principal` names may read it without the permission."""
    shown: str = ""
    """A function of the facts that returns those which are written another way in the words."""
    shared: tuple[str, ...] = ()
    """Facts for callers without the permission, in events about themselves, whom the fact `principal` names, or about a
    connection with tools that they see. Empty: such callers get none.
    """


@dataclass(frozen=True, slots=True)
class NoticeFollower:
    """A function that is called within the transaction that writes a notice, reopens it or ends it.

    It takes the notice and its state: `noticing.BEGAN`, `ENDED`, or `HAPPENED` where the kind has no end.
    """

    function: str


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """A file of lines in each archive of evidence: a function that takes the period's first moment and the one after
    its last, and yields JSON objects, in which times may be `datetime`. It is called in the workspace of the archive.

    The report shows `words` above the lines, and the check of an archive prints them.
    """

    name: str
    title: _StrOrPromise
    lines: str
    words: _StrOrPromise = ""


@dataclass(frozen=True, slots=True)
class VerifiedCopy:
    """A copy of sealed rows outside the database, which `mcphub audit verify --NAME PLACE` verifies with it."""

    name: str
    help: str
    setting: str
    """The setting with the place that is meant where none is named."""
    verify: str
    """A function of the place, the log, the trusted keys and the checkpoints; it returns a `Summary`, or raises Bad.

    The log itself was verified before.
    """


@dataclass(frozen=True, slots=True)
class TokenSource:
    """A class whose instances look up access tokens of other issuers; see sessions_app/tokens.py."""

    source: str


@dataclass(frozen=True, slots=True)
class DirectoryPeople:
    """A function that returns the person created by a directory under an ID, or None: `found(external_id)`."""

    found: str


@dataclass(frozen=True, slots=True)
class RowsInForce:
    """Rows by which operators protect calls. A hub without the feature does not enforce them, and reports it at its
    start, in `mcphub doctor` and on each page of the console.
    """

    table: str
    condition: str
    """In SQL for SQLite and PostgreSQL."""
    words: _StrOrPromise
    """A sentence with their number as `%(count)d`."""


@dataclass(frozen=True, slots=True)
class SpendQuery:
    """A question about money spent: from `after` on and before `before`."""

    after: datetime
    before: datetime
    principals: frozenset[str] | None = None
    """Of these callers; None: of all."""
    provider: str = ""
    """Of this provider of models; empty: of all."""


@dataclass(frozen=True, slots=True)
class RecordedSpend:
    """Money that callers spend, as a feature records it, for alerts.

    `spent` names a function from a `SpendQuery` to moments with the millionths of the hub's currency that were spent
    then; it raises `TookTooLong` rather than read without a bound. `providers` names one that returns the names of
    providers.
    """

    spent: str
    providers: str
