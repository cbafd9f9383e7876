"""Reads `MCPHUB_*` variables for settings.py. A bad value stops the start with one sentence."""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def flag(name: str, default: bool = False) -> bool:
    value = text(name).lower()
    if value in {"", "1", "true", "yes", "on", "0", "false", "no", "off"}:
        return default if not value else value in {"1", "true", "yes", "on"}
    raise ImproperlyConfigured(f"{name} is {value!r}; write 1 or 0.")


def number(name: str, default: float, *, least: float, most: float) -> float:
    value = text(name)
    try:
        result = float(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {value!r}; write a number.") from None
    if not least <= result <= most:
        raise ImproperlyConfigured(f"{name} is {result:g}; it goes from {least:g} to {most:g}.")
    return result


def whole(name: str, default: int, *, least: int, most: int) -> int:
    result = number(name, default, least=least, most=most)
    if result != int(result):
        raise ImproperlyConfigured(f"{name} is {result}; write a whole number.")
    return int(result)


def choice(name: str, default: str, known: Sequence[str]) -> str:
    value = os.environ.get(name) or default
    if value not in known:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(known)}, not {value!r}.")
    return value


def names(name: str) -> tuple[str, ...]:
    """A list separated by commas or blanks."""
    return tuple(text(name).replace(",", " ").split())


def networks(name: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """A list of IP addresses and networks, such as `10.0.0.7, fd00::/8`."""
    found = names(name) or default
    for network in found:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise ImproperlyConfigured(
                f"{name} names {network!r}; write addresses such as 10.0.0.7, or networks such as 10.0.0.0/24."
            ) from None
    return found


def modules(name: str) -> tuple[str, ...]:
    """A list of modules that can be imported, such as `house_tools, firm.weather`."""
    found = names(name)
    for module in found:
        try:
            known = all(part.isidentifier() for part in module.split(".")) and find_spec(module) is not None
        except ModuleNotFoundError:
            known = False
        if not known:
            raise ImproperlyConfigured(f"{name} names {module!r}, which cannot be imported here.")
    return found


def secret(path: Path, size: int = 50) -> str:
    """Give the secret kept in `path`, made at first use and readable by the owner alone.

    Two processes that start at once agree: the file is linked into place whole, and the loser reads it.
    """
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ImproperlyConfigured(f"The secret file {path} cannot be read: {error.strerror}.") from error
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(size) + "\n")
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return path.read_text().strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"The data directory {path.parent} cannot be written: {error.strerror}. Name another with --data-dir."
        ) from error
