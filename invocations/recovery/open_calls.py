"""Which calls are open, noted every few seconds, so that recovery need not read all that a dead process ever began.

A mark holds the last envelope that was checked; those without an outcome are noted one by one. So the open calls of a
process are among the notes or behind the mark: seconds of calls, however long the process lived. Mark and notes stay
true, since outcomes are only added. So any process may look, at any time, and one that looks rarely or never makes
recovery slower, not wrong. No evidence: thrown away, they are made again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from django.db import connection, transaction
from django.db.models import Exists, Max, OuterRef, QuerySet

from invocations.chain import service
from invocations.chain.settling import Settling
from invocations.models import McpRequestEnvelope, McpToolInvocation, OpenCall, OpenCallMark

_STRETCH = 4096
"""Envelopes in one statement: so few that a database looks the outcome of each up, and does not read all outcomes."""

_STRETCHES_A_LOOK = 50
"""More than a machine records between two looks. The rest, after an update for example, is left to later rounds."""


class OpenCalls:
    """Keeps mark and notes. One a process; `look` is called now and then, on one thread at a time."""

    def __init__(self) -> None:
        self._settling = Settling("envelope")

    def look(self) -> None:
        """Note the open calls among new envelopes, and forget those that have ended."""
        settled = self._settling.look(service.log_on(connection))
        for after, through in islice(_stretches(_marked(), settled), _STRETCHES_A_LOOK):
            found = _unanswered_between(after, through).values_list("pk", "process_id")
            notes = [OpenCall(envelope_id=pk, process_id=process_id) for pk, process_id in found]
            with transaction.atomic():
                OpenCall.objects.bulk_create(notes, ignore_conflicts=True)
                OpenCallMark.objects.get_or_create(pk=OpenCallMark.ONLY)
                OpenCallMark.objects.filter(through__lt=through).update(through=through)
        noted = list(OpenCall.objects.values_list("pk", flat=True))
        for begin in range(0, len(noted), _STRETCH):
            some = noted[begin : begin + _STRETCH]
            # Those that retention removed have ended, too.
            ended = set(some).difference(_unanswered().filter(pk__in=some).values_list("pk", flat=True))
            if ended:
                OpenCall.objects.filter(pk__in=ended).delete()


def of(process_ids: Collection[str]) -> list[McpRequestEnvelope]:
    """Return the envelopes of these processes that have no outcome."""
    after = _marked()  # first: what moves behind the mark from now on is found twice, and never missed
    calls = _unanswered().filter(process__in=process_ids)
    noted = OpenCall.objects.filter(process_id__in=process_ids)
    found = {row.pk: row for row in calls.filter(pk__in=noted.values("envelope_id"))}
    for low, high in _stretches(after, _highest()):
        found.update((row.pk, row) for row in _unanswered_between(low, high, process__in=process_ids))
    return list(found.values())


def has_ended(envelope_id: int) -> bool:
    """Return whether a call had its outcome when the open ones were noted: where there is none now, it was removed."""
    # The mark first: it moves with the notes.
    return envelope_id <= _marked() and not OpenCall.objects.filter(pk=envelope_id).exists()


def _marked() -> int:
    return OpenCallMark.objects.aggregate(through=Max("through"))["through"] or 0


def _highest() -> int:
    return McpRequestEnvelope.objects.order_by().aggregate(highest=Max("pk"))["highest"] or 0


def _stretches(after: int, through: int) -> Iterator[tuple[int, int]]:
    return ((low, min(low + _STRETCH, through)) for low in range(after, through, _STRETCH))


def _unanswered_between(after: int, through: int, **more: object) -> QuerySet[McpRequestEnvelope]:
    """Return them; of a partitioned record nearly all outcomes are found without looking in every month."""
    some = McpRequestEnvelope.objects.filter(pk__gt=after, pk__lte=through, **more).order_by()
    if connection.vendor == "postgresql":
        in_its_month = _done().filter(received_at=OuterRef("received_at"))
        some = McpRequestEnvelope.objects.order_by().filter(
            pk__in=list(some.filter(~Exists(in_its_month)).values_list("pk", flat=True))
        )
    return some.filter(~Exists(_done()))


def _unanswered() -> QuerySet[McpRequestEnvelope]:
    return McpRequestEnvelope.objects.filter(~Exists(_done())).order_by()


def _done() -> QuerySet[McpToolInvocation]:
    return McpToolInvocation.objects.filter(invocation_id=OuterRef("invocation_id"))
