"""Which policies in force cover a tool, and which edits of the catalogue would take it out of their reach.

A rule, guardrail, quota, approval policy or redaction in force is loosened by two persons. An edit of its tools
loosens it as much: another name, tag, mark or workspace, another choice of a toolset, a second tool that does the
same, another address of a service or connection, another program behind a connection. Such an edit is held back like
the edit of the policy itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from sessions_app.history import guarding, recording
from sessions_app.workspaces.scope import acting_in
from tools_catalog.kinds.registry import KINDS
from tools_catalog.models.ruled import RuledRow, former_names, ruled
from tools_catalog.policy.scope import concerns

if TYPE_CHECKING:
    from tools_catalog.models.definitions import McpToolDefinition
    from tools_catalog.models.places import PlaceModel
    from tools_catalog.models.toolsets import McpToolset

Toolsets = Mapping[str, frozenset[str]]
How = str | frozenset[str]
"""How a policy covers a tool. Of a set every part is kept: an edit may add to it."""
Covers = Callable[[RuledRow, Toolsets], How | None]


@dataclass(frozen=True, slots=True, eq=False)
class Policed:
    """One policy in force."""

    label: str
    """Kind and name, for people."""
    covers: Covers
    """Returns how it covers a tool, None where it does not. Another answer means that it judges otherwise."""
    toolsets: tuple[str, ...] = ()
    """Names of the toolsets by which it chooses."""
    opens: bool = False
    """It lets calls through that others of its kind do not."""
    of_copies: bool = True
    """It is evaded by another tool that does the same, too."""


READERS: list[Callable[[], Iterable[Policed]]] = []
"""Policies of features and of the floors above."""
MISLED: list[Callable[[PlaceModel, PlaceModel], list[str]]] = []
"""Functions that return the policies, of features and of the floors above, that ask at a place, and that its move would
mislead.
"""


def by_scope(row: Any, label: str) -> Policed:
    """Return a row with a scope as a policy."""
    applies_to, target = row.applies_to, row.target

    def covers(tool: RuledRow, toolsets: Toolsets) -> str | None:
        return "" if concerns(applies_to, target, tool, toolsets) else None

    return Policed(label, covers, tuple(target.split()) if applies_to == "toolset" else ())


@dataclass(frozen=True, slots=True)
class Choice:
    """A toolset's choice of tools."""

    tools: frozenset[int]
    patterns: tuple[str, ...]

    def has(self, tool: RuledRow) -> bool:
        return tool.key in self.tools or any(
            fnmatchcase(name, pattern) for name in (tool.name, *tool.former) for pattern in self.patterns
        )


Covered = dict[Policed, How]


