import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("invocations", "0003_tallies_by_day")]

    operations = [
        migrations.CreateModel(
            name="OpenCall",
            fields=[
                (
                    "envelope",
                    models.OneToOneField(
                        db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True,
                        serialize=False, to="invocations.mcprequestenvelope",
                    ),
                ),
                ("process_id", models.CharField(max_length=32)),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["process_id"], name="open_call_by_process")],
            },
        ),
        migrations.CreateModel(
            name="OpenCallMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("through", models.BigIntegerField(default=0)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="open_call_mark_is_one"),
                ],
            },
        ),
        # Recovery was all that asked for it, and each call paid for it.
        migrations.RemoveIndex(model_name="mcprequestenvelope", name="envelope_by_process"),
    ]
