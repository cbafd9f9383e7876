"""The command line as a script meets it: exit status, standard output, one sentence on standard error."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.utils import timezone

from mcphub.clients import SIGN_IN
from tests import forking, template
from tests.in_process import ROOT, environment, inside, run
from tests.mcphub import running
from tests.servers import free_port
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.models import LaunchProfile, McpConnection, McpToolDefinition, McpUpstreamTool, Secret

pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose database is made."""
    path = tmp_path_factory.mktemp("home")
    template.copy_to(path / "hub.sqlite3")
    return path


WRONG_FLAGS = {
    "port of zero": ["--port", "0"],
    "port too high": ["--port", "65536"],
    "port in words": ["--port", "http"],
    "no value": ["--port"],
    "unknown flag": ["--prot", "1"],
    "abbreviated flag": ["--por", "8000"],
    "surplus word": ["now"],
    "heartbeat of zero": ["--heartbeat-interval-ms", "0"],
    "negative timeout": ["--request-timeout-ms", "-5"],
    "timeout not above heartbeat": ["--request-timeout-ms", "25000"],
    "no clients": ["--max-clients", "0"],
    "no workers": ["--workers", "0"],
    "a mode that is not there": ["--mode", "carrier-pigeon"],
    "a port for stdio": ["--mode", "stdio", "--port", "8000"],
    "origin with a path": ["--cors", "https://app.example/x"],
    "empty data directory": ["--data-dir", " "],
    "anonymous beyond loopback": ["--allow-anonymous", "--host", "0.0.0.0"],
    "exposed without a name": ["--host", "0.0.0.0"],
}


@pytest.mark.parametrize("flags", WRONG_FLAGS.values(), ids=WRONG_FLAGS.keys())
def test_wrong_flags_stop_with_one_sentence_and_status_2(home: Path, flags: list[str]) -> None:
    ended = run(home, "serve", *flags, MCPHUB_PORT=str(free_port()))
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith("mcphub serve: ")
    assert ended.stderr.rstrip().endswith(".")


def test_an_unknown_pack_stops_the_start_with_one_sentence(home: Path) -> None:
    ended = running.run(home, "serve", "--pack", "nothing", MCPHUB_PORT=str(free_port()))
    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MCPHUB_PORT", "many"),
        ("MCPHUB_WORKERS", "1.5"),
        ("MCPHUB_EGRESS_DENY", "http://bad.example"),
        ("MCPHUB_MODE", "carrier-pigeon"),
        ("MCPHUB_LIMITS", "max_calls=0"),
        ("MCPHUB_LIMITS", "max_calls=1.5"),
        ("MCPHUB_LIMITS", "max_calls"),
        ("MCPHUB_LIMITS", "max_cals=5"),
        ("MCPHUB_MAX_CALLS", "0"),  # of 1.0.0
        ("MCPHUB_DEBUG", "perhaps"),
        ("MCPHUB_DATABASE_URL", "mysql://somewhere/x"),
        ("MCPHUB_DATABASE_DIRECT_URL", "postgres://hub@db.example/hub"),  # beside SQLite
        ("MCPHUB_DATABASE_DIRECT_URL", "nonsense"),
        ("MCPHUB_PEER_ADDRESS", "10.0.0.5"),
        ("MCPHUB_PEER_ADDRESS", "tls://10.0.0.5:8100"),
        ("MCPHUB_PEER_ADDRESS", "10.0.0.5:port"),
        ("MCPHUB_PEER_ADDRESS", "127.0.0.1:8000"),  # where clients connect
        ("MCPHUB_LOG_FORMAT", "xml"),
    ],
)
def test_wrong_variables_stop_with_one_sentence_that_names_them(home: Path, variable: str, value: str) -> None:
    ended = run(home, "serve", **{variable: value})
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert variable in ended.stderr


