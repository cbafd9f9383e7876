"""Rules, approvals and edits of definitions by many hands, through `call_tool`: each call does what a plain model says.

The model knows rules as rows of fields and questions as who asked what of which rule. It says of each call whether it
runs and with which arguments, waits, or is refused and by which rule; the audit must say the same.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, Permission, User
from django.db import connections
from django.test import Client
from django.utils import timezone
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from invocations.call_source import ClientChannel
from invocations.calling import CallResult
from invocations.configuration import Configuration
from invocations.exchange import CallRequest
from invocations.models import McpToolInvocation
from mcphub.features.approvals import asking
from mcphub.features.approvals.asking import load_policies
from mcphub.features.approvals.models import McpApproval, McpToolApproval
from mcphub.features.approvals.releasing import Approvals
from mcphub.features.approvals.rules import SUBJECT
from mcphub.features.call_rules.models import McpPolicyRule
from sessions_app.caller import Caller, caller_of, caller_of_key
from sessions_app.history.models import AuditEvent
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import HubError
from tests.factories import McpToolDefinitionFactory, UserFactory
from tests.invocations.calls.call_path import CallPath, source
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.backends import python
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.models import McpToolDefinition

pytestmark = pytest.mark.hypothesis

NUMBERS = [1, 2, 3]
GROUP = "treasury"
RIGHTS = ["invocations.view_mcpapproval", "invocations.decide_mcpapproval", "invocations.read_bodies"]
WORDS = ["Spends money.", "Spends money at once."]
EFFECTS: list[int] = []
"""What the tool was called with, each time that it ran."""

Holds = Callable[[int, str], bool | None]
CONDITIONS: dict[str, Holds] = {
    "": lambda n, who: True,
    "args.n > 1": lambda n, who: n > 1,
    "args.n == 2": lambda n, who: n == 2,
    "args.m > 1": lambda n, who: None,  # it cannot be decided
    'principal.id.startsWith("key:")': lambda n, who: who.startswith("key:"),
}
HIDING = ("", 'principal.id.startsWith("key:")')
"""Conditions that say the same of every call."""


async def spend(n: int) -> str:
    """Spend money."""
    EFFECTS.append(n)
    return f"spent {n}"


REFERENCE = f"{spend.__module__}:{spend.__qualname__}"


class Listening(ClientChannel):
    """A client that hears the words of progress with which a call begins to wait."""

    def __init__(self) -> None:
        self.waits = asyncio.Event()

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        if "Waits for an approval" in str(params.get("message")):
            self.waits.set()

    async def send(self, message: bytes) -> None:
        """A sign of life."""


@dataclass(frozen=True)
class Ruled:
    """What the rules say of one call."""

    effect: str = ""
    rule: str | None = None
    version: int | None = None
    is_hidden: bool = False
    era: int = 0
    """Tells a rule from one of the same name that was deleted."""
    decider: str = "another"
    group: str = ""
    needed: int = 1


@dataclass
class KnownRule:
    fields: dict[str, Any]
    era: int
    version: int = 1

    def of(self, n: int, who: str) -> str:
        """Return what this rule alone would do; empty: nothing."""
        holds = CONDITIONS[self.fields["condition"]](n, who)
        return "deny" if holds is None else self.fields["effect"] if holds else ""


@dataclass
class Question:
    """What the model knows of a call that asked."""

    who: str
    n: int
    is_task: bool
    words: str
    ask: Ruled
    state: str = "pending"
    is_over: bool = False
    edited: int | None = None
    yes: list[str] = field(default_factory=list)
    made: str = ""
    """The invocation."""
    granted: bool = False
    events: list[str] = field(default_factory=lambda: ["call.waits"])

    @property
    def made_with(self) -> int:
        return self.n if self.edited is None else self.edited

    @property
    def asked(self) -> tuple[str, int, bool, str, Ruled]:
        return self.who, self.n, self.is_task, self.words, self.ask


@dataclass(frozen=True)
class Expected:
    """What one call must come to."""

    end: str
    """`ran`, `repeats`, `pending`, or the code of the error."""
    ruled: Ruled
    """What its row says of rules."""
    n: int
    question: str = ""
    """Pending approval or is made under."""
    asks: Question | None = None
    """The question that it asks where none stands."""


@dataclass
class Held:
    """A call that its client still waits for."""

    task: asyncio.Task[CallResult]
    question: str
    ruled: Ruled
    """When it was made."""


class Calling(RuleBasedStateMachine):
    """Callers call, people decide, rules, settings and definitions are edited, time passes."""

    callers: dict[str, Caller]
    people: dict[str, User]
    clients: dict[str, Client]

    def __init__(self) -> None:
        super().__init__()
        EFFECTS.clear()
        for model in (McpApproval, McpPolicyRule, McpToolApproval):
            model.objects.all().delete()
        self.rules: dict[str, KnownRule] = {}
        self._eras = itertools.count(1)
        self.setting = ""
        self.words = WORDS[0]
        self.decides = dict.fromkeys(self.people, True)
        self.in_group = dict.fromkeys(self.people, True)
        for name in self.people:
            self._may_decide(name)
        self._describe()
        self.questions: dict[str, Question] = {}
        self.held: list[Held] = []
        self.ran: list[int] = []
        last = McpToolInvocation.objects.order_by("-pk").values_list("pk", flat=True).first()
        self.last_row = last or 0
        self.runner = asyncio.Runner()
        self.path: CallPath = self.runner.run(self._begun())
        self._reload()

    @staticmethod
    async def _begun() -> CallPath:
        return await CallPath().__aenter__()

    def teardown(self) -> None:
        try:
            self.runner.run(self._drained())
            self._each_question_is_on_record()
        finally:
            self.runner.run(self._ended())
            self.runner.close()

    async def _drained(self) -> None:
        """A process that ends makes none of the calls that it holds."""
        self.path.calls.stages.one(Approvals).drain()
        await asyncio.gather(*(held.task for held in self.held), return_exceptions=True)

    async def _ended(self) -> None:
        await self.path.__aexit__()
        await sync_to_async(connections.close_all)()

    @initialize(
        condition=st.sampled_from(["", "args.n > 1", 'principal.id.startsWith("key:")']),
        ask_decider=st.sampled_from(["another", "caller"]),
        ask_group=st.sampled_from(["", GROUP]),
        ask_needed=st.sampled_from([1, 1, 2]),
    )
    def a_rule_asks(self, **fields: Any) -> None:
        """Without one nothing waits, and few draws would come to what this is about."""
        self._write("a", {"effect": "ask", "priority": 0, "enabled": True, "watching": False, **fields})

    # Rules, settings, definitions ------------------------------------------------------------------

    @rule(
        name=st.sampled_from("ab"),
        effect=st.sampled_from(["deny", "ask", "ask", "allow"]),
        condition=st.sampled_from([*CONDITIONS, "args.n > 1"]),
        priority=st.integers(0, 1),
        enabled=st.sampled_from([True, True, False]),
        watching=st.sampled_from([False, False, False, True]),
        ask_decider=st.sampled_from(["another", "caller"]),
        ask_group=st.sampled_from(["", "", GROUP]),
        ask_needed=st.sampled_from([1, 1, 2]),
    )
    def a_rule_is_written(self, name: str, **fields: Any) -> None:
        self._write(name, fields)

    def _write(self, name: str, fields: dict[str, Any]) -> None:
        known = self.rules.get(name)
        row = McpPolicyRule.objects.get(name=name) if known else McpPolicyRule(name=name)
        for key, value in fields.items():
            setattr(row, key, value)
        row.full_clean()
        row.save()
        self.rules[name] = (
            KnownRule(fields, known.era, known.version + 1) if known else KnownRule(fields, next(self._eras))
        )
        self._reload()

    @precondition(lambda self: self.rules)
    @rule(data=st.data())
    def a_rule_is_switched(self, data: Any) -> None:
        self._switch(data.draw(st.sampled_from(sorted(self.rules))))

    def _switch(self, name: str) -> None:
        known = self.rules[name]
        row = McpPolicyRule.objects.get(name=name)
        row.enabled = known.fields["enabled"] = not known.fields["enabled"]
        row.save()
        known.version += 1
        self._reload()

    @precondition(lambda self: self.rules)
    @rule(data=st.data())
    def a_rule_is_saved_again(self, data: Any) -> None:
        """The next version is another rule, whatever it says."""
        name = data.draw(st.sampled_from(sorted(self.rules)))
        self._write(name, self.rules[name].fields)

    @precondition(lambda self: self.rules)
    @rule(data=st.data())
    def a_rule_is_deleted(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(self.rules)))
        McpPolicyRule.objects.get(name=name).delete()
        del self.rules[name]
        self._reload()

    @rule()
    def the_tool_s_own_setting_is_edited(self) -> None:
        self.setting = "" if self.setting else "always"
        McpToolApproval.objects.all().delete()
        if self.setting:
            McpToolApproval.objects.create(tool=McpToolDefinition.objects.get(), policy=self.setting)
        self._reload()

    @rule()
    def the_definition_is_edited(self) -> None:
        """To other words, or back: what was said of a definition counts when it is there again."""
        self.words = WORDS[1 - WORDS.index(self.words)]
        self._describe()
        self._reload()

    def _describe(self) -> None:
        row = McpToolDefinition.objects.get()
        row.description = self.words
        row.save()

    def _reload(self) -> None:
        before = self.path.configuration.catalog
        self.path.configuration = Configuration(catalog=Catalog.load(before), additions={SUBJECT: load_policies()})

    # Calls -----------------------------------------------------------------------------------------

    @rule(who=st.sampled_from(["key", "ann"]), n=st.sampled_from(NUMBERS))
    def somebody_calls(self, who: str, n: int) -> None:
        """A caller who is not held: what waits is answered as pending."""
        caller = self.callers[who]
        expected = self._expected(caller.principal, n)
        self._judge(expected, self.runner.run(self._outcome(self.path.call("spend", {"n": n}, caller=caller))))

    @rule(who=st.sampled_from(["key", "ann"]), n=st.sampled_from(NUMBERS), is_task=st.booleans())
    def somebody_calls_and_waits(self, who: str, n: int, is_task: bool) -> None:
        self._call_and_wait(who, n, is_task)

    @rule(
        who=st.sampled_from(["key", "ann"]),
        n=st.sampled_from(NUMBERS),
        is_task=st.booleans(),
        change=st.sampled_from(["", "definition", "setting", "rule"]),
        edits=st.sampled_from([None, 0, 1, 2]),
        grant=st.sampled_from(["", "hour"]),
    )
    def somebody_waits_while_things_change(
        self, who: str, n: int, is_task: bool, change: str, edits: int | None, grant: str
    ) -> None:
        """What single draws seldom come to. `edits`: which of three people edits the arguments."""
        id_ = self._call_and_wait(who, n, is_task)
        if change == "definition":
            self.the_definition_is_edited()
        elif change == "setting":
            self.the_tool_s_own_setting_is_edited()
        elif change == "rule" and "a" in self.rules:
            self._write("a", self.rules["a"].fields)
        for place, name in enumerate(["eve", "bob", "ann"] if id_ else []):
            self._approve(id_, name, n % 3 + 1 if place == edits else None, grant)

    def _call_and_wait(self, who: str, n: int, is_task: bool) -> str:
        """Return the question that the call waits for; empty where it has ended."""
        caller = self.callers[who]
        expected = self._expected(caller.principal, n, is_task=is_task)
        task, waits = self.runner.run(self._begin(caller, n, is_task))
        if not waits:
            self._judge(expected, self.runner.run(self._outcome(task)))
            return ""
        assert expected.end == "pending", expected
        self.held.append(Held(task, self._is_asked(expected), expected.ruled))
        return self.held[-1].question

    async def _begin(self, caller: Caller, n: int, is_task: bool) -> tuple[asyncio.Task[CallResult], bool]:
        """Start a call; say whether it waits, or has ended."""
        channel = Listening()
        request = CallRequest(name="spend", arguments={"n": n}, runner=self._run if is_task else None)
        exchange = self.path.exchange(source(None, caller), channel=channel, progress_token=1)
        task = asyncio.create_task(self.path.calls.call_tool(request, exchange))
        waits = asyncio.create_task(channel.waits.wait())
        await asyncio.wait({task, waits}, return_when=asyncio.FIRST_COMPLETED)
        is_waiting = not task.done()
        waits.cancel()
        return task, is_waiting

    @staticmethod
    async def _run(call: Any, arguments: dict[str, Any], context: Any) -> Any:
        """As a call runs that its client follows as a task."""
        return await call.tool.backend.call(arguments, context)

    @staticmethod
    async def _outcome(call: Any) -> tuple[str, str, CallResult | None]:
        """Return the code of what a call came to, its invocation and its result."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                result: CallResult = await call
        except HubError as error:
            return error.code, str(error.invocation_id), None
        return result.code, result.invocation_id, result

    # Decisions -------------------------------------------------------------------------------------

    @precondition(lambda self: self.questions)
    @rule(
        data=st.data(),
        name=st.sampled_from(["ann", "bob", "eve"]),
        edited=st.sampled_from([None, None, *NUMBERS]),
        grant=st.sampled_from(["", "", "hour"]),
    )
    def somebody_approves(self, data: Any, name: str, edited: int | None, grant: str) -> None:
        self._approve(self._drawn(data), name, edited, grant)

    def _approve(self, id_: str, name: str, edited: int | None, grant: str) -> None:
        body = {**({"arguments": {"n": edited}} if edited is not None else {}), **({"grant": grant} if grant else {})}
        expected = self._status_of_yes(self.questions[id_], name, edited, grant)
        self._decide(id_, name, "approve", body, expected)

    @precondition(lambda self: self.questions)
    @rule(data=st.data(), name=st.sampled_from(["ann", "bob", "eve"]))
    def somebody_denies(self, data: Any, name: str) -> None:
        id_ = self._drawn(data)
        known = self.questions[id_]
        expected = 200
        if not self.decides[name]:
            expected = 403
        elif known.state == "pending":
            known.state = "denied"
            known.events.append("call.denied")
        elif known.state != "denied":
            expected = 409
        self._decide(id_, name, "deny", {}, expected)

    def _decide(self, id_: str, name: str, deed: str, body: dict[str, Any], expected: int) -> None:
        url = f"/api/approvals/{id_}/{deed}/"
        answer = self.clients[name].post(url, body, content_type="application/json")
        assert answer.status_code == expected, answer.content
        self._hear(id_)

    @rule(name=st.sampled_from(["bob", "eve"]), what=st.sampled_from(["right", "group"]))
    def a_person_gets_or_loses_a_right(self, name: str, what: str) -> None:
        of = self.decides if what == "right" else self.in_group
        of[name] = not of[name]
        self._may_decide(name)

    def _may_decide(self, name: str) -> None:
        right = Permission.objects.get(codename="decide_mcpapproval")
        person = self.people[name]
        (person.user_permissions.add if self.decides[name] else person.user_permissions.remove)(right)
        (person.groups.add if self.in_group[name] else person.groups.remove)(Group.objects.get(name=GROUP))

    # Time ------------------------------------------------------------------------------------------

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def the_time_of_a_question_is_over(self, data: Any) -> None:
        self._end_time(self._drawn(data))

    def _end_time(self, id_: str) -> None:
        known = self.questions[id_]
        McpApproval.objects.filter(pk=id_).update(expires_at=timezone.now() - timedelta(seconds=1))
        asking.sweep()
        known.is_over = True
        if known.state == "pending":
            known.state = "expired"
            known.events.append("call.expired")
        self._hear(id_)

    @precondition(lambda self: any(each.granted for each in self.questions.values()))
    @rule(data=st.data())
    def a_grant_ends(self, data: Any) -> None:
        id_ = data.draw(st.sampled_from([id_ for id_, each in self.questions.items() if each.granted]))
        McpApproval.objects.filter(pk=id_).update(granted_until=timezone.now() - timedelta(seconds=1))
        self.questions[id_].granted = False

    # What holds ------------------------------------------------------------------------------------

    @invariant()
    def what_ran_is_what_the_model_says(self) -> None:
        assert self.ran == EFFECTS

    @invariant()
    def questions_stand_as_the_model_says(self) -> None:
        rows = dict(McpApproval.objects.values_list("pk", "status"))
        assert rows == {id_: each.state for id_, each in self.questions.items()}

    def _each_question_is_on_record(self) -> None:
        found: dict[str, list[str]] = {id_: [] for id_ in self.questions}
        for kind, id_ in (
            AuditEvent.objects.filter(subject_id__in=found).order_by("pk").values_list("kind", "subject_id")
        ):
            found[id_].append(kind)
        assert found == {id_: each.events for id_, each in self.questions.items()}

    # The model: rules ------------------------------------------------------------------------------

    def _ruled(self, n: int, who: str) -> Ruled:
        ordered = sorted(self.rules.items(), key=lambda each: (-each[1].fields["priority"], each[0]))
        on = [(name, each) for name, each in ordered if each.fields["enabled"] and not each.fields["watching"]]
        hiding = [(name, each) for name, each in on if each.fields["condition"] in HIDING]
        further = any(each.fields["effect"] == "allow" for name, each in on if (name, each) not in hiding)
        for is_hidden, rules in ((True, hiding), (False, on)):
            said = [(name, each, each.of(n, who)) for name, each in rules]
            may = [name for name, _each, effect in said if effect == "allow"] or (is_hidden and further)
            denying = [(name, each) for name, each, effect in said if effect == "deny"]
            unmet = [(name, each) for name, each, effect in said if each.fields["effect"] == "allow" and not effect]
            for name, each in (*denying, *([] if may else unmet)):
                return Ruled("deny", name, each.version, is_hidden)
        for wanted in ("ask", "allow"):
            for name, each, effect in said:
                if effect == wanted == "ask":
                    fields = each.fields
                    ask = fields["ask_decider"], fields["ask_group"], fields["ask_needed"]
                    return Ruled("ask", name, each.version, False, each.era, *ask)
                if effect == wanted:
                    return Ruled("allow", name, each.version)
        return Ruled()

    # The model: calls ------------------------------------------------------------------------------

    def _expected(self, who: str, n: int, *, is_task: bool = False) -> Expected:
        ruled = self._ruled(n, who)
        if (refusal := self._refusal(ruled, n)) is not None:
            return refusal
        ask = self._ask(ruled)
        if ask is None:
            return Expected("ran", ruled, n)
        standing = self._standing(who, n, is_task, ask)
        known = self.questions[standing] if standing else None
        if known is None or known.state not in ("approved", "denied"):
            if self._is_granted(who, ask):
                return Expected("ran", ruled, n)
            if known is None or known.state == "pending":
                return Expected("pending", ruled, n, standing, Question(who, n, is_task, self.words, ask))
        return self._released(standing, ruled)

    @staticmethod
    def _refusal(ruled: Ruled, n: int) -> Expected | None:
        if ruled.effect != "deny":
            return None
        return Expected("tool_not_found" if ruled.is_hidden else "policy_denied", ruled, n)

    def _ask(self, ruled: Ruled) -> Ruled | None:
        """Return who must say yes, by the rule and by the tool's own setting."""
        if ruled.effect != "ask":
            return Ruled("ask") if self.setting else None
        return replace(ruled, decider="another") if self.setting else ruled

    def _standing(self, who: str, n: int, is_task: bool, ask: Ruled) -> str:
        """Return the question of this very call that stands; empty where there is none."""
        asked = (who, n, is_task, self.words, ask)
        found = [id_ for id_, each in self.questions.items() if each.asked == asked and not each.is_over]
        assert len(found) <= 1
        return found[0] if found else ""

    def _is_granted(self, who: str, ask: Ruled) -> bool:
        """A yes for a time is one of the same rule, for the same tool, by somebody who may decide now."""
        return any(
            each.granted and (each.who, each.words) == (who, self.words) and _covers(each.ask, ask)
            for each in self.questions.values()
        )

    def _released(self, id_: str, ruled: Ruled) -> Expected:
        """Return what a call comes to whose question is decided. `ruled`: what the rules said when it was made."""
        known = self.questions[id_]
        if known.state == "expired":  # it is not made, so it matters not what holds by now
            return Expected("execution_error" if known.is_task else "pending", ruled, known.n, id_)
        is_refused = Expected("execution_error", ruled, known.n, id_)
        if known.state == "denied":
            return is_refused
        now = self._ruled(known.made_with, known.who)
        if (refusal := self._refusal(now, known.n)) is not None:
            return refusal
        ask = self._ask(now)
        if known.words != self.words or (ask is not None and not _is_enough(known.ask, ask)):
            return is_refused
        if known.is_task and known.made:
            return is_refused
        return Expected("repeats" if known.made else "ran", now, known.made_with, id_)

    def _judge(self, expected: Expected, outcome: tuple[str, str, CallResult | None]) -> None:
        """Hold what a call came to, and its row, against the model; take note of it."""
        code, invocation_id, result = outcome
        row = McpToolInvocation.objects.get(pk__gt=self.last_row, invocation_id=invocation_id)
        said = (code or "ok", row.error_code or "ok", row.arguments)
        is_answered = expected.end in ("ran", "repeats", "pending")
        wanted = "ok" if is_answered else expected.end
        assert said == (wanted, wanted, {"n": expected.n}), (expected, said, result and result.wire)
        ruled = expected.ruled
        assert (row.policy_rule, row.policy_version) == (ruled.rule, ruled.version), (expected, row.policy_said)
        assert (row.policy_said or "").partition(":")[0] == ruled.effect
        if not is_answered:
            return
        assert result is not None
        told = result.wire.get("_meta", {}).get("mcphub/approval", {})
        if expected.end == "pending":
            assert told.get("status") == "pending", (expected, result.wire)
            assert self._is_asked(expected) == told["approvalId"]
            return
        assert not told, (expected, told)
        known = self.questions.get(expected.question)
        if expected.end == "repeats":
            assert known is not None
            assert result.duplicate_of == row.duplicate_of == known.made
            return
        assert not result.duplicate_of
        self.ran.append(expected.n)
        if known is not None:
            known.made, known.state = invocation_id, "used"

    def _is_asked(self, expected: Expected) -> str:
        """Return the question that a call waits for, and take note of a new one."""
        if expected.question:
            return expected.question
        assert expected.asks is not None
        (id_,) = McpApproval.objects.exclude(pk__in=self.questions).values_list("pk", flat=True)
        self.questions[id_] = expected.asks
        return id_

    # The model: decisions --------------------------------------------------------------------------

    def _drawn(self, data: Any) -> str:
        """Draw a question, sooner one that waits."""
        waiting = [id_ for id_, each in self.questions.items() if each.state == "pending"]
        return str(data.draw(st.sampled_from([*waiting, *waiting, *self.questions])))

    def _status_of_yes(self, known: Question, name: str, edited: int | None, grant: str) -> int:
        """Return the status of what REST answers to a yes, and take note of the yes."""
        if not self.decides[name]:
            return 403
        if known.state != "pending":
            return 200 if known.state in ("approved", "used") and edited is None else 409
        who = f"user:{self.people[name].pk}"
        if known.ask.decider == "another" and who == known.who:
            return 403
        if (known.ask.group and not self.in_group[name]) or (known.ask.needed > 1 and who in known.yes):
            return 403
        if known.words != self.words:
            return 409
        if edited is not None and edited != known.made_with:
            if known.is_task:
                return 409
            known.edited, known.yes = edited, []
        known.yes.append(who)
        if len(known.yes) < known.ask.needed:
            known.events.append("call.approved_once")
        else:
            known.events.append("call.approved")
            known.state, known.granted = "approved", bool(grant)
        return 200

    def _hear(self, id_: str) -> None:
        """The process hears of a decision; calls that it holds go on, of which one alone is made."""
        known = self.questions[id_]
        mine = [held for held in self.held if held.question == id_]
        if known.state == "pending" or not mine:
            return
        self.held = [held for held in self.held if held.question != id_]
        outcomes = self.runner.run(self._heard(id_, mine))
        for held, outcome in sorted(zip(mine, outcomes, strict=True), key=_made_first):
            self._judge(self._released(id_, held.ruled), outcome)

    async def _heard(self, id_: str, mine: list[Held]) -> list[tuple[str, str, CallResult | None]]:
        self.path.calls.stages.one(Approvals).heard(id_)
        return await asyncio.gather(*(self._outcome(held.task) for held in mine))


