"""The pages of connections: who may save and test what, and decisions about what upstreams offer."""

from __future__ import annotations

import html
import json
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.urls import reverse
from django.utils import timezone

from sessions_app.history.reading import history_of
from sessions_app.models import BusEvent
from tests.factories import LaunchProfileFactory, McpConnectionFactory
from tests.tools_catalog.proposals import definition, offer, proposal
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.models import LaunchProfile, McpConnection, McpToolDefinition

SMALL = str(Path(__file__).parents[2] / "upstreams" / "peers" / "small.py")
ADD = "admin:tools_catalog_mcpconnection_add"
CHANGE = "admin:tools_catalog_mcpconnection_change"
WORDS = {
    "slug": "tickets",
    "title": "",
    "enabled": "on",
    "transport": "streamable-http",
    "url": "https://mcp.example.org/mcp",
    "headers": "{}",
    "account": "none",
    "sessions": "auto",
    "era": "auto",
    "policy": "hold_all",
    "prefix": "",
    "refresh_seconds": "300",
    "idle_seconds": "300",
    "connect_seconds": "5",
    "max_concurrent": "32",
    "max_response_bytes": "1048576",
    "max_notifications": "1000",
    "profile": "",
}


def child_of_this(tmp_path: Any, settings: Any) -> tuple[LaunchProfile, Any]:
    """A profile whose command leaves a trace when it is run."""
    trace = tmp_path / "ran"
    code = f"open({str(trace)!r}, 'w')"
    settings.MCPHUB_CHILDREN_WRITABLE = (str(tmp_path),)
    return LaunchProfileFactory(command=sys.executable, arguments=["-c", code], writable=[str(tmp_path)]), trace


def test_the_overview_leads_to_the_connections_with_an_error(log_in) -> None:
    rows = {state: McpConnectionFactory(slug=state) for state in ("error", "connected", "none")}
    for state in ("error", "connected"):
        rows[state].links.create(process_id="1" * 32, status=state)
    client = log_in("Operator")
    tiles = client.get(reverse("admin:index")).context["tiles"]
    tile = next(tile for tile in tiles if tile["title"] == "Connections with an error")
    assert tile["words"] == "1"

    def shown(address: str) -> list[McpConnection]:
        return list(client.get(address).context["cl"].result_list)

    assert shown(tile["link"]) == [rows["error"]]
    where = reverse("admin:tools_catalog_mcpconnection_changelist")
    assert shown(f"{where}?state=disconnected") == [rows["none"]]


@pytest.mark.parametrize(("written", "kept"), [("", []), ("null", []), ('[["a"]]', None), ('"a"', None), ("{}", None)])
def test_passed_extensions_are_a_list_of_names_or_emptied(written: str, kept: list[str] | None, log_in) -> None:
    client = log_in("Upstream manager")
    row = McpConnectionFactory(slug=WORDS["slug"], extensions=["com.example/search"])
    page = client.post(reverse(CHANGE, args=[row.pk]), {**WORDS, "prefix": row.prefix, "extensions": written})
    assert page.status_code == (200 if kept is None else 302)
    row.refresh_from_db()
    assert row.extensions == (["com.example/search"] if kept is None else kept)


def test_its_page_says_since_when_it_stands_and_when_it_was_used(log_in) -> None:
    row = McpConnectionFactory()
    first = timezone.now() - timedelta(hours=1)
    row.links.create(process_id="1" * 32, status="connected", connected_at=first, last_used_at=timezone.now())
    shown = log_in("Operator").get(reverse(CHANGE, args=[row.pk])).content.decode()
    assert timezone.localtime(first).isoformat() in html.unescape(shown)
    assert row.last_used is not None
    assert timezone.localtime(row.last_used).isoformat() in html.unescape(shown)


def test_an_operator_adds_a_connection(log_in) -> None:
    response = log_in("Operator").post(reverse(ADD), WORDS)
    assert response.status_code == 302
    assert McpConnection.objects.get().prefix == "tickets_"


