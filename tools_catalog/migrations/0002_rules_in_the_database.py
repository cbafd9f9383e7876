"""Versions never change, and changes of the catalogue are announced, whoever makes them."""

from django.db import migrations

from sessions_app.triggers import announce, refuse_update


class Migration(migrations.Migration):
    dependencies = [
        ("tools_catalog", "0001_initial"),
        ("sessions_app", "0002_rules_in_the_database"),
    ]

    operations = [
        refuse_update(
            "tools_catalog_mcptoolversion",
            "mcphub_tool_version_immutable",
            "OLD.id = NEW.id",
            "a tool version never changes",
        ),
        announce("tools_catalog_mcptooldefinition", "tools_changed"),
        announce("tools_catalog_mcptooldefinition_groups", "tools_changed"),
        announce("tools_catalog_secret", "tools_changed"),
    ]