def test_ports_for_other_machines_are_none_of_the_hubs_own(home: Path) -> None:
    ended = run(home, "serve", MCPHUB_PEER_ADDRESS="127.0.0.1:9463", MCPHUB_METRICS_PORT="9464", MCPHUB_WORKERS="2")
    assert ended.returncode == 2
    assert "9463 to 9464" in ended.stderr
    assert "MCPHUB_METRICS_PORT" in ended.stderr


def test_what_serve_takes_where_nothing_is_said(home: Path) -> None:
    code = (
        "from django.conf import settings as s; from mcphub.process.serve import Listen; l = Listen.from_environment();"
        "print(l.host, l.port, s.MCPHUB_HEARTBEAT_SECONDS, s.MCPHUB_CALL_TIMEOUT_SECONDS, s.MCPHUB_MAX_CLIENTS)"
    )
    assert run(home, "shell", "--no-imports", "-c", code).stdout == "127.0.0.1 8000 25 60 10\n"


def test_limits_are_one_variable_and_those_of_the_first_version_still_work(home: Path) -> None:
    code = "from django.conf import settings as s; print(s.MCPHUB_MAX_CALLS, s.MCPHUB_DRAIN_SECONDS, s.MCPHUB_KEY_DAYS)"
    given = {"MCPHUB_LIMITS": "max_calls=5, max_calls=7, drain_seconds=0.5", "MCPHUB_KEY_DAYS": "3"}
    given["MCPHUB_MAX_CALLS"] = "9"  # both: the new one counts
    assert run(home, "shell", "--no-imports", "-c", code, **given).stdout == "7 0.5 3\n"
    advised = run(home, "check", **given).stderr
    assert "MCPHUB_KEY_DAYS: replaced by MCPHUB_LIMITS" in advised
    assert 'Write MCPHUB_LIMITS="key_days=3"' in advised


def test_a_limit_that_does_not_exist_is_refused_with_the_one_that_is_meant(home: Path) -> None:
    assert "Write max_calls, if that is meant." in run(home, "serve", MCPHUB_LIMITS="max_cals=5").stderr
    assert "docs/operate/limits.md lists all." in run(home, "serve", MCPHUB_LIMITS="zzz=5").stderr


def test_options_in_the_addresses_of_the_database_hold(home: Path) -> None:
    code = (
        "from django.conf import settings as s; from sessions_app.kit.database import direct_settings;"
        "print(s.DATABASES['default']['OPTIONS']['sslmode'], direct_settings()['OPTIONS'], direct_settings()['HOST'])"
    )
    addresses = {
        "MCPHUB_DATABASE_URL": "postgres://hub@pool.example/hub?sslmode=require",
        "MCPHUB_DATABASE_DIRECT_URL": "postgres://hub@db.example/hub?sslmode=verify-full",
    }
    done = run(home, "shell", "--no-imports", "-c", code, **addresses)
    assert done.stdout == "require {'sslmode': 'verify-full'} db.example\n", done.stderr


