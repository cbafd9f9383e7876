from django.db import migrations

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

ROWS = {
    "parse_error": (-32700, False),
    "invalid_request": (-32600, False),
    "not_acceptable": (-32600, False),
    "method_not_found": (-32601, False),
    "invalid_params": (-32602, False),
    "tool_not_found": (-32602, False),
    "tool_disabled": (-32602, False),
    "resource_not_found": (-32602, False),
    "prompt_not_found": (-32602, False),
    "invalid_arguments": (-32602, False),
    "server_error": (-32603, False),
    "header_mismatch": (-32020, False),
    "missing_client_capability": (-32021, False),
    "unsupported_protocol_version": (-32022, False),
    "url_elicitation_required": (-32042, False),
    "unauthorized": (-31001, False),
    "host_refused": (-31002, False),
    "forbidden": (-31003, False),
    "duplicate_request": (-31004, False),
    "rate_limited": (-31005, True),
    "session_not_found": (-31006, False),
    "payload_too_large": (-31007, False),
    "body_timeout": (-31008, True),
    "quota_reached": (-31009, True),
    "connection_failed": (-31010, True),
    "transport_error": (-31011, False),
    "timeout": (-31012, False),
    "provider_unavailable": (-31013, True),
    "authentication_failed": (-31014, False),
    "quota_exceeded": (-31015, False),
    "audit_unavailable": (-31016, True),
    "server_busy": (-31017, True),
    "session_busy": (-31018, True),
    "method_not_allowed": (-31020, False),
    "unsupported_media_type": (-31021, False),
    "cancelled": (-31030, False),
    "interrupted": (-31031, False),
    "upstream_error": (-31032, False),
    "execution_error": (-31033, False),
    "result_invalid": (-31034, False),
    "egress_refused": (-31035, False),
    "policy_denied": (-31036, False),
    "guardrail_refused": (-31037, False),
    "guardrail_failed": (-31038, False),
}

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
    McpErrorMapping = apps.get_model("invocations", "McpErrorMapping")
    for code, (number, retryable) in ROWS.items():
        McpErrorMapping.objects.get_or_create(
            internal_code=code,
            defaults={
                "json_rpc_code": number, "message_template": "{message}", "retryable": retryable,
                "data_schema": GENERAL, "loaded_by": "shipped with the hub",
            },
        )
    Rule = apps.get_model("invocations", "McpRedactionRule")
    Rule.objects.bulk_create(Rule(kind="form", place=name, part="both", tool_name="", enabled=True) for name in FORMS)
    apps.get_model("invocations", "AuditPolicy").objects.get_or_create(pk=1)


class Migration(migrations.Migration):
    dependencies = [
        ("invocations", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(load, migrations.RunPython.noop),
    ]
