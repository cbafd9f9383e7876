"""The stages of a call: a feature's code between a valid call and the backend, and after the backend.

The core knows the places by name and their order, and no stage. A feature declares a stage for a place. The chain of a
tool is made once for each snapshot of the configuration, of the stages that concern the tool alone; a tool that none
concerns has an empty one and pays for none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from invocations.subject import RowSubject
from sessions_app.protocol import json
from sessions_app.protocol.errors import ApprovalDenied
from tools_catalog.catalog.listing import without_output_schema

if TYPE_CHECKING:
    from invocations.call.call import Call
    from invocations.call_source import CallSource
    from invocations.calling import Calls
    from invocations.configuration import Configuration
    from invocations.ledger.parts import LedgerPart
    from invocations.ledger.rows import Recorded
    from sessions_app.caller import Caller
    from sessions_app.protocol.errors import HubError
    from sessions_app.protocol.json import Json
    from tools_catalog.call.input_requests import InputRequest
    from tools_catalog.catalog.snapshot import Tool
    from tools_catalog.policy.ask import Ask


StageT = TypeVar("StageT")


class Place(IntEnum):
    """Where a stage stands, in the order in which a call passes. The order is security; each place has its reason.

    Before the first: the tool is visible, there is room, the arguments fit, and no limit of calls a minute is reached.
    Between `APPROVAL_IN_TASK` and `ON_RESULT`: the intent is committed, and the backend runs.
    """

    RULES = 1
    """First: nobody counts, waits for or looks at a call that a rule denies, and rules see it as it was sent."""
    DEMAND = 2
    """After the rules: the tool's own setting adds to a rule's request and never takes away."""
    QUOTAS = 3
    """Before an approval request: nobody approves a call that would be refused afterwards."""
    APPROVAL = 4
    """Before all that changes arguments: a yes is bound to the arguments that the caller sent or the approver wrote."""
    ON_ARGUMENTS = 5
    """After the approval: an approver's arguments are inspected like a caller's. Before the intent: masked values are
    in no record, and the tool gets the inspected arguments.
    """
    APPROVAL_IN_TASK = 6
    """Last: a task waits for its yes while its client follows it, so the wait becomes a part of the backend's run."""
    ON_RESULT = 7
    """Before the result is validated, recorded or sent: masked or withheld values leave no trace."""


@dataclass(frozen=True, slots=True)
class Proceed:
    """Go on with this call: the same one, or another that was made of it."""

    call: Call


@dataclass(frozen=True, slots=True)
class Refuse:
    """Do not make the call. It is recorded as refused, and answered with the error."""

    error: HubError
    may_repeat: bool = True
    """A call that repeats one that was made is answered as that was: a repeat comes before a refusal."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Do not make the call now. It is recorded, and answered with a result."""

    wire: dict[str, Json]
    recorded: dict[str, Json]


@dataclass(frozen=True, slots=True)
class CallStage:
    """Declares a stage of a feature: `module:attribute` of its factory, once a process, from the `Calls`.

    A stage that is a `CommitPart` too takes part in the commits.
    """

    stage: str


StageAnswer: TypeAlias = Proceed | Refuse | Answer


@dataclass(frozen=True, slots=True)
class Outlook:
    """The fate of a tool's calls, as far as it is fixed before one is made."""

    refusal: HubError | None = None
    """Each call gets it, whatever its arguments."""
    ask: Ask | None = None
    """The approval that each call needs."""
    depends: bool = False
    """Arguments may change it."""


class Stage(Protocol):
    """Decides about calls before they are made. One a process."""

    place: Place
    results: ResultStage | None = None
    """Inspects the ends of the same calls, where the stage does so."""

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        """Return whether calls of the tool pass this stage. `before`: the stages that they pass earlier."""
        ...

    async def decide(self, call: Call) -> StageAnswer:
        """Return the decision about the call. A HubError that is raised refuses it."""
        ...

    async def outlooks(
        self, tools: Sequence[Tool], source: CallSource, configuration: Configuration
    ) -> Mapping[Tool, Outlook]:
        """Return the outlook now of calls from this source, for all tools at once, as far as no arguments are needed.

        Tools with calls that the stage does not change are left out. Raises AuditUnavailable.
        """
        return {}

    async def answer(self, record: Recorded, request: InputRequest, value: dict[str, Json]) -> dict[str, Json]:
        """Return the client's answer to an input request of a call or read as it goes on. Raises the refusal."""
        return value

    def stop(self) -> None:
        """Release resources. The process ends."""
        return


class ApprovalStage(Stage, Protocol):
    """Has calls wait for a yes, at `Place.APPROVAL`. There is one a process."""

    async def outlooks_of_asked(self, asks: Mapping[Tool, Ask], source: CallSource) -> Mapping[Tool, Outlook]:
        """Return the outlooks of tools with calls that ask, as far as none was approved for a time.

        Raises AuditUnavailable.
        """
        ...


