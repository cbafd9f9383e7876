"""Reads `MCPHUB_*` variables for settings.py. A bad value stops the start with one sentence."""

from __future__ import annotations

import ipaddress
import os
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from mcphub.given import take_out, variable


def text(name: str, default: str = "") -> str:
    return variable(name).strip() or default


def folder(name: str, default: str) -> Path:
    """A folder that is there, or can be made."""
    path = Path(text(name, default)).absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise ImproperlyConfigured(
            f"{name} is {path}, and {there} is a file. Name a folder with --data-dir or {name}, or move the file away."
        )
    return path


def database(name: str, address: str) -> dict[str, Any]:
    """Return an entry of DATABASES."""
    try:
        return {"OPTIONS": {}, **dj_database_url.parse(address)}
    except Exception as error:
        raise ImproperlyConfigured(
            f"{name} is not a database address. Write sqlite:////path/to/file or postgres://user@host/name."
        ) from error


def further_database(name: str, engine: str, what: str) -> dict[str, Any]:
    """Return an entry of DATABASES for another address of the hub's database; empty where none is named.

    `what` is the purpose of the address. Only PostgreSQL has one.
    """
    address = text(name)
    if not address:
        return {}
    further = database(name, address)
    if not (engine.endswith("postgresql") and further["ENGINE"] == engine):
        raise ImproperlyConfigured(
            f"{name} is for {what}. Write postgres://user@host/name there and in "
            f"MCPHUB_DATABASE_URL, or leave {name} out."
        )
    return further


def host_and_port(name: str, example: str) -> tuple[str, int] | None:
    """A host, or an address of IPv6 in brackets, with its port; None where the variable is empty."""
    value = text(name)
    if not value:
        return None
    try:
        parts = urlsplit(f"//{value}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port or parts.netloc != value or "@" in value:
        raise ImproperlyConfigured(f"{name} is {value!r}; write a host and its port, such as {example}.")
    return host, port


def flag(name: str, default: bool = False) -> bool:
    value = text(name).lower()
    if value in {"", "1", "true", "yes", "on", "0", "false", "no", "off"}:
        return default if not value else value in {"1", "true", "yes", "on"}
    raise ImproperlyConfigured(f"{name} is {value!r}; write 1 or 0.")


def number(name: str, default: float, *, least: float, most: float) -> float:
    return _number(name, text(name), default, least=least, most=most)


def _number(name: str, value: str, default: float, *, least: float, most: float) -> float:
    try:
        result = float(value) if value else default
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {value!r}; write a number.") from None
    if not least <= result <= most:
        raise ImproperlyConfigured(f"{name} is {result:g}; it goes from {least:g} to {most:g}.")
    return result


def whole(name: str, default: int, *, least: int, most: int) -> int:
    return _whole(name, number(name, default, least=least, most=most))


def _whole(name: str, result: float) -> int:
    if result != int(result):
        raise ImproperlyConfigured(f"{name} is {result}; write a whole number.")
    return int(result)


@dataclass(frozen=True, slots=True)
class LimitBound:
    """A bound as it is in force, its default, and the variable that changes it; empty where none does."""

    value: float
    default: float
    least: float
    most: float
    variable: str


class Limits:
    """Bounds with a default, which one variable changes: `name=value, name=value`; the last value of a name counts.

    Each had a variable of its own in 1.0.0, such as MCPHUB_MAX_CALLS, which works until this one names the bound.
    """

    def __init__(self, variable: str) -> None:
        self.former: dict[str, str] = {}
        """Variables of 1.0.0 that are in use -> the words of the variable in their place."""
        self.bounds: dict[str, LimitBound] = {}
        self._variable = variable
        self._given: dict[str, str] = {}
        for word in names(variable):
            name, _, value = word.partition("=")
            if not (name and value):
                raise ImproperlyConfigured(f"{variable} contains {word!r}; write name=value, such as max_calls=500.")
            self._given[name] = value

    def number(self, name: str, default: float, *, least: float, most: float) -> float:
        label, given, variable = self._find(name)
        value = _number(label, given, default, least=least, most=most)
        self.bounds[name] = LimitBound(value, default, least, most, variable)
        return value

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        return _whole(self._find(name)[0], self.number(name, default, least=least, most=most))

    def line(self, **changes: object) -> str:
        """Return the variable's value with changed bounds, besides those that it names already."""
        given = dict(word.split("=", 1) for word in self.former.values()) | self._given
        return ", ".join(f"{name}={value}" for name, value in (given | changes).items())

    def _find(self, name: str) -> tuple[str, str, str]:
        """Return the bound's name for messages, its value, and the variable that sets it; empty where nobody did."""
        former = f"MCPHUB_{name.upper()}"
        if name not in self._given and (value := text(former)):
            self.former[former] = f"{name}={value}"
            return former, value, former
        value = self._given.get(name, "")
        return f"{name} in {self._variable}", value, self._variable if value else ""

    def refuse_unknown(self) -> None:
        """Raise ImproperlyConfigured where the variable names a bound that was never asked for."""
        for name in self._given.keys() - self.bounds.keys():
            near = get_close_matches(name, self.bounds, 1)
            advice = f"Write {near[0]}, if that is meant." if near else "docs/operate/limits.md lists all."
            raise ImproperlyConfigured(f"{self._variable} names {name}, and there is no such limit. {advice}")


def choice(name: str, default: str, known: Sequence[str]) -> str:
    value = variable(name) or default
    if value not in known:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(known)}, not {value!r}.")
    return value


