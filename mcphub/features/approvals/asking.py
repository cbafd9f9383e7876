"""Reasons to ask for approval, and the rows of requests: created once, joined by retries, expired in time."""

from __future__ import annotations

import datetime
import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_noop

from invocations.call_source import CallSource, recorded_in
from invocations.configuration import Configuration
from invocations.redaction import records
from mcphub.features.approvals.models import McpApproval, McpToolApproval
from mcphub.features.approvals.rules import SUBJECT
from sessions_app import bus
from sessions_app.history import events
from sessions_app.protocol import json
from sessions_app.protocol.errors import DuplicateRequest, ServerBusy
from sessions_app.protocol.json import Json
from tools_catalog import secrets
from tools_catalog.catalog.snapshot import Catalog, Tool
from tools_catalog.policy.ask import ANOTHER, CALLER, Ask

NEVER, DESTRUCTIVE, ALWAYS = "never", "destructive", "always"
CHANGED = "approval_changed"
"""A subject of the bus. Payload: the id of an approval that was asked for, decided or has expired."""
USABLE = datetime.timedelta(minutes=10)
"""From the decision on: for the call to be made, and for a retry to get its outcome."""
MOST_WAITING = 10_000
MOST_OF_CALLER = 100
"""Calls that wait for a decision."""
KEPT = datetime.timedelta(days=30)
"""After their end, for the difference to the last approved call. The decisions themselves are events of the audit."""
_SLICE = 500
EFFECTS = {
    "readOnlyHint": gettext_noop("reads only"),
    "destructiveHint": gettext_noop("destroys"),
    "openWorldHint": gettext_noop("reaches outside"),
}
"""By annotation; rows keep the English words, and pages translate them."""

Status = McpApproval.Status


def load_policies(catalog: Catalog | None = None) -> dict[str, str]:
    """Return the approval policy of each tool, by name: they are read again when a tool of the catalogue changes."""
    return dict(McpToolApproval.objects.values_list("tool__name", "policy"))


def policies_of(configuration: Configuration) -> Mapping[str, str]:
    """Return the approval policies of a configuration, by the tool's name."""
    found: Mapping[str, str] = configuration.additions.get(SUBJECT, {})
    return found


def is_demanded(tool: Tool, policies: Mapping[str, str], otherwise: str) -> bool:
    """Return whether the operator wants calls of this tool approved. `otherwise`: the default for tools without a
    row.
    """
    policy = policies.get(tool.name) or otherwise
    if policy == DESTRUCTIVE:
        return tool.definition.get("annotations", {}).get("destructiveHint") is True
    return bool(policy == ALWAYS)


def ask_of_tool(tool: Tool, configuration: Configuration, source: CallSource) -> Ask | None:
    """Return the request of the tool's own setting; None if its calls run at once."""
    policies = policies_of(configuration)
    otherwise = settings.MCPHUB_APPROVAL if source.turn is None else settings.MCPHUB_CHAT_APPROVAL
    if not policies and otherwise == NEVER:
        return None
    is_asked = is_demanded(tool, policies, otherwise)
    return Ask(seconds=settings.MCPHUB_APPROVAL_SECONDS) if is_asked else None


def demanded(by_rule: Ask | None, tool: Tool, configuration: Configuration, source: CallSource) -> Ask | None:
    """Return the approval that a call needs by its rules and the tool's own setting; a rule demands no less than the
    setting.
    """
    own = ask_of_tool(tool, configuration, source)
    return own if by_rule is None else by_rule.beside(own)


def may_demand(tool: Tool, configuration: Configuration) -> bool:
    """Return whether the tool's own setting asks for a yes, of clients or of models."""
    defaults = {settings.MCPHUB_APPROVAL, settings.MCPHUB_CHAT_APPROVAL}
    return any(is_demanded(tool, policies_of(configuration), otherwise) for otherwise in defaults)


def is_enough(given: Ask, asks: Ask | None) -> bool:
    """Return whether a yes counts for a call as it is asked about by now, by a rule and the tool's own setting."""
    if asks is None:
        return True  # what asked is gone
    is_by_rule = bool(asks.rule)
    if is_by_rule and (asks.rule, asks.version, asks.since) != (given.rule, given.version, given.since):
        return False
    return given.decider == ANOTHER or asks.decider == CALLER


def binding(tool: Tool, arguments: Mapping[str, Json], ask: Ask | None = None, *, is_task: bool = False) -> str:
    """Return the fingerprint of one call of one tool as it is, and of the rule that asks.

    Keyed, so that no reader of rows can try guesses.
    """
    by_rule: list[Json] = [ask.rule, ask.version, ask.decider, ask.group, ask.needed] if ask is not None else []
    as_task: list[Json] = ["task"] if is_task else []
    return secrets.fingerprint(json.canonical([tool.name, tool.effect, dict(arguments), *by_rule, *as_task]))