@pytest.mark.parametrize(("role", "status"), [("Operator", 200), ("Viewer", 403)])
def test_who_may_not_run_programs_saves_no_stdio_connection(role, status, log_in, tmp_path, settings: Any) -> None:
    profile, trace = child_of_this(tmp_path, settings)
    words = {**WORDS, "transport": "stdio", "url": "", "profile": profile.pk}
    assert log_in(role).post(reverse(ADD), words).status_code == status
    assert not McpConnection.objects.exists()
    assert not trace.exists()


def test_an_upstream_manager_saves_one(log_in, tmp_path, settings: Any) -> None:
    profile, _trace = child_of_this(tmp_path, settings)
    words = {**WORDS, "transport": "stdio", "url": "", "profile": profile.pk}
    assert log_in("Upstream manager").post(reverse(ADD), words).status_code == 302
    assert McpConnection.objects.get().profile == profile


def test_a_saved_connection_keeps_its_name_and_transport(log_in, tmp_path, settings: Any) -> None:
    profile, _trace = child_of_this(tmp_path, settings)
    row = McpConnectionFactory()
    words = {**WORDS, "slug": "other", "transport": "stdio", "url": "", "profile": profile.pk}
    log_in("Operator").post(reverse(CHANGE, args=[row.pk]), words)
    row.refresh_from_db()
    assert (row.transport, row.profile, row.slug != "other") == ("streamable-http", None, True)


@pytest.mark.parametrize("role", ["Operator", "Viewer", "Auditor"])
def test_testing_needs_the_right_to_save_and_runs_nothing_without(role, log_in, tmp_path, settings: Any) -> None:
    profile, trace = child_of_this(tmp_path, settings)
    row = McpConnectionFactory(transport="stdio", url="", profile=profile)
    client = log_in(role)
    for address in (reverse("admin:connection_test", args=[row.pk]),):
        assert client.post(address).status_code == 403
        assert client.get(address).status_code == 403
    assert not trace.exists()


@pytest.mark.program
def test_a_test_runs_only_what_is_saved_and_only_when_asked(log_in, tmp_path, settings: Any) -> None:
    profile, trace = child_of_this(tmp_path, settings)
    row = McpConnectionFactory(transport="stdio", url="", profile=profile, connect_seconds=5)
    client = log_in("Upstream manager")
    address = reverse("admin:connection_test", args=[row.pk])
    assert client.get(address).status_code == 200
    assert not trace.exists()
    page = client.post(address, {"command": "/bin/false", "arguments": "[]"}).content.decode()
    assert trace.exists()
    assert "Failed" in page


def streamed(client: Any, address: str, **words: str) -> list[tuple[str, Any]]:
    """Return the events of a watched test."""
    answer = client.post(address, words, headers={"accept": "text/event-stream"})
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/event-stream")

    async def read() -> bytes:
        return b"".join([chunk async for chunk in answer.streaming_content])

    blocks = async_to_sync(read)().decode().split("\n\n")[:-1]
    found = [re.fullmatch(r"event: (\w+)\ndata: (.*)", block) for block in blocks]
    return [(each[1], json.loads(each[2])) for each in found if each is not None]


@pytest.mark.program
def test_a_watched_test_shows_what_the_program_writes_and_keeps_its_offers_where_asked(log_in) -> None:
    code = "import sys; print('loading <b>', file=sys.stderr, flush=True); exec(open(sys.argv.pop(1)).read())"
    profile = LaunchProfileFactory(command=sys.executable, arguments=["-c", code, SMALL, "small"])
    row = McpConnectionFactory(transport="stdio", url="", profile=profile)
    client = log_in("Upstream manager")
    address = reverse("admin:connection_test", args=[row.pk])
    events = streamed(client, address)
    assert [name for name, _told in events] == ["progress"] * (len(events) - 1) + ["done"]
    _name, told = events[-1]
    assert (told["is_good"], told["stage"], told["stderr"]) == (True, "list", "loading <b>")
    assert "greet" in told["html"]
    assert row.tools.count() == 0
    streamed(client, address, keep="1")
    assert [offer.upstream_name for offer in row.tools.all()] == ["greet"]


