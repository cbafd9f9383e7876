from django.db import migrations, models

GENERAL = {
    "type": "object",
    "properties": {
        "errorCode": {"type": "string"},
        "details": {"type": "object"},
        "retryable": {"type": "boolean"},
        "invocationId": {"type": "string"},
        "traceId": {"type": "string"},
    },
    "required": ["errorCode", "details", "retryable"],
}
ROWS = {"policy_denied": -31036}


def load(apps, schema_editor):
    McpErrorMapping = apps.get_model("invocations", "McpErrorMapping")
    for code, number in ROWS.items():
        McpErrorMapping.objects.get_or_create(
            internal_code=code,
            defaults={
                "json_rpc_code": number, "message_template": "{message}", "retryable": False,
                "data_schema": GENERAL, "loaded_by": "shipped with the hub",
            },
        )


class Migration(migrations.Migration):
    dependencies = [("invocations", "0012_policy_columns")]
    operations = [migrations.RunPython(load, migrations.RunPython.noop)]
