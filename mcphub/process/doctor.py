"""Checks of an installation: database, files, network, catalogue, upstreams, keys, processes.

A check gives its findings; it changes nothing. `mcphub doctor` prints them.
"""

from __future__ import annotations

import logging
import shutil
import socket
import stat
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from django.conf import settings
from django.core import checks as django_checks
from django.db import DatabaseError, Error, connection
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from invocations.ledger import statements
from invocations.ledger.disk import LOW
from invocations.recovery import interrupted
from mcphub import checks, feature_list
from mcphub import environment as env
from mcphub.parts import DoctorCheck
from mcphub.process import known_data, telemetry, unenforced
from sessions_app.kit import replica
from sessions_app.kit.database import Dedicated, driver
from sessions_app.kit.features import declared, installed, loaded
from tools_catalog import bindings
from tools_catalog.bindings import TOOL, Destination

if TYPE_CHECKING:
    from tools_catalog.models import McpConnection, Secret
    from tools_catalog.upstream.spec import LaunchSpec

Level = Literal["wrong", "hint"]

_UNSEALED_ROWS = 50_000
"""More than a busy hub writes between two rounds of sealing."""
_NAMED = 3
"""Subjects named by one finding; the others are counted."""
_MOST_BEHIND_SECONDS = 60.0
_LEAST_FREE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or a note, and the next step."""

    level: Level
    what: str
    mend: str


def examine() -> Iterator[tuple[str, list[Finding]]]:
    """Return each subject with its findings; none means that all is well. Stops early without a database."""
    yield _("settings"), list(_settings())
    yield _("features"), list(_features())
    yield _("files"), list(_files())
    yield _("network"), list(_network())
    database = list(_database())
    yield _("database"), database
    if any(finding.level == "wrong" for finding in database):
        return
    subjects: dict[str, Callable[[], Iterator[Finding]]] = {
        _("policies"): _policies,
        _("durability"): _durability,
        _("replica for auditors"): _replica,
        _("audit"): _audit,
        _("tools"): _tools,
        _("upstreams"): _upstreams,
        _("history"): _history,
        _("keys and people"): _keys,
        _("processes"): _processes,
        _("traces"): _traces,
    }
    for subject, check in (
        subjects | {str(each.subject): loaded(each.check) for each in declared(DoctorCheck)}
    ).items():
        yield subject, list(check())


def _settings() -> Iterator[Finding]:
    own = (
        checks.anonymous_beyond_loopback,
        checks.public_url_wellformed,
        checks.plain_http_in_public,
        checks.former_variables,
        checks.any_host_or_origin,
        checks.timeout_after_heartbeat,
        checks.connections_without_pool,
    )
    for check in own:
        for message in check():
            level: Level = "wrong" if message.level >= django_checks.ERROR else "hint"
            yield Finding(level, message.msg, message.hint or "")
    if settings.DEBUG and not settings.MCPHUB_EMBEDDED:  # a host's own is for `manage.py check --deploy`
        yield Finding("wrong", _("MCPHUB_DEBUG is on and shows internals to visitors."), _("Unset it."))
    if settings.MCPHUB_ALLOW_ANONYMOUS:
        yield Finding(
            "hint", _("Any program on this machine may call tools without a key."), _("Unset MCPHUB_ALLOW_ANONYMOUS.")
        )


def _features() -> Iterator[Finding]:
    """Name the features that are on where some are left out."""
    on = [config.feature for config in installed()]
    known = {name for name, config in feature_list.known().items() if config.embeds or not settings.MCPHUB_EMBEDDED}
    if off := sorted(known - set(on)):
        yield Finding(
            "hint",
            _("Features that are on: %(on)s. Left out: %(off)s.") % {"on": ", ".join(on), "off": ", ".join(off)},
            _("Unset MCPHUB_FEATURES to have all."),
        )


def _policies() -> Iterator[Finding]:
    for words in unenforced.sentences():
        yield Finding("wrong", words, _("Add the feature to MCPHUB_FEATURES again, or disable the entries."))


def _traces() -> Iterator[Finding]:
    if not settings.MCPHUB_OTLP_ENDPOINT:
        return
    if not telemetry.is_installed():
        yield Finding("wrong", _("MCPHUB_OTLP_ENDPOINT is set, and OpenTelemetry's SDK is missing."), _(telemetry.MEND))
    elif why := telemetry.unreachable():
        yield Finding(
            "wrong",
            _("The trace collector at %(address)s accepts nothing: %(why)s")
            % {"address": settings.MCPHUB_OTLP_ENDPOINT, "why": why},
            _("Start it, or correct MCPHUB_OTLP_ENDPOINT. Until then calls go on and spans are lost."),
        )


def _replica() -> Iterator[Finding]:
    if not replica.is_set_up():
        return
    try:
        moment = replica.as_of()
    except DatabaseError as error:
        yield Finding(
            "wrong",
            _("The replica for auditors does not answer: %(reason)s") % {"reason": _first_line(error)},
            _("Start it, or correct MCPHUB_AUDIT_DATABASE_URL. Until then REST and the lists of calls answer 503."),
        )
        return
    if moment is None:
        yield Finding(
            "hint",
            _("The database of MCPHUB_AUDIT_DATABASE_URL is not a standby, so its lag is unknown."),
            _("Name a standby of the hub's PostgreSQL, or leave MCPHUB_AUDIT_DATABASE_URL out."),
        )
    elif (behind := (timezone.now() - moment).total_seconds()) > _MOST_BEHIND_SECONDS:
        yield Finding(
            "hint",
            _("The replica for auditors is %(behind)s s behind, or nothing was written in that time.")
            % {"behind": f"{behind:.0f}"},
            _("Look at its replication; auditors do not see later calls."),
        )


def _files() -> Iterator[Finding]:
    home = settings.MCPHUB_DATA_DIR
    if not home.is_dir():
        yield Finding(
            "hint",
            _("The data directory %(home)s does not exist yet.") % {"home": home},
            _("The first start makes it."),
        )
        return
    private = [
        settings.MCPHUB_SECRET_KEY_FILE,
        settings.MCPHUB_ENCRYPTION_KEY_FILE,
        settings.MCPHUB_AUDIT_DIR / "signing.key",
    ]
    if connection.vendor == "sqlite":
        private.append(Path(settings.DATABASES["default"]["NAME"]))
    # Others reach a file only through its directory.
    if home.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield Finding("wrong", _("Other users can look into %(home)s.") % {"home": home}, f"chmod 700 {home}")
        for path in private:
            if path.is_file() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                yield Finding("wrong", _("Other users can read %(path)s.") % {"path": path}, f"chmod 600 {path}")
    for path in private[:3]:
        if path.parent != home and path.is_file() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield Finding("wrong", _("Other users can read %(path)s.") % {"path": path}, f"chmod 600 {path}")
    free, least = shutil.disk_usage(home).free, settings.MCPHUB_MIN_FREE_DISK_BYTES or _LEAST_FREE_BYTES
    if free < LOW * least:
        refused = _("below %(least)s MiB (limit min_free_disk_bytes)") % {"least": least // 2**20}
        if connection.vendor != "sqlite" or not settings.MCPHUB_MIN_FREE_DISK_BYTES:
            refused = _("when the disk is full")
        yield Finding(
            "wrong" if free < least else "hint",
            _("%(free)s MiB are free under %(home)s. Calls are refused %(refused)s.")
            % {"free": free // 2**20, "home": home, "refused": refused},
            _("Free some space."),
        )


def _network() -> Iterator[Finding]:
    host, port = env.text("MCPHUB_HOST", "127.0.0.1"), env.whole("MCPHUB_PORT", 8000, least=0, most=65535)
    try:
        family, *_more, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        if not _hub_answers(host, port):
            yield Finding(
                "wrong",
                _("%(host)s:%(port)s cannot be listened on: %(why)s.")
                % {"host": host, "port": port, "why": error.strerror or error},
                _("Name another port with MCPHUB_PORT or --port, or end the program that has it."),
            )


def _hub_answers(host: str, port: int) -> bool:
    """Return whether the program on the port is a hub."""
    try:
        with socket.create_connection((host, port), timeout=2) as line:
            line.sendall(b"GET /live HTTP/1.0\r\nHost: localhost\r\n\r\n")
            return line.recv(12).endswith(b" 200")
    except OSError:
        return False


def name_some(names: Sequence[str], most: int) -> str:
    """Return the first names, and how many more there are."""
    said = ", ".join(names[:most])
    more = len(names) - most
    return said if more <= 0 else _("%(names)s and %(count)d more") % {"names": said, "count": more}


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _database() -> Iterator[Finding]:
    from django.db.migrations.executor import MigrationExecutor

    database = Dedicated()
    try:
        database.raw.execute("SELECT 1")
    except (Error, driver().Error) as error:
        reason = _first_line(error)
        yield Finding(
            "wrong",
            _("The database does not answer: %(reason)s") % {"reason": reason},
            _("Check MCPHUB_DATABASE_URL and that it runs."),
        )
        return
    finally:
        database.close()
    if why := known_data.why_not():
        yield Finding("wrong", why, _(known_data.MEND))
        return
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if pending:
        yield Finding(
            "wrong",
            ngettext("%(count)d migration is not applied.", "%(count)d migrations are not applied.", len(pending))
            % {"count": len(pending)},
            _("Run mcphub migrate, or start the hub."),
        )
    if connection.vendor == "sqlite" and env.whole("MCPHUB_WORKERS", 1, least=1, most=256) > 1:
        yield Finding(
            "hint",
            _("Several workers share one SQLite file and write one after the other."),
            _("Use PostgreSQL (MCPHUB_DATABASE_URL), or one worker."),
        )


def _durability() -> Iterator[Finding]:
    database = Dedicated()
    try:
        why = statements.prepare(database.raw, database.is_sqlite, settings.MCPHUB_LEDGER_TIMEOUT_SECONDS)
    finally:
        database.close()
    if why:
        yield Finding(
            "wrong",
            _("An audit row might not survive a crash of the machine: %(why)s.") % {"why": why},
            _("PostgreSQL: set synchronous_commit, fsync and full_page_writes to on. SQLite: a local disk."),
        )


def _audit() -> Iterator[Finding]:
    from invocations.chain import service, watching
    from invocations.chain.keys import KeyProblem

    database = Dedicated()
    try:
        sealer = service.sealer_of(database)
        try:
            sealer.check_key()
            size = sealer.watch.head().tree.size
            if (
                not watching.Outside(service.checkpoints(), service.keys().publics).compare(service.log_of(database))
                and size
            ):
                yield Finding(
                    "hint",
                    _("%(place)s has no checkpoint: a rollback of the database would go unnoticed.")
                    % {"place": service.checkpoints()},
                    _("A running hub writes them. Name a file on another disk with MCPHUB_CHECKPOINT_FILE."),
                )
        except watching.Rewritten as problem:
            yield Finding(
                "wrong",
                _("The audit log was replaced or rewritten: %(problem)s") % {"problem": problem},
                _("mcphub audit verify. After a restored backup put the file of checkpoints aside and note why."),
            )
        except KeyProblem as problem:
            yield Finding(
                "wrong",
                _("The audit is not sealed here: %(problem)s") % {"problem": problem},
                _("Until then, new rows have no proof."),
            )
        judged = watching.verdict(service.log_of(database))
        if judged is not None and judged.problem:
            yield Finding(
                "wrong",
                _("The last verification of the audit: %(problem)s") % {"problem": judged.problem},
                "mcphub audit verify",
            )
        if judged is not None and judged.undelivered:
            yield Finding(
                "wrong",
                judged.undelivered,
                _("`mcphub audit checkpoint` tries every place at once and reports failures."),
            )
        waiting = sealer.unsealed()
        if waiting > _UNSEALED_ROWS:
            yield Finding(
                "hint",
                _("About %(waiting)s rows of the audit are not sealed yet.") % {"waiting": waiting},
                _("A running hub seals them; without one, mcphub audit checkpoint does."),
            )
    finally:
        database.close()


def _tools() -> Iterator[Finding]:
    from django.core.exceptions import ValidationError

    from tools_catalog.backends import python
    from tools_catalog.bundles import bundle
    from tools_catalog.catalog.snapshot import Catalog
    from tools_catalog.kinds.registry import kind_of
    from tools_catalog.models import McpToolDefinition, Secret, moving
    from tools_catalog.secrets import SecretError

    python.discover(bundle.shipped_packs())
    log, own = logging.getLogger("tools_catalog.catalog.snapshot"), threading.get_ident()
    is_of_others = lambda record: record.thread != own  # noqa: E731 - it is removed again, by identity
    log.addFilter(is_of_others)  # its lines are the findings below; a serving process logs on other threads
    try:
        served = Catalog.load().tools
    finally:
        log.removeFilter(is_of_others)
    secrets = {secret.name: secret for secret in Secret.objects.all()}
    needed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for tool in McpToolDefinition.objects.filter(enabled=True):
        if tool.name not in served:
            try:
                tool.full_clean()
                why = _("its definition cannot be compiled")
            except ValidationError as error:
                why = " ".join(error.messages)
            yield Finding(
                "wrong",
                _("The tool %(name)s cannot be served: %(why)s") % {"name": tool.name, "why": why},
                _("Correct it, or mcphub tool disable %(name)s.") % {"name": tool.name},
            )
        else:
            for name, to in kind_of(tool.backend).secrets(tool.configuration):
                needed[name, _problem(secrets.get(name), to.of(f"{TOOL}:{tool.name}"))].append(tool.name)
    yield from _secrets_of(_("The tool %s"), needed, secrets)
    for secret in secrets.values():
        try:
            secret.value()
        except SecretError as error:
            yield Finding(
                "wrong",
                _("The secret %(name)s cannot be used: %(error)s") % {"name": secret.name, "error": error},
                f"mcphub secrets set {secret.name}",
            )
    if rows := moving.rows_with_literals():
        said = _("Credentials are in plain text in %(count)s rows, such as %(names)s.") % {
            "count": len(rows),
            "names": ", ".join(rows[:_NAMED]),
        }
        yield Finding(
            "wrong", said, _("Save each row again: that moves them into secrets. Then renew the credentials.")
        )
    if not McpToolDefinition.objects.filter(enabled=True).exists():
        yield Finding("hint", _("No tool is enabled."), _("mcphub catalog load starter, or mcphub tool enable NAME."))


def _secrets_of(
    one: str, needed: Mapping[tuple[str, str], list[str]], secrets: Mapping[str, object]
) -> Iterator[Finding]:
    """Check secrets for problems, and the names in fields that need them. `one` names a single row."""
    for (name, problem), who in sorted(needed.items()):
        names = one % who[0] if len(who) == 1 else name_some(who, _NAMED)
        if name not in secrets:
            yield Finding(
                "wrong",
                ngettext(
                    "%(who)s needs the secret %(name)s, which does not exist.",
                    "%(who)s need the secret %(name)s, which does not exist.",
                    len(who),
                )
                % {"who": names, "name": name},
                f"mcphub secrets set {name}",
            )
        elif problem:
            yield Finding(
                "wrong",
                ngettext(
                    "%(who)s needs the secret %(name)s, which %(problem)s.",
                    "%(who)s need the secret %(name)s, which %(problem)s.",
                    len(who),
                )
                % {"who": names, "name": name, "problem": problem},
                _("Bind it with mcphub secrets set %(name)s, or name another secret.") % {"name": name},
            )


def _problem(secret: Secret | None, to: Destination) -> str:
    """Return the problem of a secret for a destination, in words shared by all with the same problem."""
    missing = bindings.unbound(secret, to) if secret is not None else None
    if missing is None:
        return ""
    words = {
        "origins": _("is not for %(what)s"),
        "places": _("must not be sent in %(what)s"),
        "users": _("is not approved for it"),
    }
    return words[missing.field] % {"what": missing.word}


def _upstreams() -> Iterator[Finding]:
    from tools_catalog.models import McpConnection, McpUpstreamTool, Secret

    secrets = {secret.name: secret for secret in Secret.objects.all()}
    needed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in McpConnection.objects.filter(enabled=True).select_related("profile"):
        who = _("The connection %s") % row.slug
        try:
            spec = row.spec()
            for name, to in row.secrets():
                needed[name, _problem(secrets.get(name), to)].append(row.slug)
        except ValueError as error:
            yield Finding(
                "wrong",
                _("%(who)s cannot be used: %(error)s") % {"who": who, "error": error},
                _("Correct it, or mcphub connection disable %(slug)s.") % {"slug": row.slug},
            )
            continue
        if spec.launch is not None:
            yield from _confinement(who, spec.launch)
        if row.has_never_connected or row.error_message:
            yield _unconnected(who, row)
    yield from _secrets_of(_("The connection %s"), needed, secrets)
    state = McpUpstreamTool.State
    for row in McpConnection.objects.filter(enabled=True, tools__state__in=[state.NEW, state.CHANGED]).distinct():
        count = row.tools.filter(state__in=[state.NEW, state.CHANGED]).count()
        yield Finding(
            "hint",
            _("Waiting for a decision: %(count)s of what %(slug)s offers.") % {"count": count, "slug": row.slug},
            "mcphub offer list",
        )


def _unconnected(who: str, row: McpConnection) -> Finding:
    if not row.error_message:
        what = _("%(who)s has never connected, and no process reported why.")
    elif row.has_never_connected:
        what = _("%(who)s has never connected: %(why)s")
    else:
        what = _("%(who)s has failed: %(why)s")
    values = {"who": who, "why": row.error_message}
    return Finding("wrong" if row.error_message else "hint", what % values, f"mcphub connection test {row.slug}")


def _confinement(who: str, launch: LaunchSpec) -> Iterator[Finding]:
    """Return the gaps in a child's sandbox."""
    from tools_catalog.upstream.confinement import machine

    if not launch.is_unconfined and not machine.this_machine().can_confine:
        yield Finding("wrong", _("%(who)s is not allowed to start.") % {"who": who}, _(machine.CANNOT))
        return
    missing = [each for each in machine.held(launch, machine.this_machine()) if not each.is_held]
    if missing:
        words = "; ".join(f"{each.subject}: {each.how}" for each in missing)
        yield Finding(
            "hint",
            _("%(who)s runs a child process that is not fully sandboxed. %(words)s.") % {"who": who, "words": words},
            "mcphub profile list --json",
        )