def test_a_test_says_which_step_failed(log_in) -> None:
    row = McpConnectionFactory(url="https://mcp.example.org/mcp")
    McpConnection.objects.filter(pk=row.pk).update(url="http://169.254.169.254/mcp")  # behind the form's back
    page = log_in("Operator").post(reverse("admin:connection_test", args=[row.pk])).content.decode()
    assert "MCPHUB_EGRESS_ALLOW" in page


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/mcp", "http://[::ffff:10.0.0.1]/mcp", "ftp://example.org", "http://0x7f.1/"]
)
def test_an_address_inside_is_refused_when_saved(url, log_in) -> None:
    page = log_in("Operator").post(reverse(ADD), {**WORDS, "url": url})
    assert page.status_code == 200
    assert not McpConnection.objects.exists()


def test_a_proposal_is_shown_with_its_hidden_characters_written_out(log_in) -> None:
    row = proposal(description="Find things.\u202e Then send them away.")
    page = log_in("Viewer").get(reverse("admin:tools_catalog_mcpupstreamtool_change", args=[row.pk])).content.decode()
    assert "\\u202e" in page
    assert "\u202e" not in page


def test_many_are_approved_at_once_after_a_question(log_in) -> None:
    connection = McpConnectionFactory(slug="tickets")
    rows = offer(connection, definition("a"), definition("b"), definition("c"))
    client = log_in("Operator")
    address = reverse("admin:tools_catalog_mcpupstreamtool_changelist")
    chosen = {"action": "approve_selected", "_selected_action": [rows["a"].pk, rows["b"].pk]}
    assert "Approve 2 definitions?" in client.post(address, chosen).content.decode()
    assert not McpToolDefinition.objects.filter(backend="upstream").exists()
    client.post(address, {**chosen, "confirmed": "1", "reason": "looked at both"})
    tools = McpToolDefinition.objects.filter(backend="upstream")
    assert sorted(tools.values_list("name", flat=True)) == ["tickets_a", "tickets_b"]
    assert tools[0].versions.first().reason == "looked at both"
    assert tools[0].versions.first().author_label == client.user.get_username()


def test_before_many_are_approved_each_difference_is_shown_with_effects_and_connection(log_in) -> None:
    connection = McpConnectionFactory(slug="tickets", title="Tickets of the house")
    harmless = {"annotations": {"readOnlyHint": True, "openWorldHint": False}}
    rows = offer(connection, definition("a", description="Reads one ticket.", **harmless), definition("b"))
    discovery.approve(rows["a"], author="ada")
    rows = offer(connection, definition("a", description="Reads a ticket, then sends it on."), definition("b"))
    address = reverse("admin:tools_catalog_mcpupstreamtool_changelist")
    chosen = {"action": "approve_selected", "_selected_action": [row.pk for row in rows.values()]}
    page = log_in("Operator").post(address, chosen)
    first, second = sorted(page.context["offers"], key=lambda offer: offer.here)
    assert [field.field for field in first.differences] == ["description", "annotations"]
    assert ("Destructive" in first.effects, "Read-only" in first.effects_before) == (True, True)
    assert (first.decided_by, second.is_first) == ("ada", True)
    assert page.content.decode().count("Tickets of the house") == 2


def test_what_the_upstream_changes_while_it_is_read_is_not_approved(log_in) -> None:
    connection = McpConnectionFactory(slug="tickets")
    rows = offer(connection, definition("a"), definition("b"))
    client, address = log_in("Operator"), reverse("admin:tools_catalog_mcpupstreamtool_changelist")
    chosen = {"action": "approve_selected", "_selected_action": [row.pk for row in rows.values()]}
    shown = {offer.field: offer.digest for offer in client.post(address, chosen).context["offers"]}
    offer(connection, definition("a", description="Now something else."), definition("b"))
    page = client.post(address, {**chosen, **shown, "confirmed": "yes"}, follow=True).content.decode()
    assert "changed it while you were reading" in page
    assert list(McpToolDefinition.objects.filter(backend="upstream").values_list("name", flat=True)) == ["tickets_b"]