def still_open(rows: QuerySet[McpApproval], now: datetime.datetime) -> QuerySet[McpApproval]:
    """Return those of the calls that somebody can still decide."""
    return rows.filter(is_open(now))


def waiting() -> QuerySet[McpApproval]:
    return still_open(McpApproval.objects.order_by(), timezone.now())


def is_open(now: datetime.datetime) -> Q:
    return Q(status=Status.PENDING, expires_at__gt=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call that wants a yes."""

    source: CallSource
    tool: Tool
    ask: Ask
    arguments: dict[str, Json]
    recorded: Json
    """The arguments as the record holds them."""
    idempotency_key: str | None = None
    is_task: bool = False

    @property
    def binding(self) -> str:
        """Of a task it is another one: a task and a call take their yes in different ways, so they share none."""
        return binding(self.tool, self.arguments, self.ask, is_task=self.is_task)


def granted(asked: Asked) -> str:
    """Return the approval that lets this caller call the tool for a time; empty where none does.

    A decision about this very call comes first: edited arguments, or a denial.
    """
    deciders = {ANOTHER, asked.ask.decider}  # where another person is asked for, the caller's own yes is none
    rows = McpApproval.objects.filter(
        Q(granted_session="") | Q(granted_session=asked.source.session_id),
        principal=asked.source.principal,
        tool_name=asked.tool.name,
        granted_until__gt=timezone.now(),
        tool_digest=asked.tool.effect,
        rule=asked.ask.rule,
        rule_version=asked.ask.version,
        created_at__gte=_since(asked.ask),
        decider__in=deciders,
        status__in=[Status.APPROVED, Status.USED],
    )
    found = rows.order_by("-granted_until").values_list("pk", flat=True).first()
    if found is None:
        return ""
    standing = _standing(asked, timezone.now())
    return "" if standing is not None and standing.status in (Status.APPROVED, Status.DENIED) else found


def _standing(asked: Asked, now: datetime.datetime, *, but: str = "") -> McpApproval | None:
    """Return the unexpired request about this very call, decided or not; `but` is the ID of one that does not count."""
    mine = McpApproval.objects.filter(principal=asked.source.principal, turn_id="", binding=asked.binding)
    row = mine.exclude(pk=but).order_by("-created_at").first()
    if row is None or row.expires_at <= now or row.status == Status.EXPIRED:
        return None
    return row if row.created_at >= _since(asked.ask) else None


def _since(ask: Ask) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ask.since, datetime.UTC)


def attach(asked: Asked) -> McpApproval:
    """Return the question about this call: the one that stands or was just settled, or a new one.

    Raises DuplicateRequest where the caller's idempotency key stands for another call, ServerBusy where too many wait.
    """
    now = timezone.now()
    bound, principal = asked.binding, asked.source.principal
    mine = McpApproval.objects.filter(principal=principal, turn_id="")
    key = _digest(asked.idempotency_key)
    if key and (other := mine.filter(idempotency=key, expires_at__gt=now).exclude(binding=bound).first()) is not None:
        raise DuplicateRequest(first=other.invocation_id or other.pk)
    if (row := _standing(asked, now)) is not None:
        return row
    if key and (made := _made(mine, bound, key, now)) is not None:
        return made
    # Not one that stands: another worker may have asked since `_standing` looked.
    is_former = Q(expires_at__lte=now) | Q(created_at__lt=_since(asked.ask))
    _end_former(mine.filter(is_former, binding=bound, status=Status.PENDING), now)
    _check_room(principal, now)
    try:
        with transaction.atomic():
            made = _create(asked, bound, key, now)
            if (row := _standing(asked, now, but=made.pk)) is None:
                return made
            # Asked by another worker and decided since `_standing` looked: a second question would have no answer.
            transaction.set_rollback(True)
            return row
    except IntegrityError:  # another worker asked in the same moment; somebody may have decided since
        return _standing(asked, timezone.now()) or mine.filter(binding=bound).latest("created_at")


def _end_former(rows: QuerySet[McpApproval], now: datetime.datetime) -> None:
    """End a request that has expired, or whose rule was deleted and created again: it would block the next one."""
    rows.filter(expires_at__gt=now).update(expires_at=now)
    expire(rows)


def _made(mine: QuerySet[McpApproval], bound: str, key: str, now: datetime.datetime) -> McpApproval | None:
    """Return the approval of a call that was made under this idempotency key, as long as the ledger knows of it."""
    since = now - datetime.timedelta(hours=settings.MCPHUB_IDEMPOTENCY_HOURS)
    made = mine.filter(binding=bound, status=Status.USED, idempotency=key, decided_at__gt=since)
    return made.order_by("-created_at").first()


def _check_room(principal: str, now: datetime.datetime) -> None:
    waiting = still_open(McpApproval.objects.order_by(), now)
    words = None
    if waiting.filter(principal=principal)[:MOST_OF_CALLER].count() >= MOST_OF_CALLER:
        words = f"{MOST_OF_CALLER} calls of this caller wait for an approval, which is the most."
    elif waiting[:MOST_WAITING].count() >= MOST_WAITING:
        words = f"{MOST_WAITING} calls wait for an approval, which is the most."
    if words is not None:
        busy = ServerBusy(f"{words} Try again when some are decided.")
        busy.retry_after_seconds = 60
        raise busy


def _create(asked: Asked, bound: str, key: str, now: datetime.datetime) -> McpApproval:
    source, tool, ask = asked.source, asked.tool, asked.ask
    id_ = f"appr_{uuid.uuid4().hex}"
    row = McpApproval.objects.create(
        id=id_,
        principal=source.principal,
        credential=source.caller.credential,
        caller_label=source.caller_label,
        session_id=source.session_id[:64],
        transport=source.transport,
        client_name=source.client_name,
        tool_name=tool.name,
        workspace=recorded_in(source, tool.workspace),
        tool_version=tool.version,
        tool_digest=tool.effect,
        effects=effects_of(tool),
        arguments=asked.recorded,
        clear=records.apart(asked.recorded, asked.arguments, of=McpApproval.of(id_)),
        binding=bound,
        idempotency=key,
        is_task=asked.is_task,
        rule=ask.rule[:100],
        rule_version=ask.version,
        words=ask.words,
        decider=ask.decider,
        group=ask.group,
        needed=ask.needed,
        created_at=now,
        expires_at=now + datetime.timedelta(seconds=ask.seconds),
    )
    events.record(
        "call.waits",
        actor=events.Actor(source.principal, source.caller_label),
        subject=id_,
        label=tool.name,
        after={
            "rule": ask.rule,
            "decider": ask.decider,
            "needed": ask.needed,
            "expires_at": row.expires_at.isoformat(),
        },
    )
    bus.publish(CHANGED, id_)
    return row


def effects_of(tool: Tool) -> str:
    """Return the effects stated by the tool's annotations."""
    annotations = tool.definition.get("annotations", {})
    return ", ".join(words for name, words in EFFECTS.items() if annotations.get(name) is True)


def use(id_: str, invocation_id: str) -> None:
    """Note that the call of an approval is made. That it is made once, the key of its intent sees to."""
    rows = McpApproval.objects.filter(pk=id_, status=Status.APPROVED)
    rows.update(status=Status.USED, invocation_id=invocation_id)


def keep(id_: str) -> None:
    """Let an approval last as long as the call's client may take to answer."""
    until = timezone.now() + datetime.timedelta(seconds=settings.MCPHUB_ANSWER_SECONDS)
    McpApproval.objects.filter(pk=id_, status=Status.USED, expires_at__lt=until).update(expires_at=until)


def claim(id_: str, invocation_id: str) -> bool:
    """Take an approval for its one call where no key of an intent does; False where it was taken before."""
    rows = McpApproval.objects.filter(pk=id_, status=Status.APPROVED, expires_at__gt=timezone.now())
    return bool(rows.update(status=Status.USED, invocation_id=invocation_id))


def look(id_: str) -> McpApproval | None:
    return McpApproval.objects.filter(pk=id_).first()


def expire(rows: QuerySet[McpApproval]) -> int:
    """Put on record that the time of these calls is over, and nobody has decided."""
    now, count = timezone.now(), 0
    for row in rows.filter(status=Status.PENDING, expires_at__lte=now).only("pk", "tool_name", "expires_at")[:_SLICE]:
        with transaction.atomic():
            still = McpApproval.objects.filter(pk=row.pk, status=Status.PENDING)
            if still.update(status=Status.EXPIRED, decided_at=row.expires_at, clear=None, edited_clear=None):
                events.record("call.expired", actor=events.Actor("hub"), subject=row.pk, label=row.tool_name)
                bus.publish(CHANGED, row.pk)
                count += 1
    return count


def sweep() -> None:
    """Record expirations; erase unneeded clear text, and delete old rows."""
    now = timezone.now()
    expire(McpApproval.objects.order_by("expires_at"))
    over = McpApproval.objects.filter(expires_at__lt=now).exclude(status=Status.PENDING)
    over.filter(Q(clear__isnull=False) | Q(edited_clear__isnull=False)).update(clear=None, edited_clear=None)
    old = McpApproval.objects.filter(expires_at__lt=now - KEPT).order_by("expires_at").values_list("pk", flat=True)
    McpApproval.objects.filter(pk__in=list(old[:_SLICE])).delete()


def _digest(key: str | None) -> str:
    return "" if key is None else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
