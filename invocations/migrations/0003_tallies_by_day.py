from collections import Counter
from datetime import UTC

from django.db import migrations, models

from invocations.tallies import DAY, HOUR, Tally


def sum_up(apps, schema_editor):
    """Make the tallies of days from those of hours."""
    CallTally = apps.get_model("invocations", "CallTally")
    days = {}
    hours = CallTally.objects.filter(span=HOUR).order_by("subject", "slot")
    for row in hours.values_list("subject", "slot", "name", "calls", "errors", "durations").iterator():
        subject, slot, name, *counted = row
        day = slot.astimezone(UTC).replace(hour=0)
        tally = days.setdefault((subject, day, name), Tally(durations=Counter()))
        tally.add(Tally(counted[0], counted[1], Tally.load(counted[2])))
    CallTally.objects.bulk_create(
        (
            CallTally(
                span=DAY, slot=day, subject=subject, name=name, calls=tally.calls, errors=tally.errors,
                durations=tally.dump(),
            )
            for (subject, day, name), tally in days.items()
        ),
        batch_size=1000,
    )  # fmt: skip


def forget(apps, schema_editor):
    apps.get_model("invocations", "CallTally").objects.filter(span=DAY).delete()


class Migration(migrations.Migration):
    dependencies = [("invocations", "0002_first_rows")]

    operations = [
        migrations.AlterField("calltally", "span", models.PositiveIntegerField(help_text="Seconds.")),
        migrations.RunPython(sum_up, forget),
    ]