class Reach:
    """The policies in force now. False where there are none."""

    def __init__(self) -> None:
        self.policies = [policy for read in READERS for policy in read()]
        self.choices = self._chosen()

    def __bool__(self) -> bool:
        return bool(self.policies)

    def _chosen(self) -> dict[str, Choice]:
        from tools_catalog.models.toolsets import McpToolset

        named = {slug for policy in self.policies for slug in policy.toolsets}
        if not named:
            return {}
        rows = McpToolset.objects.filter(slug__in=named, enabled=True).prefetch_related("tools")
        return {row.slug: choice_of(row, (tool.pk for tool in row.tools.all())) for row in rows}

    def names_toolset(self, slug: str) -> bool:
        return any(slug in policy.toolsets for policy in self.policies)

    def of(self, tool: RuledRow, choices: Mapping[str, Choice] | None = None) -> Covered:
        """Return the policies that cover a tool, each with how it does."""
        known = self.choices if choices is None else choices
        toolsets = {slug: frozenset((tool.name,)) for slug, choice in known.items() if choice.has(tool)}
        found = ((policy, policy.covers(tool, toolsets)) for policy in self.policies)
        return {policy: how for policy, how in found if how is not None}

    def of_row(self, row: McpToolDefinition, former: tuple[str, ...] = ()) -> Covered:
        try:
            return self.of(ruled(row, former))
        except (ValueError, LookupError):  # it cannot be called as it is
            return {}

    def losses(self, stored: McpToolDefinition | None, row: McpToolDefinition) -> list[str]:
        """Return the policies that an edit of a tool would evade: by another state of it, or as another tool."""
        former = former_names(row.pk).get(row.pk, ()) if row.pk else ()
        after = self.of_row(row, former)
        evaded = [] if stored is None else lost(self.of_row(stored, former), after)
        if not row.enabled:
            return evaded
        if stored is not None and stored.pk == row.pk and not _is_alike(stored, row):
            evaded += self.left_behind(stored, former)
        is_same = stored is not None and stored.enabled and _does(stored) == _does(row)
        return evaded if is_same else [*evaded, *self._of_twins(row, after)]

    def losses_of_move(self, place: PlaceModel, moved: PlaceModel) -> list[str]:
        """Return the policies that tools of a service, connection or launch profile would evade somewhere else.

        They may do there what a covered tool does, and leave behind what another tool may do.
        """
        from tools_catalog.models.definitions import McpToolDefinition

        if not self.policies or not is_elsewhere(place, moved):
            return []
        evaded, former = [], former_names()
        for kind in KINDS.values():
            if not (slugs := kind.slugs_of(place)):
                continue
            rows = [row for row in McpToolDefinition.objects.filter(backend=kind.name) if _is_object(row)]
            own = [row for row in rows if row.configuration.get(kind.PLACE) in slugs]
            covered = cache(lambda row: self.of_row(row, former.get(row.pk, ())))
            for row in own:
                evaded += self.left_behind(row, former.get(row.pk, ()))
            for row, other in kind.moved(moved, rows) if own else ():
                if row.enabled and (row.workspace_id is None or other.workspace_id in (None, row.workspace_id)):
                    evaded += lost(covered(other), covered(row), is_copy=True)
        return evaded

    def left_behind(self, row: McpToolDefinition, former: tuple[str, ...] = ()) -> list[str]:
        """Return the policies that cover a tool, and would not cover any other one that does the same."""
        try:
            tool = ruled(row, former)
        except (ValueError, LookupError):
            return []
        covered = self.of(tool)
        return [label for other in _others(tool) for label in lost(covered, self.of(other), is_copy=True)]

    def _of_twins(self, row: McpToolDefinition, after: Covered) -> list[str]:
        """Return the policies on tools that do the same, which do not cover this one."""
        from tools_catalog.models.definitions import McpToolDefinition

        if row.backend not in KINDS or not _is_object(row) or not any(each.of_copies for each in self.policies):
            return []
        kind = KINDS[row.backend]
        others = McpToolDefinition.objects.filter(kind.narrowed(row.configuration), backend=row.backend)
        if row.workspace_id is not None:  # other workspaces' tools are none of its business
            others = others.filter(Q(workspace=None) | Q(workspace=row.workspace_id))
        is_alike = kind.likeness(row.configuration)
        alike = [other for other in others.exclude(pk=row.pk) if is_alike(other.configuration)]
        former = former_names() if alike else {}
        return [
            label
            for other in alike
            for label in lost(self.of_row(other, former.get(other.pk, ())), after, is_copy=True)
        ]


def choice_of(row: McpToolset, tools: Iterable[int]) -> Choice:
    return Choice(frozenset(tools), tuple(row.patterns.split()))


def lost(before: Covered, after: Covered, *, is_copy: bool = False) -> list[str]:
    """Return the policies that no longer cover a tool as before, and the allows that newly cover it.

    `is_copy`: `after` is of another tool that does the same.
    """
    considered = {policy: how for policy, how in before.items() if policy.of_copies or not is_copy}
    gone = [policy.label for policy, how in considered.items() if not _is_kept(how, after.get(policy))]
    if not is_copy and any(policy.opens for policy in before):
        gone += [policy.label for policy in after if policy.opens and policy not in before]
    return gone


def _is_kept(how: How, after: How | None) -> bool:
    return how <= after if isinstance(how, frozenset) and isinstance(after, frozenset) else how == after


def _does(row: McpToolDefinition) -> tuple[str, object]:
    return row.backend, row.configuration