class NobodyApproves(ApprovalStage):
    """Refuses calls that ask, in a process where no feature lets people approve."""

    place = Place.APPROVAL

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        return any(stage.place is Place.RULES for stage in before)

    async def decide(self, call: Call) -> StageAnswer:
        return Proceed(call) if call.ask is None else Refuse(_nobody())

    async def outlooks_of_asked(self, asks: Mapping[Tool, Ask], source: CallSource) -> Mapping[Tool, Outlook]:
        return dict.fromkeys(asks, Outlook(_nobody()))


def _nobody() -> HubError:
    return ApprovalDenied(
        "A rule wants this call approved, and this hub runs without approvals, so the tool was not called. The "
        "operator switches the feature approvals on in MCPHUB_FEATURES, or changes the rule."
    )


class ResultStage(Protocol):
    """Inspects the ends of calls and reads. One a process."""

    def concerns(self, subject: Tool | RowSubject, configuration: Configuration) -> bool: ...

    async def result(
        self, record: Recorded, value: dict[str, Json], text: str, subject: Tool | RowSubject | None = None
    ) -> tuple[dict[str, Json], str]:
        """Return the result as it goes on, and its canonical JSON, which `text` is of `value`.

        Raises HubError for one that is withheld. `subject`: whose result it is, where that is not the record's.
        """
        ...

    def unfit(self) -> HubError:
        """Return the error for a result that breaks the tool's output schema since this stage changed it."""
        ...

    async def failure(
        self, record: Recorded, failure: HubError, rendered: dict[str, Json]
    ) -> tuple[HubError, dict[str, Json]]:
        """Return a failure as it goes on, and as it is rendered."""
        ...

    async def before(self, record: Recorded, method: str, value: dict[str, Json]) -> dict[str, Json]:
        """Return a message to the client of a running call or read, such as its progress, as it goes on. Raises as
        `result`.
        """
        ...

    async def sent(self, value: Json, subject: RowSubject, configuration: Configuration) -> Json:
        """Return a message of an upstream, outside calls and reads, as it goes on. Raises as `result`."""
        ...


@dataclass(frozen=True, slots=True)
class CallShaper:
    """Declares a result shaper of a feature: `module:attribute` of its factory, once a process, from the `Calls`."""

    shaper: str


class ResultShaper(Protocol):
    """Changes results that were checked, for clients. The last before the record, which holds the changed ones."""

    def concerns(self, tool: Tool, configuration: Configuration) -> bool: ...

    def bounded_keys(self, configuration: Configuration) -> Collection[int]:
        """Return the numbers of the keys with which results of any tool may be cut."""
        ...

    async def shaped(self, call: Call, wire: dict[str, Json], text: str) -> tuple[dict[str, Json], str]:
        """Return the result as it goes on, and its canonical JSON, which `text` is of `wire`. Raises nothing."""
        ...


class CommitPart:
    """A feature's addition to the commits of a call: the rest of a `LedgerPart`, as the call path sees it."""

    ledger: LedgerPart | None = None

    def concerns(self, tool: Tool, configuration: Configuration, stages: tuple[Stage, ...]) -> bool:
        """Return whether calls of the tool may have to do with it. `stages`: those that they pass."""
        raise NotImplementedError

    def of_intent(self, call: Call) -> Any:
        """Return the intent's addition to the commit; None for nothing."""
        return None

    def of_outcome(self, brought: Any, result: str | None) -> Any:
        """Return the outcome's addition, given the intent's; None for nothing. `result`: canonical JSON."""
        return None

    def refusal(self, reason: Any) -> HubError:
        """Return the error of a call with a refused intent."""
        raise NotImplementedError

    def told(self, said: Mapping[LedgerPart, Any]) -> Mapping[str, Json]:
        """Return the members of `_meta` for the caller. `said`: the commit's statement."""
        return {}

    async def intended(self, call: Call) -> None:
        """Follow the commit of the intent, before the backend runs."""

    async def ended(self, call: Call, wire: Mapping[str, Json] | None) -> None:
        """Follow the commit of the outcome. `wire`: the result, where there is one."""


@dataclass(frozen=True, slots=True)
class Chain:
    """The stages of one tool's calls, in the order of the places."""

    stages: tuple[Stage, ...] = ()
    result_stages: tuple[ResultStage, ...] = ()
    parts: tuple[CommitPart, ...] = ()
    shapers: tuple[ResultShaper, ...] = ()

    def after(self, place: Place) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.place > place)


EMPTY = Chain()


