"""An autodetector of migrations that ignores words: labels, help texts, messages of constraints and validators.

The database stores none of them, so a better sentence needs no migration.
"""

from __future__ import annotations

from typing import Any

from django.db.migrations import operations
from django.db.migrations.autodetector import MigrationAutodetector
from django.db.migrations.operations.base import Operation

_OPTIONS = ("verbose_name", "verbose_name_plural")
_FIELD = ("verbose_name", "help_text", "error_messages")
_CONSTRAINT = ("violation_error_message",)


class WordlessAutodetector(MigrationAutodetector):
    """Leaves out operations that would change words alone."""

    def add_operation(self, app_label: str, operation: Operation, *args: Any, **kwargs: Any) -> None:
        if not self._changes_words_alone(app_label, operation):
            super().add_operation(app_label, operation, *args, **kwargs)

    def _changes_words_alone(self, app_label: str, operation: Operation) -> bool:
        if isinstance(operation, operations.AlterField):
            before = self._before(app_label, operation.model_name).fields
            name = self.renamed_fields.get((app_label, operation.model_name_lower, operation.name), operation.name)
            return name in before and self._shape(before[name]) == self._shape(operation.field)
        if isinstance(operation, operations.AlterModelOptions):
            options = self._before(app_label, operation.name).options
            kept = {key: options[key] for key in operation.ALTER_OPTION_KEYS if key in options}
            return _wordless(kept) == _wordless(operation.options)
        if isinstance(operation, operations.AlterConstraint):
            constraints = self._before(app_label, operation.model_name).options["constraints"]
            before = next((each for each in constraints if each.name == operation.name), None)
            return before is not None and _constraint(before) == _constraint(operation.constraint)
        return False

    def _before(self, app_label: str, model: str) -> Any:
        name = self.renamed_models.get((app_label, model.lower()), model).lower()
        return self.from_state.models[app_label, name]

    def _shape(self, field: Any) -> Any:
        path, args, kwargs = self.deep_deconstruct(field)[-3:]
        kwargs = {key: value for key, value in kwargs.items() if key not in _FIELD}
        if isinstance(kwargs.get("choices"), (list, tuple)):
            kwargs["choices"] = [value for value, _label in kwargs["choices"]]
        if "validators" in kwargs:
            kwargs["validators"] = [_validator(each) for each in kwargs["validators"]]
        return path, args, kwargs


def _validator(deconstructed: Any) -> Any:
    """Return a validator without its message; a function is returned as it is."""
    if not isinstance(deconstructed, tuple):
        return deconstructed
    path, args, kwargs = deconstructed
    pattern_alone = args[:1] if path.endswith("RegexValidator") else args
    return path, pattern_alone, {key: value for key, value in kwargs.items() if key != "message"}


def _wordless(options: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in options.items() if key not in _OPTIONS}
    kept["permissions"] = [codename for codename, _name in options.get("permissions", ())]
    return kept


def _constraint(constraint: Any) -> Any:
    path, args, kwargs = constraint.deconstruct()
    return path, args, {key: value for key, value in kwargs.items() if key not in _CONSTRAINT}
