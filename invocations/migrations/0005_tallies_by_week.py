from itertools import groupby

from django.db import migrations

from invocations.tallies import DAY, HOUR, QUARTER, WEEK, Tally, slot_of

LONGER = {QUARTER: HOUR, WEEK: DAY}


def sum_up(apps, schema_editor):
    """Make the tallies of quarters of a day from those of hours, and those of weeks from those of days."""
    CallTally = apps.get_model("invocations", "CallTally")
    for span, shorter in LONGER.items():
        read = CallTally.objects.filter(span=shorter).order_by("subject", "slot")
        rows = read.values_list("subject", "slot", "name", "calls", "errors", "durations").iterator()
        for (subject, slot), parts in groupby(rows, lambda row, span=span: (row[0], slot_of(row[1], span))):
            names = {}
            for _, _, name, calls, errors, durations in parts:
                names.setdefault(name, Tally()).add(Tally(calls, errors, Tally.load(durations)))
            CallTally.objects.bulk_create(
                (
                    CallTally(
                        span=span, slot=slot, subject=subject, name=name, calls=tally.calls, errors=tally.errors,
                        durations=tally.dump(),
                    )
                    for name, tally in names.items()
                ),
                batch_size=1000,
            )  # fmt: skip


def forget(apps, schema_editor):
    apps.get_model("invocations", "CallTally").objects.filter(span__in=LONGER).delete()


class Migration(migrations.Migration):
    dependencies = [("invocations", "0004_open_calls")]

    operations = [migrations.RunPython(sum_up, forget)]