def _covers(given: Ruled, ask: Ruled) -> bool:
    """Return whether who could give the one yes may give the other, asked by the same rule."""
    by = (given.rule, given.version, given.era)
    return by == (ask.rule, ask.version, ask.era) and (given.decider == "another" or ask.decider == "caller")


def _is_enough(given: Ruled, ask: Ruled) -> bool:
    """Return whether a yes counts for a call as it is asked about by now. A rule that is gone asks no more."""
    return given.decider == "another" if ask.rule is None else _covers(given, ask)


def _made_first(each: tuple[Held, tuple[str, str, CallResult | None]]) -> bool:
    code, _invocation_id, result = each[1]
    return bool(code) or result is None or bool(result.duplicate_of)


@pytest.fixture
def machine(transactional_db: None) -> Iterator[type[Calling]]:
    python.tool(spend)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}}, "required": ["n"]}
    configuration = {"function": REFERENCE}
    McpToolDefinitionFactory(name="spend", input_schema=schema, backend="python", configuration=configuration)
    group = Group.objects.create(name=GROUP)  # of the roles' table, which is not emptied
    Calling.people, Calling.clients = {}, {}
    for name in ("ann", "bob", "eve"):
        person = Calling.people[name] = UserFactory(username=name)
        for right in RIGHTS:
            app, codename = right.split(".")
            person.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
        Calling.clients[name] = Client()
        Calling.clients[name].force_login(person)
    key = ApiKey.issue("robot", scopes=["tools:list", "tools:call"], created_by=UserFactory())[0]
    Calling.callers = {"key": caller_of_key(key), "ann": caller_of(Calling.people["ann"])}
    yield Calling
    group.delete()
    del python.registry[REFERENCE]


