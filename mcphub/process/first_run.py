"""The preparations of every start: tables, packs and, on the first start, an operator and a key."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import hashlib
import logging
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.db import connection, connections, transaction
from django.utils import timezone

from invocations.ledger import durability
from mcphub import checks, moved
from mcphub.commands.stop import Stop
from mcphub.process import apart, known_data
from sessions_app.kit.database import Dedicated, is_pooled

logger = logging.getLogger(__name__)

_LOCK = 0x6D637068  # "mcph"
"""Key of the PostgreSQL advisory lock under which a start prepares the database."""


class CannotStart(Exception):
    """The hub cannot serve safely; the message has the reason and the next step."""


class PackRefused(CannotStart):
    """A pack cannot be loaded."""


class NotDurable(CannotStart):
    """A commit that the database confirmed might not survive a crash of the machine."""


class BehindPooler(CannotStart):
    """A pooler is between the hub and PostgreSQL, and the hub knows no way past it."""


def check_durability() -> str | None:
    """Return why the audit is not durable where that is allowed, None where it is; else raise NotDurable."""
    database = Dedicated()
    try:
        why = durability.why_not(database.raw, database.is_sqlite)
    finally:
        database.close()
    if why and not settings.MCPHUB_ALLOW_NOT_DURABLE:
        raise NotDurable(
            f"the audit might not survive a crash of this machine: {why}; mend that, or set "
            "MCPHUB_ALLOW_NOT_DURABLE=1 to accept it."
        )
    return why


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCredentials:
    """The credentials created by the first start. Password and key are shown once."""

    username: str | None = None
    password: str | None = None
    key: str | None = None


def prepare(packs: Sequence[str] = (), *, credentials: bool = True, is_alone: bool = False) -> FirstCredentials:
    """Make the database ready to serve; safe with several starts at once, quick when all is done.

    Without `credentials` the first operator and key are left to a start that can show them. A process that `is_alone`,
    with one thread, migrates in a child: the models of each state are three times the memory of a hub, and it serves.
    """
    for found in checks.former_variables():
        logger.warning("%s %s", found.msg, found.hint)
    with one_at_a_time():
        _bring_up_to_date(_apart if is_alone else _call)
        check_durability()
        _load_packs(packs)
        if settings.MCPHUB_RELOAD:
            _follow_functions()
        with transaction.atomic():
            return _first_credentials() if credentials else FirstCredentials()


def close_connections() -> None:
    """Close Django's connections, and the pool's with its threads, before a fork or another use."""
    for each in connections.all(initialized_only=True):
        each.close()
        if hasattr(each, "close_pool"):
            each.close_pool()


def migrate() -> None:
    """Bring the tables up to date, if they are not."""
    from tools_catalog.models.allowed_hosts import read_allowed_hosts

    with one_at_a_time():
        _bring_up_to_date(_call)
    read_allowed_hosts()  # commands reach what the hub reaches


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold off every other start on this data directory and on this database."""
    settings.MCPHUB_DATA_DIR.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not settings.MCPHUB_EMBEDDED:
        settings.STATIC_ROOT.mkdir(exist_ok=True)  # WhiteNoise warns without it
    with (settings.MCPHUB_DATA_DIR / "start.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if connection.vendor != "postgresql":
            # Moved while this start waited, after it read the settings.
            if why := moved.why_not(Path(str(connection.settings_dict["NAME"]))):
                raise Stop(f"mcphub: {why}", status=2)
            yield
            return
        # Other machines share the database, not the file. The lock ends with its connection, which is outside
        # the pool also because a pool tries for a long time to reach a database that is not there.
        database = Dedicated()
        try:
            if is_pooled(database.raw):
                raise BehindPooler(
                    "the database's address leads to a pooler, which does not keep a session. Name the address of "
                    "PostgreSQL itself in MCPHUB_DATABASE_DIRECT_URL; MCPHUB_DATABASE_URL may go on naming the pooler."
                )
            database.raw.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
            yield
        finally:
            database.close()


_MIGRATING = (100_000, 50, 50)
"""Thresholds of the garbage collector: each operation renders the models anew, which live as long as the migration, and
looking through them took a seventh of a first start's processor time.
"""


def _bring_up_to_date(run: Callable[[Callable[[], None]], None]) -> None:
    """Migrate where something is pending, or where no run for this code was seen to reach its end.

    The rules in the database are installed after the last migration; a start that was killed in between leaves
    nothing pending, and no rules. Installing them again at every start would lock tables that others use.
    """
    mark = _mark()
    if not settings.MCPHUB_MIGRATE or not mark.is_file() or mark.read_text() != _fingerprint():
        run(_migrate)


def _call(work: Callable[[], None]) -> None:
    work()


def _apart(work: Callable[[], None]) -> None:
    close_connections()
    try:
        apart.run(work)
    except ChildProcessError as error:
        raise CannotStart(f"the database was not migrated: {error}; start the hub again.") from error


def _mark() -> Path:
    return Path(settings.MCPHUB_DATA_DIR, "migrated")


def _migrate() -> None:
    from django.core.management import call_command
    from django.db.migrations.executor import MigrationExecutor

    mark = _mark()
    known_data.check()
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not settings.MCPHUB_MIGRATE:
        if pending:
            sentence = "mcphub: migrations are pending and MCPHUB_MIGRATE is off; run `mcphub migrate` as the owner."
            raise Stop(sentence, status=2)
        return
    mark.unlink(missing_ok=True)
    usual = gc.get_threshold()
    gc.set_threshold(*_MIGRATING)
    try:
        call_command("migrate", interactive=False, verbosity=0)
    finally:
        gc.set_threshold(*usual)
    mark.write_text(_fingerprint())


def _fingerprint() -> str:
    """Return a digest of applied migrations, available ones, the features, and the database rules of the code.

    Of the files the names alone: to load them all takes a fifth of a start.
    """
    from django.db.migrations.recorder import MigrationRecorder

    configs = apps.get_app_configs()
    # Of the applications that have some: another choice of tools installs nothing anew under a hub that serves.
    rules = [rules for app in configs if (rules := getattr(app, "trigger_rules", ()))]
    files = sorted(str(file) for app in configs for file in Path(app.path, "migrations").glob("*.py"))
    had = sorted(MigrationRecorder(connection).applied_migrations())
    address = settings.MCPHUB_DATABASE_URL.replace(str(settings.MCPHUB_DATA_DIR), "")  # which may move as a whole
    text = repr((address, settings.MCPHUB_VERSION, settings.MCPHUB_FEATURES, files, had, rules))
    return hashlib.sha256(text.encode()).hexdigest()


def _load_packs(packs: Sequence[str]) -> None:
    from tools_catalog.bundles import bundle
    from tools_catalog.models import McpToolVersion

    # Versions are never deleted, so a catalogue that was emptied on purpose stays empty.
    starter = [] if McpToolVersion.objects.exists() else ["starter"]
    for pack in dict.fromkeys([*starter, *packs]):
        try:
            report = bundle.load(bundle.read_pack(pack), reason=f"pack {pack}")
        except LookupError as error:
            raise PackRefused(str(error)) from error
        if report.refused:
            name, why = report.refused[0]
            raise PackRefused(f"The pack {pack} cannot be loaded: {name}: {why}")


def _follow_functions() -> None:
    """Bring every function of the operator's own apps into the catalogue; other tools stay."""
    from tools_catalog.backends import python
    from tools_catalog.bundles import bundle

    own = [name for name in python.registry if name.startswith(tuple(f"{app}." for app in settings.MCPHUB_APPS))]
    tools = [{"backend": "python", "configuration": {"function": name}} for name in sorted(own)]
    report = bundle.load({"format": bundle.FORMAT, "tools": tools}, reason="reload")
    for name, why in report.refused:
        print(f"{name}: {why}", file=sys.stderr)
    for name in [*report.created, *report.changed]:
        print(f"{name}: the catalogue has its function as it is now.", file=sys.stderr)


def _first_credentials() -> FirstCredentials:
    """Make an operator where there is no user at all, and a key where there never was one."""
    from django.contrib.auth import get_user_model

    from sessions_app.history.reading import events_about
    from sessions_app.models import ApiKey

    users, username, password, key = get_user_model().objects, None, None, None
    if not users.exists():
        username, password = "operator", secrets.token_urlsafe(15)
        users.create_superuser(username, password=password)
    if not ApiKey.objects.exists() and not events_about(ApiKey).exists():
        scopes = ["tools:list", "tools:call", "chat", "audit:read"]
        days = settings.MCPHUB_FIRST_KEY_DAYS
        expires_at = timezone.now() + timedelta(days=days) if days else None
        key = ApiKey.issue("first key", scopes=scopes, expires_at=expires_at)[1]
    return FirstCredentials(username=username, password=password, key=key)
