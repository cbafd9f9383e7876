"""`mcphub audit policy`, `hold` and `retain`: retention of the audit, exemptions, and the removal itself."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mcphub.commands.audit_log import open_log
from mcphub.commands.rows import print_json
from mcphub.commands.stop import Stop

if TYPE_CHECKING:
    from invocations.chain.models import AuditHold


def policy(options: argparse.Namespace) -> int:
    from invocations.chain.models import AuditPolicy

    kept = AuditPolicy.current()
    given = {name: getattr(options, name) for name in ("rows_days", "bodies_days")}
    given = {name: value for name, value in given.items() if value is not None}
    if given:
        for name, value in given.items():
            setattr(kept, name, value or None)
        kept.change_reason = options.reason
        kept.full_clean(exclude=["id"])
        kept.save()
    if options.json:
        return print_json({"rows_days": kept.rows_days, "bodies_days": kept.bodies_days})
    print(f"rows    {_days(kept.rows_days)}")
    print(f"bodies  {_days(kept.bodies_days) if kept.bodies_days else 'as long as rows'}")
    return 0


def _days(days: int | None) -> str:
    return f"{days} days" if days else "for ever"


def hold(options: argparse.Namespace) -> int:
    from invocations.chain.models import AuditHold

    if options.action == "list":
        holds = AuditHold.objects.order_by("created_at")
        chosen = holds if options.all else holds.filter(released_at=None)
        if options.json:
            return print_json([_told(each) for each in chosen])
        for each in chosen:
            state = "released" if each.released_at else "holds"
            described = " ".join(f"{name}={value}" for name, value in each.description().items())
            print(f"{state:8}  {each.name}  {described}  {each.reason}")
        return 0
    if options.action == "release":
        found = AuditHold.objects.filter(name=options.name, released_at=None).first()
        if found is None:
            raise Stop(
                f"mcphub audit hold: no hold named {options.name!r} is set; `hold list` tells which are.", status=2
            )
        found.release(options.reason)
        print(f"{found.name} is released")
        return 0
    placed = AuditHold(
        name=options.name,
        reason=options.reason,
        tool_name=options.tool,
        principal=options.principal,
        session_id=options.session,
        received_from=options.since,
        received_until=options.until,
        first_block=options.first_block,
        last_block=options.last_block,
    )
    placed.full_clean()
    placed.save()
    print(f"{placed.name} holds")
    return 0


def _told(row: AuditHold) -> dict[str, object]:
    return {
        "name": row.name,
        "state": "released" if row.released_at else "holds",
        "holds": row.description(),
        "reason": row.reason,
    }


def retain(options: argparse.Namespace) -> int:
    from invocations.chain import retention, service
    from sessions_app.history import events

    with open_log() as (log, _):
        if options.dry_run:
            found = {"rows": 0, "bodies": 0}
            for plan in retention.due(log):
                found[plan.kind] += plan.rows
            rows, bodies = found["rows"], found["bodies"]
            words = f"{rows} rows would be removed, {bodies} would lose their bodies"
        else:
            try:
                rows, bodies = retention.apply(log, service.keys(), who=events.on_the_machine())
            except retention.StillRead as why:
                raise Stop(f"mcphub audit retain: {why}") from why
            words = f"{rows} rows removed, {bodies} rows without bodies now"
        is_waiting = retention.awaits_targets(log)
        if options.json:
            return print_json(
                {"dry_run": options.dry_run, "rows": rows, "bodies": bodies, "waits_for_targets": is_waiting}
            )
        print(words)
        if is_waiting:
            print("More is due, and waits for a target that has not got it: `mcphub audit ship` names it.")
    return 0
