from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="remoteconnection",
            name="process_id",
            field=models.CharField(default="", max_length=32),
            preserve_default=False,
        )
    ]