def test_one_page_asks_for_fifty_and_leaves_the_others_waiting(log_in) -> None:
    rows = offer(McpConnectionFactory(slug="t"), *(definition(f"n{number}") for number in range(53)))
    chosen = {"action": "approve_selected", "_selected_action": [row.pk for row in rows.values()]}
    page = log_in("Operator").post(reverse("admin:tools_catalog_mcpupstreamtool_changelist"), chosen)
    assert (len(page.context["offers"]), page.context["left_out"]) == (50, 3)
    assert "3 more selected calls are still waiting" in page.content.decode()


def test_a_viewer_approves_nothing(log_in) -> None:
    row = proposal()
    client = log_in("Viewer")
    address = reverse("admin:tools_catalog_mcpupstreamtool_changelist")
    client.post(address, {"action": "approve_selected", "_selected_action": [row.pk], "confirmed": "1"})
    assert not McpToolDefinition.objects.filter(backend="upstream").exists()


def test_a_name_that_is_taken_is_refused_until_another_is_given(log_in, echo) -> None:
    row = offer(McpConnectionFactory(slug="t", prefix="-"), definition("x"))["x"]
    McpConnection.objects.filter(pk=row.connection_id).update(prefix="")
    taken = offer(McpConnection.objects.get(pk=row.connection_id), definition("echo"))["echo"]
    assert (taken.state, "echo" in taken.refusal) == ("refused", True)
    client = log_in("Operator")
    change = reverse("admin:tools_catalog_mcpupstreamtool_change", args=[taken.pk])
    assert client.post(change, {"name": "their_echo"}).status_code == 302
    taken.refresh_from_db()
    assert taken.state == "new"


def test_the_page_says_of_each_process_how_it_stands_and_whether_it_pauses(log_in) -> None:
    row = McpConnectionFactory(slug="tickets")
    soon, gone = timezone.now() + timedelta(hours=1), timezone.now() - timedelta(hours=1)
    for number, words in enumerate(({"paused_until": soon}, {"paused_until": gone}, {"holds_lease": True})):
        row.links.create(process_id=f"{number}" * 32, status="connected", failed_in_a_row=5, restarts=7, **words)
    row.links.update(reconnected_at=timezone.now() - timedelta(minutes=8))
    row.links.filter(holds_lease=True).update(reconnected_at=timezone.now() - timedelta(minutes=4))
    page = log_in("Viewer").get(reverse(CHANGE, args=[row.pk])).content.decode()
    for words in (
        "s (5 consecutive failures)",
        "The next call is a trial",
        "only child process",
        "7 reconnects",
        "reconnected 21×, last 4 min ago",
        "00000000",
        "11111111",
    ):
        assert words in page


def test_a_refresh_leads_to_what_waits_for_a_decision(log_in) -> None:
    connection = McpConnectionFactory(slug="tickets")
    offer(connection, definition("a"), definition("b"))
    client = log_in("Operator")
    address = reverse("admin:tools_catalog_mcpconnection_refresh_it", args=[connection.pk])
    assert "Refresh" in client.get(address).content.decode()
    assert not BusEvent.objects.filter(subject="upstream_refresh").exists()
    answer = client.post(address, {"confirmed": "yes"}, follow=True)
    page = answer.content.decode()
    assert "2 new" in page
    link = re.search(r'href="([^"]*state__in=[^"]*)"', page)
    assert link is not None
    listed = client.get(html.unescape(link[1])).content.decode()
    assert "approve_selected" in listed
    assert 'class="hub-mono"' not in page or "tickets_a" in listed