def test_debug_beyond_loopback_is_refused(home: Path) -> None:
    ended = run(home, "serve", "--host", "0.0.0.0", MCPHUB_DEBUG="1", MCPHUB_ALLOWED_HOSTS="hub.example")
    assert ended.returncode == 2
    assert "MCPHUB_DEBUG" in ended.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_in_use_is_said_at_once_with_status_1(tmp_path: Path, workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = running.run(tmp_path / "new", "serve", "--port", str(port), "--workers", workers)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert str(port) in ended.stderr
    assert not (tmp_path / "new" / "hub.sqlite3").exists()


def test_a_database_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    url = f"postgres://nobody@127.0.0.1:{free_port()}/nothing"
    ended = running.run(tmp_path, "token", "create", "x", MCPHUB_DATABASE_URL=url)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1
    assert "MCPHUB_DATABASE_URL" in ended.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["audit", "policy"],
        ["catalog", "dump"],
        ["chat", "--model", "none", "hello"],
        ["client-config", "cursor"],
        ["doctor"],
        ["serve", "--port", "0"],
        ["stdio", "now"],
        ["token", "create", ""],
        ["showmigrations", "sessions"],
    ],
    ids=" ".join,
)
def test_a_program_of_its_own_says_what_a_forked_one_and_a_call_in_process_say(home: Path, words: list[str]) -> None:
    """Each other test of a command forks it, or calls it: see `tests/forking.py` and `tests/in_process.py`."""
    told = environment(home, MCPHUB_PORT=str(free_port()))
    anew = subprocess.run(
        [sys.executable, "-m", "mcphub.cli", *words],
        cwd=ROOT,
        env=told,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    forked = forking.run("mcphub.cli", *words, env=told, timeout=PATIENCE_SECONDS)
    assert (forked.returncode, forked.stdout, forked.stderr) == (anew.returncode, anew.stdout, anew.stderr)
    if words[0] != "stdio":
        called = run(home, *words, MCPHUB_PORT=told["MCPHUB_PORT"])
        assert (called.returncode, called.stdout, called.stderr) == (anew.returncode, anew.stdout, anew.stderr)


def test_help_and_version_need_no_settings(tmp_path: Path) -> None:
    for flag in ("--help", "--version"):
        ended = run(tmp_path / "new", flag, MCPHUB_PORT="many")
        assert ended.returncode == 0
        assert "mcphub" in ended.stdout
    assert not (tmp_path / "new").exists()


def test_a_command_that_does_not_exist_is_answered_with_the_ones_that_do(home: Path) -> None:
    ended = run(home, "dance")
    assert ended.returncode == 2
    assert all(name in ended.stderr for name in ("serve", "token", "catalog", "doctor", "migrate"))


def test_django_commands_take_the_data_directory(tmp_path: Path) -> None:
    template.copy_to(tmp_path / "this" / "hub.sqlite3")
    ended = run(tmp_path / "not this", "showmigrations", "sessions", "--data-dir", str(tmp_path / "this"))
    assert ended.returncode == 0
    assert "[X] 0001_initial" in ended.stdout
    assert not (tmp_path / "not this").exists()


def test_token_create_works_before_the_first_start_and_prints_the_key_last(tmp_path: Path) -> None:
    ended = run(tmp_path, "token", "create", "robot", "--scope", "tools:list", "--expires", "30")
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-1].startswith("mcph_")
    assert len(ended.stdout.splitlines()) == 1


def test_rules_that_a_killed_first_start_left_out_are_installed_by_the_next(tmp_path: Path) -> None:
    """Migrations are committed one by one; the rules in the database come after the last."""
    template.copy_to(tmp_path / "hub.sqlite3")
    rules = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'"
    with closing(sqlite3.connect(tmp_path / "hub.sqlite3")) as database:
        [installed] = database.execute(rules).fetchone()
        assert installed > 0
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.commit()
    (tmp_path / "migrated").unlink()
    assert run(tmp_path, "token", "create", "two").returncode == 0
    with closing(sqlite3.connect(tmp_path / "hub.sqlite3")) as database:
        assert database.execute(rules).fetchone() == (installed,)


def test_a_database_that_lost_its_migrations_is_migrated_though_a_start_saw_their_end(tmp_path: Path) -> None:
    """As one that was restored from before an upgrade, beside a data directory that was not."""
    template.copy_to(tmp_path / "hub.sqlite3")
    assert run(tmp_path, "migrate", "sessions", "zero", "--verbosity", "0").returncode == 0
    assert run(tmp_path, "token", "create", "two").returncode == 0
    with closing(sqlite3.connect(tmp_path / "hub.sqlite3")) as database:
        assert database.execute("SELECT count(*) FROM django_session").fetchone() == (0,)


