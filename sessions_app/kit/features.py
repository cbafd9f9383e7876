"""Features: optional parts of the hub, each a Django app of its own that declares its additions.

A feature lists its `parts`: instances of classes that the floor which uses them defines. The core asks for all
parts of a class with `declared` and names no feature. A part names code as `module:attribute`, imported on first use:
to declare imports nothing.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, TypeVar

from django.apps import AppConfig, apps

Part = TypeVar("Part")


class FeatureConfig(AppConfig):
    """The declaration of a feature, in the `apps.py` of its folder."""

    default = False
    """For this class; Django finds subclasses in an `apps.py` that imports it."""
    default_auto_field = "django.db.models.BigAutoField"
    parts: ClassVar[tuple[object, ...]] = ()
    requires: ClassVar[tuple[str, ...]] = ()
    """Names of features that this one imports."""
    always: ClassVar[str] = ""
    """Why this feature cannot be switched off; empty for one that can."""
    embeds: ClassVar[bool] = False
    """Whether it works in a Django project of somebody else, which has neither the console nor REST."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.default = True

    @property
    def feature(self) -> str:
        """The name of the folder, by which `MCPHUB_FEATURES` knows the feature."""
        return self.name.rpartition(".")[2]


def installed() -> tuple[FeatureConfig, ...]:
    """Return the features that are on, in the order of INSTALLED_APPS."""
    return tuple(config for config in apps.get_app_configs() if isinstance(config, FeatureConfig))


def declared(kind: type[Part]) -> tuple[Part, ...]:
    """Return the parts of a class, feature by feature in the order of INSTALLED_APPS."""
    return tuple(part for config in installed() for part in config.parts if isinstance(part, kind))


@lru_cache(maxsize=1024)
def loaded(path: str) -> Any:
    """Return the object named `module:attribute`; imports the module on first use."""
    module, colon, attribute = path.partition(":")
    if not colon:
        raise ValueError(f"{path!r} is not of the form module:attribute")
    return getattr(import_module(module), attribute)