def is_elsewhere(place: PlaceModel, moved: PlaceModel) -> bool:
    return any(where(place, name) != where(moved, name) for name in place.WHERE)


def where(place: PlaceModel, name: str) -> object:
    value = getattr(place, name)
    return value.rstrip("/") if name == "url" else value


def _is_object(row: McpToolDefinition) -> bool:
    return isinstance(row.configuration, dict)


def _is_alike(one: McpToolDefinition, other: McpToolDefinition) -> bool:
    if _does(one) == _does(other):
        return True
    if one.backend != other.backend or one.backend not in KINDS or not (_is_object(one) and _is_object(other)):
        return False
    return KINDS[one.backend].likeness(one.configuration)(other.configuration)


def _others(tool: RuledRow) -> list[RuledRow]:
    """Return tools as anybody may add them that do the same: without its name, place and tags, with any hints."""
    hints = tool.definition["annotations"]
    return [
        replace(
            tool,
            name="",
            former=(),
            key=None,
            connection=None,
            definition={"annotations": {**hints, "idempotentHint": is_idempotent, "openWorldHint": is_open}},
        )
        for is_idempotent in (False, True)
        for is_open in (False, True)
    ]


# Holding back ------------------------------------------------------------------------------------------


@acting_in(None)
def hold_back_tool(row: McpToolDefinition, only: set[str] | None) -> None:
    """Revert those fields of an edit with which the tool would evade a policy; a new one is switched off."""
    reach = _guarding()
    if reach is None:
        return
    stored = None if row._state.adding else type(row)._base_manager.filter(pk=row.pk).first()
    if stored is None:
        if evaded := reach.losses(None, row):
            _hold(row, "enabled", False, evaded)
        return
    _hold_edit(row, stored, only, lambda trial: reach.losses(stored, trial))
    if row.read_only and row.destructive:  # one was held back, and the two exclude each other
        row.hold("destructive", stored.destructive)
        row.hold("read_only", stored.read_only)


@acting_in(None)
def hold_back_place(row: PlaceModel, only: set[str] | None) -> None:
    """Revert what would lead tools of a place out of a policy, or mislead one that asks there."""
    if not guarding.needs_second_person() or row._state.adding:
        return
    stored = type(row)._base_manager.filter(pk=row.pk).first()
    if stored is None:
        return
    reach = Reach()

    def losses(trial: PlaceModel) -> list[str]:
        return [*reach.losses_of_move(stored, trial), *(label for misled in MISLED for label in misled(stored, trial))]

    _hold_edit(row, stored, only, losses)


@acting_in(None)
def hold_back_toolset(row: McpToolset, only: set[str] | None) -> None:
    """Revert those fields of an edit by which tools would leave the reach of a policy that names the toolset."""
    reach = _guarding()
    if reach is None or row._state.adding:
        return
    stored = type(row)._base_manager.filter(pk=row.pk).first()
    if stored is None or not (reach.names_toolset(stored.slug) or reach.names_toolset(row.slug)):
        return
    chosen = frozenset(row.tools.values_list("pk", flat=True))
    wanted = chosen if row.wanted_tools is None else row.wanted_tools

    def losses(trial: McpToolset) -> list[str]:
        found = _losses_of_toolset(reach, (stored, chosen), (trial, wanted))
        return [label for labels in found.values() for label in labels]

    _hold_edit(row, stored, only, losses)


@acting_in(None)
def admitted_tools(row: McpToolset, wanted: list[Any]) -> list[Any]:
    """Return the tools that a toolset may have now: the wanted ones, and those that a policy would lose."""
    row.wanted_tools = frozenset(tool.pk for tool in wanted)
    reach = _guarding()
    if reach is None or row._state.adding or not reach.names_toolset(row.slug):
        return wanted
    stored = type(row)._base_manager.get(pk=row.pk)
    now = list(row.tools.all())
    before = frozenset(tool.pk for tool in now)
    found = _losses_of_toolset(reach, (stored, before), (stored, row.wanted_tools))
    if not found:
        return wanted
    admitted = [tool for tool in wanted if tool.pk in before or tool.pk not in found]
    admitted += [tool for tool in now if tool.pk in found and tool.pk not in row.wanted_tools]
    row.wanted_tools = frozenset(tool.pk for tool in admitted)
    row.hold_links("tools", admitted, wanted, (label for labels in found.values() for label in labels))
    return admitted


