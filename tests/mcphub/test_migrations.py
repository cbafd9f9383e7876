"""A better sentence needs no migration; a change of the database does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.apps import apps
from django.core.validators import RegexValidator
from django.db import models
from django.db.migrations.state import ModelState, ProjectState

from mcphub.standalone.management.migrations import WordlessAutodetector


def operations_after(edit: Callable[[dict[str, models.Field]], None]) -> list[str]:
    """Return the operations that an edit of a connection's fields asks for."""
    before = ProjectState.from_apps(apps)
    after = before.clone()
    state: ModelState = after.models["tools_catalog", "mcpconnection"]
    state.fields = {name: field.clone() for name, field in state.fields.items()}
    edit(state.fields)
    changes = WordlessAutodetector(before, after)._detect_changes()
    return [type(each).__name__ for migration in changes.get("tools_catalog", []) for each in migration.operations]


def relabel(fields: dict[str, models.Field]) -> None:
    fields["prefix"].verbose_name = "another label"
    fields["prefix"].help_text = "Another help."
    fields["policy"].choices = [(value, "another label") for value, _label in fields["policy"].choices]


def reword_validators(fields: dict[str, models.Field]) -> None:
    for field in fields.values():
        field._validators = [reworded(each) if isinstance(each, RegexValidator) else each for each in field._validators]


def reworded(validator: RegexValidator) -> RegexValidator:
    _path, args, kwargs = validator.deconstruct()
    return RegexValidator(*args[:1], **{**kwargs, "message": "Another message."})


def lengthen(fields: dict[str, models.Field]) -> None:
    fields["prefix"].max_length += 1


def add_choice(fields: dict[str, models.Field]) -> None:
    fields["policy"].choices = [*fields["policy"].choices, ("another", "another")]


@pytest.mark.parametrize("edit", [relabel, reword_validators])
def test_words_need_no_migration(edit: Callable[[dict[str, models.Field]], None]) -> None:
    assert operations_after(edit) == []


@pytest.mark.parametrize("edit", [lengthen, add_choice])
def test_what_the_database_or_its_rules_hold_does(edit: Callable[[dict[str, models.Field]], None]) -> None:
    assert operations_after(edit) == ["AlterField"]
