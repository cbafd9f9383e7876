"""Rules of this app's tables that the database keeps itself, besides its constraints."""

from __future__ import annotations

from dataclasses import dataclass

from sessions_app import bus
from sessions_app.caller import KEYS_OF_GROUP, KEYS_OF_WORKSPACE
from sessions_app.kit.people_tables import PEOPLE
from sessions_app.kit.triggers import INTO_BUS, Announce, AnnounceEach, Notify, RefuseUpdate, Tell, TriggerRule
from sessions_app.workspaces.belonging import ROLES

CLOCKS_DIFFER_SECONDS = 300
"""So far the clocks of a hub and of its database may be apart."""

_PROCESS_STEPS = ", ".join(
    f"'{step}'"
    for step in (
        "stopped>starting",
        "starting>running",
        "running>stopping",
        "stopping>stopped",
        "stopped>error",
        "starting>error",
        "running>error",
        "stopping>error",
    )
)


@dataclass(frozen=True, slots=True)
class RefuseFuture:
    """Refuse a row of `table` with a `column` in the future, by the clock of the database."""

    table: str
    column: str
    name: str
    message: str

    def sqlite(self) -> list[str]:
        later = f"strftime('%Y-%m-%d %H:%M:%f', 'now', '+{CLOCKS_DIFFER_SECONDS} seconds')"
        return [
            statement
            for event in ("INSERT", f"UPDATE OF {self.column}")
            for name in [f"{self.name}_{event.split()[0].lower()}"]
            for statement in (
                f"DROP TRIGGER IF EXISTS {name}",
                f"CREATE TRIGGER {name} BEFORE {event} ON {self.table} WHEN NEW.{self.column} > {later} "
                f"BEGIN SELECT RAISE(ABORT, '{self.message}'); END",
            )
        ]

    def postgresql(self) -> list[str]:
        later = f"clock_timestamp() + interval '{CLOCKS_DIFFER_SECONDS} seconds'"
        return [
            f"CREATE OR REPLACE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"RAISE EXCEPTION '{self.message}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
            f"CREATE OR REPLACE TRIGGER {self.name} BEFORE INSERT OR UPDATE OF {self.column} ON {self.table} "
            f"FOR EACH ROW WHEN (NEW.{self.column} > {later}) EXECUTE FUNCTION {self.name}()",
        ]


@dataclass(frozen=True, slots=True)
class AnnounceKeysOf(AnnounceEach):
    """As `AnnounceEach`, one event for each key of the person that a row of `table` is about."""

    def _insert(self, row: str, now: str) -> str:
        keys = f"SELECT '{self.subject}', id, {now} FROM sessions_app_apikey WHERE owner_id = {row}.{self.number}"  # noqa: S608 - our own names
        return f"{INTO_BUS} {keys}"


RULES: tuple[TriggerRule, ...] = (
    RefuseUpdate(
        "sessions_app_mcpsession",
        "mcphub_session_state_terminal",
        "OLD.state IN ('closed', 'expired') AND NEW.state <> OLD.state",
        "an ended session stays ended",
    ),
    RefuseFuture(
        "sessions_app_mcpsession",
        "created_at",
        "mcphub_session_not_in_future",
        "a session does not begin in the future: set the clock",
    ),
    RefuseUpdate(
        "sessions_app_serverprocess",
        "mcphub_process_status_steps",
        f"NEW.status <> OLD.status AND OLD.status || '>' || NEW.status NOT IN ({_PROCESS_STEPS})",
        "a process goes stopped, starting, running, stopping, stopped, or from any of them to error",
    ),
    Notify(),
    AnnounceEach(
        "sessions_app_apikey",
        "keys_changed",
        (
            "name",
            "owner_id",
            "workspace_id",
            "secret_hash",
            "previous_hash",
            "previous_until",
            "scopes",
            "calls_per_minute",
            "recorded_mib_per_day",
            "expires_at",
            "revoked_at",
        ),
    ),
    AnnounceEach("sessions_app_apikey_groups", "keys_changed", number="apikey_id"),
    # Ends what the key opened before the keys are read again.
    Tell(
        "sessions_app_apikey",
        "mcphub_key_ended",
        "UPDATE OF revoked_at",
        bus.CALLER_ENDED,
        "'key:' || OLD.id",
        "OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL",
    ),
    Announce("sessions_app_mcpworkspace", "workspaces_changed"),
    *(Announce(f"sessions_app_mcpworkspace_{role}", "workspaces_changed") for role in ROLES),
    # A person's key of a workspace does what its person may there.
    *(
        Tell(
            f"sessions_app_mcpworkspace_{role}",
            f"mcphub_workspace_{role}_{event.lower()}",
            event,
            bus.KEYS_CHANGED,
            f"'{KEYS_OF_WORKSPACE}' || {row}.mcpworkspace_id",
        )
        for role in ROLES
        for event, row in (("INSERT", "NEW"), ("DELETE", "OLD"))
    ),
    # A person's key does what its person may, who may be disabled, renamed, or lose a group or a permission.
    AnnounceKeysOf(PEOPLE.table, "keys_changed", ("is_active", "is_superuser", PEOPLE.name_column), PEOPLE.key),
    AnnounceKeysOf(PEOPLE.groups, "keys_changed", number=PEOPLE.member),
    AnnounceKeysOf(PEOPLE.permissions, "keys_changed", number=PEOPLE.member),
    AnnounceEach("auth_group_permissions", "keys_changed", number="group_id", prefix=KEYS_OF_GROUP),
    RefuseUpdate(
        "sessions_app_apikey",
        "mcphub_key_keeps_owner",
        "COALESCE(CAST(OLD.owner_id AS text), '') <> COALESCE(CAST(NEW.owner_id AS text), '')",
        "a key keeps its owner: make another key",
    ),
    RefuseUpdate(
        "sessions_app_apikey",
        "mcphub_key_keeps_workspace",
        "COALESCE(OLD.workspace_id, 0) <> COALESCE(NEW.workspace_id, 0)",
        "a key keeps its workspace: make another key",
    ),
    RefuseUpdate(
        "sessions_app_mcpworkspace",
        "mcphub_workspace_keeps_name",
        "OLD.slug <> NEW.slug",
        "a workspace keeps its name: calls on record have it",
    ),
)