class Stages:
    """All stages that features have declared. One a process."""

    def __init__(
        self, stages: Iterable[Stage] = (), parts: Iterable[CommitPart] = (), shapers: Iterable[ResultShaper] = ()
    ) -> None:
        given = list(stages)
        if not any(stage.place is Place.APPROVAL for stage in given):
            given.append(NobodyApproves())
        self._stages = sorted(given, key=lambda stage: stage.place)
        self._result_stages = tuple(stage.results for stage in self._stages if stage.results is not None)
        self._parts = tuple(parts)
        self._shapers = tuple(shapers)
        self.calls: Calls | None = None
        """The call path of this process, for tools that call others."""
        self._configuration: Configuration | None = None
        self._chains: dict[Tool, Chain] = {}
        """Of the tools of that configuration's catalogue."""

    def of(self, tool: Tool, configuration: Configuration) -> Chain:
        """Return the chain of a tool. Those of a catalogue's tools are kept as long as the configuration is."""
        if configuration is not self._configuration:
            self._configuration, self._chains = configuration, {}
        chain = self._chains.get(tool)
        if chain is None:
            chain = self._made(tool, configuration)
            if configuration.catalog.tools.get(tool.name) is tool:
                self._chains[tool] = chain
        return chain

    def bounded_keys(self, configuration: Configuration) -> Collection[int]:
        """Return the numbers of the keys with which results of any tool may be cut."""
        return {key for shaper in self._shapers for key in shaper.bounded_keys(configuration)}

    def shown(self, tool: Tool, caller: Caller, configuration: Configuration) -> dict[str, Any]:
        """Return the definition of a tool for a caller's client, in lists and elsewhere."""
        if any(caller.key_id in shaper.bounded_keys(configuration) for shaper in self._shapers):
            return without_output_schema(tool.definition)
        return tool.definition

    def one(self, kind: type[StageT]) -> StageT:
        """Return the stage of a class, which is declared."""
        return next(stage for stage in self._stages if isinstance(stage, kind))

    async def outlooks(
        self, tools: Sequence[Tool], source: CallSource, configuration: Configuration
    ) -> Mapping[Tool, Outlook]:
        """Return the outlooks of all stages as one for each tool; of several refusals the first."""
        made = dict.fromkeys(tools, Outlook())
        for stage in self._stages:
            for tool, found in (await stage.outlooks(tools, source, configuration)).items():
                known = made[tool]
                ask = found.ask if known.ask is None else known.ask.beside(found.ask)
                made[tool] = Outlook(known.refusal or found.refusal, ask, known.depends or found.depends)
        return made

    @property
    def approving(self) -> ApprovalStage:
        return cast("ApprovalStage", next(stage for stage in self._stages if stage.place is Place.APPROVAL))

    def stop(self) -> None:
        for stage in self._stages:
            stage.stop()

    async def result_again(self, tool: Tool, record: Recorded, wire: dict[str, Json]) -> dict[str, Json]:
        """Return a kept result of a tool as its stages let it go on now: they may be stricter than they were.

        `record` is that of the read. Raises the refusal.
        """
        chosen = self.of(tool, record.configuration).result_stages
        text = json.canonical(wire) if chosen else ""
        for stage in chosen:
            wire, text = await stage.result(record, wire, text, tool)
        return wire

    def of_read(self, subject: RowSubject, configuration: Configuration) -> tuple[ResultStage, ...]:
        return tuple(stage for stage in self._result_stages if stage.concerns(subject, configuration))

    def of_record(self, record: Recorded) -> tuple[ResultStage, ...]:
        """Return the stages for the result of a call or read under way, and for its messages to the client before."""
        if isinstance(record.tool, RowSubject):
            return self.of_read(record.tool, record.configuration)
        return self.of(record.tool, record.configuration).result_stages

    async def answer(self, record: Recorded, request: InputRequest, value: dict[str, Json]) -> dict[str, Json]:
        """Return the client's answer to an input request as all stages let it go on. Raises the refusal."""
        for stage in self._stages:
            value = await stage.answer(record, request, value)
        return value

    async def sent(self, value: Json, subject: RowSubject, configuration: Configuration) -> Json:
        """Return a message of an upstream, such as an event, as all stages let it go on. Raises the refusal."""
        for stage in self.of_read(subject, configuration):
            value = await stage.sent(value, subject, configuration)
        return value

    def _made(self, tool: Tool, configuration: Configuration) -> Chain:
        chosen: tuple[Stage, ...] = ()
        for stage in self._stages:
            if stage.concerns(tool, configuration, chosen):
                chosen = (*chosen, stage)
        results = tuple(stage for stage in self._result_stages if stage.concerns(tool, configuration))
        parts = tuple(part for part in self._parts if part.concerns(tool, configuration, chosen))
        shapers = tuple(shaper for shaper in self._shapers if shaper.concerns(tool, configuration))
        return Chain(chosen, results, parts, shapers) if chosen or results or parts or shapers else EMPTY
