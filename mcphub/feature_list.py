"""Which features are shipped, by the folders of mcphub/features, and which are on, as `MCPHUB_FEATURES` chooses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from mcphub.given import variable
from sessions_app.kit.features import FeatureConfig, Part, installed

_FOLDER = Path(__file__).parent / "features"

NONE = "none"
"""The value of MCPHUB_FEATURES for a hub without any feature that can be left out."""


@lru_cache(maxsize=1)
def known() -> dict[str, type[FeatureConfig]]:
    """Return name -> declaration of every feature that is shipped, by the folders that have an `apps.py`."""
    names = sorted(path.parent.name for path in _FOLDER.glob("*/apps.py"))
    return {name: _declaration(name) for name in names}


def _declaration(name: str) -> type[FeatureConfig]:
    module = import_module(f"mcphub.features.{name}.apps")
    found: list[type[FeatureConfig]] = [
        each
        for each in vars(module).values()
        if issubclass(type(each), type)  # `isinstance` would set a lazy object up, such as Django's settings
        and issubclass(each, FeatureConfig)
        and each.__module__ == module.__name__
    ]
    if len(found) != 1:
        raise ImproperlyConfigured(f"{module.__name__} must define one FeatureConfig, and defines {len(found)}.")
    return found[0]


def on() -> list[str]:
    """Return the names of the features that are on, as MCPHUB_FEATURES chooses them."""
    return chosen(variable("MCPHUB_FEATURES").replace(",", " ").split())


def off() -> list[type[FeatureConfig]]:
    """Return the declarations of the features that this process runs without. Django must be set up."""
    here = {config.feature for config in installed()}
    return [config for name, config in known().items() if name not in here]


def declared(kind: type[Part]) -> list[Part]:
    """Return the parts of a class, as `sessions_app.kit.features.declared` does, where Django is not set up."""
    return [part for name in on() for part in known()[name].parts if isinstance(part, kind)]


def chosen(words: Sequence[str]) -> list[str]:
    """Return the names of the features that are on; raise ImproperlyConfigured where the words name none that exist.

    No words: all. Names: these alone, and those that are always on. With a minus: all but these. `none`: the core.
    """
    features = known()
    unknown = sorted(word for word in set(words) - {NONE} if word.removeprefix("-") not in features)
    if unknown:
        raise ImproperlyConfigured(
            f"MCPHUB_FEATURES names {', '.join(unknown)}, and there is no such feature. Features are "
            f"{', '.join(features)}. Write names to have these alone, -name to leave one out, or {NONE}."
        )
    without = {word[1:] for word in words if word.startswith("-")}
    only = {word for word in words if not word.startswith("-")}
    if without and only:
        raise ImproperlyConfigured(
            "MCPHUB_FEATURES mixes names with names to leave out. Write either all that are on, or -name for each that "
            "is left out."
        )
    for name in sorted(without):
        if why := features[name].always:
            raise ImproperlyConfigured(f"MCPHUB_FEATURES cannot leave out {name}: {why}")
    on = [
        name
        for name, config in features.items()
        if config.always or ((name in only) if only else (name not in without))
    ]
    missing = sorted({each for name in on for each in features[name].requires} - set(on))
    if missing:
        needing = _needing(missing, on)
        raise ImproperlyConfigured(
            f"MCPHUB_FEATURES leaves out {', '.join(missing)}, without which {', '.join(needing)} cannot be on. "
            f"Leave out {', '.join(needing)} too, or keep {', '.join(missing)}."
        )
    return on


def _needing(missing: Sequence[str], on: Sequence[str]) -> list[str]:
    """Return the features that need the missing ones, or one that does: leaving these out leaves no other to name."""
    gone, needing = set(missing), []
    while more := [name for name in on if name not in gone and gone.intersection(known()[name].requires)]:
        gone.update(more)
        needing += more
    return sorted(needing)