@pytest.mark.parametrize(
    "arguments",
    [
        ["token"],
        ["token", "create"],
        ["token", "create", ""],
        ["token", "create", "x", "--scope", "root"],
        ["token", "create", "x", "--expires", "0"],
        ["catalog"],
        ["catalog", "load"],
        ["catalog", "load", "nothing.json"],
        ["client-config", "emacs"],
    ],
)
def test_other_commands_refuse_wrong_arguments_in_one_sentence(home: Path, arguments: list[str]) -> None:
    ended = run(home, *arguments)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1


def test_a_catalogue_travels_whole_and_loading_it_again_changes_nothing(home: Path, tmp_path: Path) -> None:
    assert run(home, "catalog", "load", "starter").returncode == 0
    assert "8 unchanged" in run(home, "catalog", "load", "starter").stdout
    dumped = run(home, "catalog", "dump")
    bundle = tmp_path / "all.json"
    bundle.write_text(dumped.stdout)
    assert json.loads(dumped.stdout)["format"] == "mcphub-bundle/1"
    elsewhere = tmp_path / "elsewhere"
    template.copy_to(elsewhere / "hub.sqlite3")
    assert run(elsewhere, "catalog", "load", str(bundle)).returncode == 0
    assert run(elsewhere, "catalog", "dump").stdout == dumped.stdout


def test_client_configurations_carry_address_and_key(home: Path) -> None:
    url = "https://hub.example/mcp"
    for client in ("vscode", "claude", "cline", "roo", "cursor"):
        shown = run(home, "client-config", client, "--url", url, "--token", "mcph_key").stdout
        assert url in shown
        assert "Bearer mcph_key" in shown
        json.loads(shown)
    for client in ("claude-code", "inspector"):
        shown = run(home, "client-config", client, "--url", url, "--token", "mcph_key").stdout
        assert url in shown
        assert "'Authorization: Bearer mcph_key'" in shown


def test_client_configurations_hold_the_address_alone_unless_a_key_is_wanted(home: Path) -> None:
    for client in SIGN_IN:
        ended = run(home, "client-config", client, MCPHUB_PUBLIC_URL="http://hub.example:8000/")
        assert "http://hub.example:8000/mcp" in ended.stdout
        assert "uthorization" not in ended.stdout
        assert "allow it" in ended.stderr
    refused = run(home, "client-config", "cline", MCPHUB_CLIENT_REGISTRATION="0")
    assert "MCPHUB_CLIENT_REGISTRATION" in refused.stderr


def test_client_configuration_without_a_key_says_how_to_get_one(home: Path) -> None:
    ended = run(home, "client-config", "vscode", "--with-key", MCPHUB_PUBLIC_URL="http://hub.example:8000/")
    assert "http://hub.example:8000/mcp" in ended.stdout
    assert "YOUR-KEY" in ended.stdout
    assert "token create" in ended.stderr
    for words in (["curl"], ["vscode"]):
        ended = run(home, "client-config", *words, MCPHUB_SIGN_IN="0")
        assert "YOUR-KEY" in ended.stdout
        assert "token create" in ended.stderr


def test_a_service_gets_an_id_and_a_secret_once(home: Path) -> None:
    made = run(home, "service", "create", "builder", "--scope", "tools:list")
    assert [line.split()[0] for line in made.stdout.splitlines()] == ["client_id", "client_secret"]
    again = run(home, "service", "create", "builder")
    assert (again.returncode, again.stdout) == (2, "")
    for wrong in (["--group", "nobody"], ["--endpoint", "/admin"], ["--scope", "audit:read"]):
        refused = run(home, "service", "create", "other", *wrong)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)


def test_doctor_is_content_with_a_new_hub(home: Path) -> None:
    ended = run(home, "doctor", MCPHUB_PORT=str(free_port()))
    assert ended.returncode == 0, ended.stdout
    assert "Nothing is wrong." in ended.stdout