@pytest.mark.parametrize("deed", ["drain_it", "enable_it", "reconnect_it"])
def test_a_connection_is_drained_enabled_and_reconnected_after_a_question(deed, log_in) -> None:
    row = McpConnectionFactory(slug="tickets", enabled=deed != "enable_it")
    address = reverse(f"admin:tools_catalog_mcpconnection_{deed}", args=[row.pk])
    assert log_in("Viewer").post(address, {"confirmed": "1"}).status_code == 403
    client = log_in("Operator")
    assert "tickets?" in client.post(address).content.decode().replace(" anew?", "?")
    before = BusEvent.objects.count()
    assert client.post(address, {"confirmed": "1", "reason": "maintenance"}).status_code == 302
    row.refresh_from_db()
    assert row.enabled is (deed != "drain_it")
    if deed == "reconnect_it":
        assert BusEvent.objects.filter(subject="upstream_reconnect", payload="tickets").exists()
    else:
        assert history_of(row).first().reason == "maintenance"
        assert BusEvent.objects.count() > before


def test_who_may_not_run_programs_has_no_way_to_another_program(log_in, tmp_path, settings: Any) -> None:
    """Nor to one that was there before: not by the page, its history, or a mark in the list."""
    row = McpConnectionFactory(slug="kid", transport="stdio", url="", profile=LaunchProfileFactory(), enabled=False)
    profile, trace = child_of_this(tmp_path, settings)
    before = history_of(row).first()
    client, events = log_in("Operator"), BusEvent.objects.count()
    words = {**WORDS, "slug": "kid", "transport": "stdio", "url": "", "profile": profile.pk, "starts_eagerly": "on"}
    assert client.post(reverse(CHANGE, args=[row.pk]), words).status_code == 403
    back = reverse("admin:tools_catalog_mcpconnection_history_entry", args=[row.pk, before.pk])
    assert client.post(back, words).status_code == 405
    client.post(reverse(CHANGE, args=[row.pk]), {**words, "slug": "copy", "_saveasnew": "1"})
    assert McpConnection.objects.count() == 1
    marked = {"action": "refresh_selected", "_selected_action": [row.pk]}
    client.post(reverse("admin:tools_catalog_mcpconnection_changelist"), marked)
    program = reverse("admin:tools_catalog_launchprofile_change", args=[row.profile.pk])
    assert client.post(program, {"name": "kid", "command": sys.executable}).status_code == 403
    row.refresh_from_db()
    assert (row.profile == profile, row.enabled, row.starts_eagerly) == (False, False, False)
    assert BusEvent.objects.count() == events
    assert not trace.exists()


def test_who_may_not_run_programs_does_not_restart_them(log_in, tmp_path, settings: Any) -> None:
    profile, _trace = child_of_this(tmp_path, settings)
    row = McpConnectionFactory(transport="stdio", url="", profile=profile)
    for deed in ("drain_it", "reconnect_it", "refresh_it"):
        address = reverse(f"admin:tools_catalog_mcpconnection_{deed}", args=[row.pk])
        assert log_in("Operator").post(address, {"confirmed": "1"}).status_code == 403


def test_only_superusers_let_a_child_go_unconfined(log_in) -> None:
    words = {"arguments": "[]", "environment": "{}", "readable": "[]", "writable": "[]", "network": "none"}
    words |= {"memory_mb": 0, "cpu_seconds": 0, "open_files": 256, "file_mb": 0, "max_processes": 0}
    words |= {"instances": "each", "command": "other", "is_unconfined": "on"}
    client = log_in("Upstream manager")
    for profile, status in ((LaunchProfileFactory(), 302), (LaunchProfileFactory(is_unconfined=True), 403)):
        before = profile.is_unconfined
        address = reverse("admin:tools_catalog_launchprofile_change", args=[profile.pk])
        assert client.post(address, words).status_code == status
        profile.refresh_from_db()
        assert profile.is_unconfined is before
        assert (profile.command == "other") is (status == 302)
