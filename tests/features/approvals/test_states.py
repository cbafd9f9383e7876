"""Rules, approvals and edits by many hands, against a simple model: no call is made without the yes it needs.

The model knows each question as what was asked, who has said yes to which arguments, and whether it is over.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from invocations.call_source import CallSource
from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals import asking
from mcphub.features.approvals.asking import Asked
from mcphub.features.approvals.deciding import Decider, Decision, DecisionRefused, decide
from mcphub.features.approvals.models import McpApproval
from sessions_app.caller import Caller
from sessions_app.history.models import AuditEvent
from tests.factories import McpToolDefinitionFactory
from tools_catalog.catalog.snapshot import Catalog, Tool
from tools_catalog.policy.ask import ANOTHER, CALLER, Ask

pytestmark = [pytest.mark.django_db, pytest.mark.hypothesis]

PEOPLE = ["user:1", "user:2", "user:3"]
CALLERS = ["key:1", "user:1"]
TABLES = ["a", "b"]


@dataclass
class AskedOf:
    """What the model knows of one question."""

    principal: str
    table: str
    version: int
    decider: str
    needed: int
    edited: str = ""
    yes: list[str] = field(default_factory=list)
    is_denied: bool = False
    state: str = "pending"
    made: int = 0

    @property
    def made_with(self) -> str:
        return self.edited or self.table


class Approving(RuleBasedStateMachine):
    """Callers ask, people decide, the rule changes, time passes."""

    tool: Tool

    def __init__(self) -> None:
        super().__init__()
        McpApproval.objects.all().delete()
        self.questions: dict[str, AskedOf] = {}
        self.ask = Ask(rule="r", version=1)
        self._numbers = itertools.count(1)

    # What happens ---------------------------------------------------------------------------------

    @rule(decider=st.sampled_from([CALLER, ANOTHER]), needed=st.sampled_from([1, 2]))
    def the_rule_is_edited(self, decider: str, needed: int) -> None:
        self.ask = Ask(rule="r", version=self.ask.version + 1, decider=decider, needed=needed)

    @rule(principal=st.sampled_from(CALLERS), table=st.sampled_from(TABLES))
    def a_caller_calls(self, principal: str, table: str) -> None:
        row = asking.attach(self._asked(principal, table))
        known = self.questions.get(row.pk)
        if known is None:
            assert row.status == "pending"
            asked = (principal, table, self.ask.version)
            same = [each for each in self.questions.values() if (each.principal, each.table, each.version) == asked]
            assert all(each.state == "expired" for each in same), "asked twice"
            self.questions[row.pk] = AskedOf(*asked, self.ask.decider, self.ask.needed)
            return
        assert (known.principal, known.table, known.version) == (principal, table, self.ask.version)
        assert known.state in ("pending", "approved", "denied")
        if row.status in ("approved", "used"):
            assert known.state == "approved"
            assert len(set(known.yes)) >= known.needed
            assert row.approved_arguments() == {"table": known.made_with}
            asking.use(row.pk, f"call{next(self._numbers)}")
            known.made += 1
        else:
            assert known.state == row.status

    @precondition(lambda self: self.questions)
    @rule(
        data=st.data(),
        who=st.sampled_from(PEOPLE),
        approve=st.booleans(),
        table=st.sampled_from([None, *TABLES, "c"]),
        is_caller=st.booleans(),
    )
    def somebody_decides(self, data: Any, who: str, approve: bool, table: str | None, is_caller: bool) -> None:
        id_ = [*self.questions][data.draw(st.integers(0, len(self.questions) - 1))]
        known = self.questions[id_]
        who = known.principal if is_caller else who
        edited = {"table": table} if approve and table is not None else None
        row = McpApproval.objects.get(pk=id_)
        decision, decider = Decision(approve=approve, arguments=edited), Decider(who, who, is_caller=is_caller)
        if self._refused(known, who, approve, edited):
            with pytest.raises(DecisionRefused):
                decide(row, decision, decider, RecordRedaction())
            return
        decide(row, decision, decider, RecordRedaction())
        self._decided(known, who, approve, edited)

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def time_passes_for(self, data: Any) -> None:
        id_ = [*self.questions][data.draw(st.integers(0, len(self.questions) - 1))]
        McpApproval.objects.filter(pk=id_).update(expires_at=timezone.now() - timedelta(seconds=1))
        asking.sweep()
        self.questions[id_].state = "expired"

    # What holds -----------------------------------------------------------------------------------

    @invariant()
    def every_yes_that_counts_is_one_of_enough_people(self) -> None:
        for row in McpApproval.objects.filter(status__in=["approved", "used"]):
            people = {principal for principal, _name in row.approvers}
            assert len(people) == row.needed == row.given
            if row.decider == ANOTHER:
                assert row.principal not in people

    @invariant()
    def what_waits_is_asked_once(self) -> None:
        bindings = list(McpApproval.objects.filter(status="pending").values_list("principal", "binding"))
        assert len(bindings) == len(set(bindings))

    @invariant()
    def each_decision_is_on_record_once(self) -> None:
        decided = {id_ for id_, each in self.questions.items() if len(each.yes) >= each.needed}
        events = AuditEvent.objects.filter(kind="call.approved", subject_id__in=decided)
        assert events.count() == len(decided)

    # The model ------------------------------------------------------------------------------------

    @staticmethod
    def _refused(known: AskedOf, who: str, approve: bool, edited: dict[str, Any] | None) -> bool:
        if known.state == "expired":
            # What was decided before its time was over stays so: the same decision again does no harm.
            was_yes = len(known.yes) >= known.needed
            if was_yes:
                return not approve or edited is not None
            return not (known.is_denied and not approve)
        if known.state == "approved":
            return not approve or edited is not None
        if known.state == "denied":
            return approve
        if not approve:
            return False
        if known.decider == ANOTHER and who == known.principal:
            return True
        return known.needed > 1 and who in known.yes

    @staticmethod
    def _decided(known: AskedOf, who: str, approve: bool, edited: dict[str, Any] | None) -> None:
        if known.state != "pending":
            return
        if not approve:
            known.state, known.yes, known.is_denied = "denied", [], True
            return
        if edited is not None and edited["table"] != known.made_with:
            known.edited, known.yes = edited["table"], []
        known.yes.append(who)
        if len(known.yes) >= known.needed:
            known.state = "approved"

    def _asked(self, principal: str, table: str) -> Asked:
        arguments: dict[str, Any] = {"table": table}
        caller = Caller(principal=principal, label=principal, scopes=frozenset({"tools:call"}))
        source = CallSource(caller=caller, session_id="", transport="http")
        return Asked(source=source, tool=type(self).tool, ask=self.ask, arguments=arguments, recorded=arguments)


@pytest.fixture
def machine() -> type[Approving]:
    schema = {"type": "object", "properties": {"table": {"type": "string"}}, "required": ["table"]}
    McpToolDefinitionFactory(name="drop", input_schema=schema)
    Approving.tool = Catalog.load().tools["drop"]
    return Approving


def test_no_call_is_made_without_the_yes_it_needs(machine: type[Approving]) -> None:
    profile = hypothesis_settings()
    drawn = hypothesis_settings(profile, max_examples=profile.max_examples // 2, stateful_step_count=30)
    run_state_machine_as_test(machine, settings=drawn)