def test_doctor_names_what_is_wrong_and_how_to_mend_it(home: Path, tmp_path: Path) -> None:
    unmade = run(tmp_path, "doctor", MCPHUB_PORT=str(free_port()))
    assert unmade.returncode == 1
    assert "mcphub migrate" in unmade.stdout

    home.chmod(0o755)
    try:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = str(other.getsockname()[1])
            other.settimeout(0)
            ended = run(home, "doctor", MCPHUB_PORT=port, MCPHUB_DEBUG="1", MCPHUB_PUBLIC_URL="http://x.example")
    finally:
        home.chmod(0o700)
    assert ended.returncode == 1
    for word in ("MCPHUB_DEBUG", "chmod 700", port, "MCPHUB_ALLOWED_HOSTS"):
        assert word in ended.stdout


@pytest.mark.parametrize("command", ["serve", "stdio"])
@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
def test_no_start_in_a_data_directory_that_others_may_look_into(tmp_path: Path, mode: int, command: str) -> None:
    data = tmp_path / "open"
    data.mkdir()
    data.chmod(mode)
    start = running.run if command == "stdio" else run
    ended = start(data, command, MCPHUB_PORT=str(free_port()))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"(mode {mode:04o}); run `chmod 700 {data}`" in ended.stderr
    assert not (data / "hub.sqlite3").exists()


def test_what_the_hub_writes_is_for_its_user_alone(tmp_path: Path) -> None:
    """Files as they are written, whatever the mask of the shell: the lock of a start, the database, keys."""
    data = tmp_path / "data"
    words = [sys.executable, "-m", "mcphub.cli", "token", "create", "first"]
    subprocess.run(
        words, cwd=ROOT, env=environment(data), umask=0o022, check=True, capture_output=True, timeout=PATIENCE_SECONDS
    )
    found = {path.name: path.stat().st_mode & 0o077 for path in (data, *data.rglob("*"))}
    assert {"start.lock", "hub.sqlite3"} <= set(found)
    assert not any(found.values()), found


def test_tools_of_an_operator_import_what_the_hub_itself_does_without(home: Path, tmp_path: Path) -> None:
    """What the hub keeps out of its own memory is no business of other code."""
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich" / "__init__.py").touch()
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "__init__.py").touch()
    (tmp_path / "house" / "tools.py").write_text(
        "import requests\nimport rich\nfrom django.contrib.postgres.fields import ArrayField\n"
        "print(rich.__file__, ArrayField.__name__)\n"
    )
    ended = running.run(home, "doctor", MCPHUB_PORT=str(free_port()), MCPHUB_APPS="house", PYTHONPATH=str(tmp_path))
    assert ended.stderr == ""
    assert ended.stdout.startswith(f"{tmp_path}/rich/__init__.py ArrayField\n")
    assert "Nothing is wrong." in ended.stdout
    assert ended.returncode == 0