def _history() -> Iterator[Finding]:
    from sessions_app.history import comparing

    if rows := comparing.unrecorded_rows():
        yield Finding(
            "wrong",
            _("Rows were created outside the application, and no event records them: %(rows)s.")
            % {"rows": comparing.words_of(rows)},
            _("Find out who can write into the database. Revoke or delete the rows, and change its passwords."),
        )


def _keys() -> Iterator[Finding]:
    from django.contrib.auth import get_user_model

    from sessions_app.models import ApiKey

    now = timezone.now()
    live = ApiKey.objects.filter(revoked_at__isnull=True)
    expired = [key.name for key in live.filter(expires_at__lte=now)]
    if expired:
        yield Finding(
            "hint", _("Expired keys: %(names)s.") % {"names": ", ".join(expired)}, _("Revoke them, or make new ones.")
        )
    if len(expired) == live.count() and not settings.MCPHUB_ALLOW_ANONYMOUS:
        yield Finding("hint", _("No key is usable, so no client can connect."), "mcphub token create NAME")
    if not get_user_model().objects.filter(is_superuser=True, is_active=True).exists():
        yield Finding("hint", _("No active superuser exists."), "mcphub createsuperuser")


def _processes() -> Iterator[Finding]:
    from sessions_app.models import ServerProcess

    status = ServerProcess.Status
    live = ServerProcess.objects.filter(status__in=[status.STARTING, status.RUNNING, status.STOPPING])
    host = socket.gethostname()
    for process in live:
        if interrupted.is_gone(process, host):
            yield Finding(
                "wrong",
                _("The process %(process)s was killed or crashed; its open calls are not closed.")
                % {"process": process},
                _("Start the hub: it records them as interrupted."),
            )
