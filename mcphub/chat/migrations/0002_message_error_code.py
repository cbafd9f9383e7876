from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="chatmessage",
            name="error_code",
            field=models.CharField(
                blank=True,
                help_text="Why the call failed whose result this is.",
                max_length=40,
                verbose_name="code",
            ),
        ),
    ]
