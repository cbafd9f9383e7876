from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("invocations", "0006_undelivered_checkpoints")]

    operations = [
        migrations.AddField("mcptask", "clear", models.TextField(blank=True, editable=False, null=True)),
    ]
