from django.db import migrations

FORMS = [
    "aws_key",
    "aws_secret",
    "google_key",
    "azure_key",
    "github_token",
    "gitlab_token",
    "slack_token",
    "stripe_key",
    "model_key",
    "jwt",
    "private_key",
    "payment_card",
    "address_password",
    "address_secret",
]


def load(apps, schema_editor):
    Rule = apps.get_model("invocations", "McpRedactionRule")
    Rule.objects.bulk_create(Rule(kind="form", place=name, part="both", tool_name="", enabled=True) for name in FORMS)


class Migration(migrations.Migration):
    dependencies = [("invocations", "0003_known_forms")]

    operations = [migrations.RunPython(load, migrations.RunPython.noop)]