def currency(name: str, default: str) -> str:
    """A code of ISO 4217."""
    value = text(name, default)
    if len(value) != 3 or not (value.isascii() and value.isalpha() and value.isupper()):
        raise ImproperlyConfigured(f"{name} is {value!r}; write three capital letters, such as USD.")
    return value


def folders(name: str) -> tuple[str, ...]:
    """Return absolute paths, which colons separate."""
    found = tuple(os.path.normpath(path.strip()) for path in text(name).split(":") if path.strip())
    if wrong := [path for path in found if not path.startswith("/") or path == "/"]:
        raise ImproperlyConfigured(f"{name} names {wrong[0]}; write absolute paths of folders, with colons between.")
    return found


def names(name: str) -> tuple[str, ...]:
    """A list separated by commas or blanks."""
    return tuple(text(name).replace(",", " ").split())


def address(name: str, schemes: Sequence[str], example: str) -> str:
    """An address with one of the schemes: a host with its port (of https the port may be left out), or a path.

    Where https is demanded, http is enough on loopback.
    """
    value = text(name)
    try:
        parts = urlsplit(value)
        is_local = parts.hostname in ("127.0.0.1", "::1", "localhost")
        is_whole = bool(parts.path) if parts.scheme == "unix" else bool(parts.hostname)
        has_port = parts.scheme in ("unix", "https", "http") or bool(parts.port)
    except ValueError:
        parts = urlsplit("")
    is_known = parts.scheme in schemes or ("https" in schemes and parts.scheme == "http" and is_local)
    if value and not (is_known and is_whole and has_port):
        raise ImproperlyConfigured(f"{name} is no address that the hub can use; write {example}.")
    return value


def template(name: str, places: Sequence[str], example: str) -> str:
    """An address of http or https in which `{name}` stands for each of the places that it wants."""
    value = text(name)
    try:
        # Filled and read: what stands between braces must be a place, and nothing else a brace.
        parts = urlsplit(value.format(**dict.fromkeys(places, "0")))
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_filled = any(f"{{{place}}}" in value for place in places)
    except (ValueError, LookupError, AttributeError):
        is_address = is_filled = False
    if value and not (is_address and is_filled):
        named = " and ".join(f"{{{place}}}" for place in places)
        raise ImproperlyConfigured(f"{name} is no address with {named} in it; write {example}.")
    return value


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


def hosts(name: str) -> tuple[str, ...]:
    """A list of hosts, addresses and networks that requests are held to."""
    found = names(name)
    if found:
        from tools_catalog.egress.hosts_and_networks import HostList

        try:
            HostList(name, found)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{error} Write names such as api.example, *.example or api.example:8443, or networks."
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


@dataclass(frozen=True)
class Signing:
    """Where the audit's signing key is: in `file`, unless the hub was given its text or a command that signs."""

    file: Path
    text: str = field(default="", repr=False)
    source: str = ""
    """Which variable gave the text or the command, for messages; empty: none did."""
    problem: str = ""
    """Why the file that a variable names could not be read."""
    command: tuple[str, ...] = ()
    public_key: str = ""
    seconds: float = 10


def signing(default: Path, seconds: float) -> Signing:
    """Read where the key is, and take its text out of the environment, so that no child inherits it."""
    names = ("MCPHUB_SIGNING_KEY", "MCPHUB_SIGNING_KEY_FILE", "MCPHUB_SIGNING_COMMAND")
    given, file, command = (text(name) for name in names)
    take_out("MCPHUB_SIGNING_KEY")
    if sum(map(bool, (given, file, command))) > 1:
        raise ImproperlyConfigured(f"Set only one of {', '.join(names)}: the audit has one signing key.")
    if given:
        return Signing(default, given, names[0])
    if file:
        path = Path(file).absolute()
        try:
            return Signing(path, path.read_text(), f"{names[1]} ({path})")
        except (OSError, UnicodeDecodeError) as error:
            return Signing(path, "", f"{names[1]} ({path})", problem=str(error))
    if command:
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise ImproperlyConfigured(f"{names[2]} cannot be read: {error}. Quote it as for a shell.") from None
        public_key = text("MCPHUB_SIGNING_PUBLIC_KEY")
        return Signing(default, "", names[2], command=words, public_key=public_key, seconds=seconds)
    return Signing(default)


def secret(path: Path, size: int = 50) -> str:
    """Return the secret kept in `path`, made at first use and readable by the owner alone.

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


@dataclass(frozen=True, slots=True)
class Mail:
    """The transport of e-mail: a Django back end and its arguments."""

    backend: str
    options: dict[str, object] = field(default_factory=dict, repr=False)


_MAIL_EXAMPLE = (
    "smtp+tls://user:password@mail.example:587, smtps://mail.example:465, smtp://127.0.0.1:25 or file:///folder"
)


def mail(name: str) -> Mail | None:
    """The address of a mail server, or of a folder that each message becomes a file in; None: no e-mail."""
    value = text(name)
    if not value:
        return None
    known = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} is no address of a mail server; write {_MAIL_EXAMPLE}.") from None
    if parts.scheme == "file" and parts.path.startswith("/"):
        return Mail("django.core.mail.backends.filebased.EmailBackend", {"file_path": parts.path})
    if parts.scheme not in known or not host:
        raise ImproperlyConfigured(f"{name} is no address of a mail server; write {_MAIL_EXAMPLE}.")
    return Mail(
        "django.core.mail.backends.smtp.EmailBackend",
        {
            "host": host,
            "port": port or known[parts.scheme],
            "username": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "use_tls": parts.scheme == "smtp+tls",
            "use_ssl": parts.scheme == "smtps",
            "timeout": 10,
        },
    )
