"""Terminal session states stay terminal, and changes of keys are announced, whoever makes them."""

from django.db import migrations

from sessions_app.triggers import announce, notify_bus, refuse_update

KEY_COLUMNS = ("name", "secret_hash", "scopes", "calls_per_minute", "expires_at", "revoked_at")


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0001_initial")]

    operations = [
        refuse_update(
            "sessions_app_mcpsession",
            "mcphub_session_state_terminal",
            "OLD.state IN ('closed', 'expired') AND NEW.state <> OLD.state",
            "an ended session stays ended",
        ),
        notify_bus(),
        announce("sessions_app_apikey", "keys_changed", KEY_COLUMNS),
        announce("sessions_app_apikey_groups", "keys_changed"),
    ]
