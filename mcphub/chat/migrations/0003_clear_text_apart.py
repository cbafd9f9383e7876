from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("chat", "0002_message_error_code")]

    operations = [
        migrations.AddField("chatapproval", "clear", models.TextField(blank=True, editable=False, null=True)),
        migrations.AddField("chatsession", "clear", models.TextField(blank=True, editable=False, null=True)),
        migrations.AddField("chatmessage", "clear", models.TextField(blank=True, editable=False, null=True)),
        migrations.AddIndex(
            "chatsession",
            models.Index(condition=Q(("clear__isnull", False)), fields=["expires_at"], name="chat_session_clear"),
        ),
        migrations.AddIndex(
            "chatmessage",
            models.Index(condition=Q(("clear__isnull", False)), fields=["session"], name="chat_message_clear"),
        ),
    ]
