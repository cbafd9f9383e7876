"""The values of `MCPHUB_*` variables: from the environment, else from the dict `MCPHUB` of a host project. A flag of a
command becomes a variable of the environment.

And the options of SQLite, which both kinds of project need before Django is set up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

SQLITE_OPTIONS: Final = {
    # Writers wait for each other instead of failing half-way through a transaction.
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
}
"""OPTIONS of an SQLite database that many calls write to at once."""
Source = Literal["flag", "environment", "host", "default"]
_of_host: dict[str, str] = {}
_flags: set[str] = set()
_derived: set[str] = set()
_taken_out: set[str] = set()


def variable(name: str) -> str:
    """Return the value of a variable; empty where nobody set it."""
    return os.environ.get(name) or _of_host.get(name, "")


def source(name: str) -> Source:
    """Return where the value of a variable, or of a limit that a flag changes, comes from."""
    if name in _flags:
        return "flag"
    if (os.environ.get(name) and name not in _derived) or name in _taken_out:
        return "environment"
    return "host" if _of_host.get(name) else "default"


def set_by_flags(values: Mapping[str, str], limits: Iterable[str] = ()) -> None:
    """Put the values of flags into the environment. `limits` are the bounds among them."""
    os.environ.update(values)
    _flags.update(values.keys() - {"MCPHUB_LIMITS"}, limits)


def set_default(name: str, value: str) -> None:
    """Put a default that depends on other variables into the environment, where the variable has no value."""
    if not variable(name).strip():
        os.environ[name] = value
        _derived.add(name)


def take_out(name: str) -> None:
    """Remove a secret from the environment, so that no child inherits it."""
    if os.environ.pop(name, ""):
        _taken_out.add(name)


def take(values: Mapping[str, Any], *, secret_key: str) -> None:
    """Keep the values of a host's settings, by names without `MCPHUB_`, and its SECRET_KEY."""
    _of_host.clear()
    _of_host.update({f"MCPHUB_{name}": text_of(value) for name, value in values.items()})
    _of_host["SECRET_KEY"] = secret_key


def secret_key() -> str:
    """Return the SECRET_KEY of a host project; empty in the hub's own."""
    return _of_host.get("SECRET_KEY", "")


def text_of(value: Any) -> str:
    """Return a value of Python as the environment would have it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={text_of(each)}" for name, each in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(str, value))
    return "" if value is None else str(value)