def test_doctor_names_the_file_of_an_operator_that_cannot_be_loaded(home: Path, tmp_path: Path) -> None:
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "__init__.py").touch()
    (tmp_path / "house" / "tools.py").write_text("import math\nimport nothing_of_the_kind\n")
    ended = running.run(home, "doctor", MCPHUB_PORT=str(free_port()), MCPHUB_APPS="house", PYTHONPATH=str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr == ""
    assert "ModuleNotFoundError: No module named 'nothing_of_the_kind'" in ended.stdout
    assert f"{tmp_path}/house/tools.py, line 2" in ended.stdout
    assert "MCPHUB_APPS" in ended.stdout


def _upstreams() -> None:
    secret = Secret(name="held", origins="api.example.org", places="headers.X-Key")
    secret.set_value("value")
    secret.save()
    wants = {"X-Key": "{secret:held}"}

    def tool(name, host, headers):
        configuration = {"url": f"https://{host}/", "headers": headers}
        McpToolDefinition.objects.create(
            name=name, description=name, backend="http", input_schema={"type": "object"}, configuration=configuration
        )

    tool("t", "other.example.org", wants)
    for number in range(5):
        tool(f"many{number}", "api.example.org", {"X-Key": "{secret:none}"})
    profile = LaunchProfile.objects.create(name="p", command="true", environment={"A": "{secret:lacking}"})
    child = McpConnection.objects.create(slug="child", transport="stdio", profile=profile)
    child.links.create(process_id="a", status="connecting", error_message="The upstream closed the connection.")
    row = McpConnection.objects.create(slug="far", transport="sse", url="https://far.example.org/sse", headers=wants)
    McpUpstreamTool.objects.create(
        connection=row,
        upstream_name="a",
        name="far.a",
        seen={},
        seen_digest="d",
        seen_schema_digest="d",
        seen_at=timezone.now(),
        state="new",
    )


def test_doctor_looks_at_upstreams_and_at_whom_secrets_are_for(tmp_path: Path) -> None:
    template.copy_to(tmp_path / "hub.sqlite3")
    with inside(tmp_path):
        _upstreams()
    told = run(tmp_path, "doctor", MCPHUB_PORT=str(free_port())).stdout
    assert "The tool t needs the secret held, which is not for https://other.example.org." in told
    assert "many0, many1, many2 and 2 more need the secret none, which does not exist." in told
    assert "The connection far needs the secret held, which is not for https://far.example.org." in told
    assert "The connection child needs the secret lacking, which does not exist." in told
    assert "Waiting for a decision: 1 of what far offers." in told
    assert "The connection far has never connected, and no process reported why." in told
    assert "The connection child has never connected: The upstream closed the connection." in told


def test_a_client_is_told_how_to_start_the_hub_itself(home: Path) -> None:
    for client in ("vscode", "claude", "cline", "roo", "cursor"):
        shown = json.loads(run(home, "client-config", client, "--stdio", "--token", "mcph_key").stdout)
        server = (shown.get("servers") or shown["mcpServers"])["mcp-hub"]
        assert server["args"][-3:] == ["stdio", "--data-dir", str(home)]
        assert Path(server["command"]).is_file()
        assert server["env"] == {"MCPHUB_API_KEY": "mcph_key"}
    for client in ("claude-code", "inspector"):
        shown_words = run(home, "client-config", client, "--stdio", "--token", "mcph_key").stdout
        assert f"stdio --data-dir {home}" in shown_words
        assert "-e MCPHUB_API_KEY=mcph_key" in shown_words
    assert '"env"' not in run(home, "client-config", "cursor", "--stdio").stdout
    assert run(home, "client-config", "cursor", "--stdio", "--url", "http://x/mcp").returncode == 2
    refused = run(home, "client-config", "curl", "--stdio")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)


def test_a_provider_is_added_once_with_its_models(home: Path) -> None:
    words = ("provider", "add", "local", "http://127.0.0.1:8081/v1")
    allowed = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    refused = run(home, *words, "--model", "small")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "MCPHUB_EGRESS_ALLOW" in refused.stderr
    first = run(home, *words, "--model", "small", "--json-schema", "--default", **allowed)
    assert first.stdout == "local/small, the default model\n"
    assert run(home, *words, "--model", "large", "--default", **allowed).returncode == 0
    again = run(home, *words, "--model", "large", **allowed)
    assert (again.returncode, "already exists" in again.stderr) == (2, True)
    elsewhere = run(home, "provider", "add", "local", "http://127.0.0.1:9/v1", "--model", "x", **allowed)
    assert (elsewhere.returncode, "choose another name" in elsewhere.stderr) == (2, True)
    with closing(sqlite3.connect(home / "hub.sqlite3")) as database:
        rows = database.execute(
            "SELECT name, is_default, tools, json_schema FROM chat_chatmodel ORDER BY name"
        ).fetchall()
    assert rows == [("large", 1, 1, 0), ("small", 0, 0, 1)]