def test_each_call_does_what_rules_and_people_say(machine: type[Calling]) -> None:
    """A quarter of the profile's examples, for each step commits: `--hypothesis-profile long` draws more."""
    profile = hypothesis_settings()
    drawn = hypothesis_settings(profile, max_examples=max(5, profile.max_examples // 4), stateful_step_count=30)
    run_state_machine_as_test(machine, settings=drawn)


def test_an_expired_question_ends_its_task_alike_where_a_rule_hides_the_tool_by_then(machine: type[Calling]) -> None:
    """Steps that Hypothesis drew. Rules decide about calls that are made, and this one is not."""
    calling = machine()
    asks: dict[str, Any] = {"effect": "ask", "priority": 0, "enabled": True, "watching": False}
    asks |= {"ask_decider": "another", "ask_group": "", "ask_needed": 2}
    hides = {**asks, "effect": "deny", "priority": 1, "condition": ""}
    try:
        calling._write("b", {**asks, "condition": "args.n == 2"})
        calling._write("a", {**asks, "condition": ""})
        question = calling._call_and_wait("ann", 2, is_task=True)
        calling._write("b", hides)
        calling.somebody_calls("key", 3)
        calling._write("b", hides)
        calling._switch("a")
        calling._end_time(question)
        assert not calling.held
        calling.what_ran_is_what_the_model_says()
        calling.questions_stand_as_the_model_says()
    finally:
        calling.teardown()