@acting_in(None)
def losses_without(row: McpToolset) -> list[str]:
    """Return the policies that would lose tools if the toolset were removed; none for a superuser."""
    reach = _guarding()
    if reach is None or not reach.names_toolset(row.slug):
        return []
    chosen = frozenset(row.tools.values_list("pk", flat=True))
    found = _losses_of_toolset(reach, (row, chosen), None)
    return sorted({label for labels in found.values() for label in labels})


@acting_in(None)
def losses_of_names(names: Iterable[str]) -> list[str]:
    """Return the policies that would lose tools if these former names led to none; none for a superuser."""
    from tools_catalog.models.definitions import McpToolDefinition

    reach = _guarding()
    if reach is None:
        return []
    gone, evaded = set(names), []
    for row in McpToolDefinition.objects.filter(aliases__name__in=gone).distinct():
        former = former_names(row.pk).get(row.pk, ())
        kept = tuple(name for name in former if name not in gone)
        evaded += lost(reach.of_row(row, former), reach.of_row(row, kept))
    return sorted(set(evaded))


def covering(row: McpToolDefinition) -> list[str]:
    """Return the policies in force that cover a stored tool, for people."""
    return sorted({policy.label for policy in Reach().of_row(row, former_names(row.pk).get(row.pk, ()))})


def naming(row: McpToolset) -> list[str]:
    """Return the policies in force that choose tools by a toolset, for people."""
    return sorted({policy.label for policy in Reach().policies if row.slug in policy.toolsets})


def _guarding() -> Reach | None:
    """Return the policies in force if the edit under way must not evade them."""
    if not guarding.needs_second_person():
        return None
    return Reach() or None


def _losses_of_toolset(
    reach: Reach, before: tuple[McpToolset, frozenset[int]], after: tuple[McpToolset, frozenset[int]] | None
) -> dict[int, list[str]]:
    """Return the policies that each tool would evade by a change of one toolset, or without it."""
    from tools_catalog.models.definitions import McpToolDefinition

    was = {**reach.choices, **_as_choice(*before)}
    others = {slug: choice for slug, choice in reach.choices.items() if slug != before[0].slug}
    is_now = {**others, **(_as_choice(*after) if after is not None else {})}
    former, found = former_names(), {}
    for row in McpToolDefinition.objects.all():
        tool = ruled(row, former.get(row.pk, ()))
        if evaded := lost(reach.of(tool, was), reach.of(tool, is_now)):
            found[row.pk] = evaded
    return found


def _as_choice(row: McpToolset, tools: frozenset[int]) -> dict[str, Choice]:
    return {row.slug: choice_of(row, tools)} if row.enabled else {}


def _hold_edit(row: Any, stored: Any, only: set[str] | None, losses: Callable[[Any], list[str]]) -> None:
    """Hold back each field that alone evades a policy; all of them where only together they do."""
    wanted = {
        name: getattr(row, name)
        for name in row.BOUND
        if (only is None or name in only or name.removesuffix("_id") in only)
        and recording.differs(type(row), name, getattr(stored, name), getattr(row, name))
    }

    def with_these(values: Mapping[str, Any]) -> Any:
        trial = copy(stored)
        for name, value in values.items():
            setattr(trial, name, value)
        return trial

    alone = {name: losses(with_these({name: value})) for name, value in wanted.items()}
    held = {name: evaded for name, evaded in alone.items() if evaded}
    rest = {name: value for name, value in wanted.items() if name not in held}
    if rest and (evaded := losses(with_these(rest))):
        held |= dict.fromkeys(rest, evaded)
    if "input_schema" in held and "configuration" in wanted:  # it may use arguments of the schema that is held
        held.setdefault("configuration", held["input_schema"])
    for name, evaded in held.items():
        _hold(row, name, getattr(stored, name), evaded)


def _hold(row: Any, name: str, kept: object, evaded: Iterable[str]) -> None:
    row.hold(name, kept, evaded)
