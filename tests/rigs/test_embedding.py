"""A project of somebody else, made by the page about it, serves its functions as recorded tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx2
import pytest

from tests.host_project import HostProject
from tests.servers import ROOT, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.rig


RECEIVER = """
from django.dispatch import receiver
from tools_catalog.signals import tool_changed


@receiver(tool_changed)
def note(*, tool, change, **_):
    with open("changes.log", "a") as log:
        print(tool, change, file=log)
"""
SAVED = """from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from sessions_app.history.models import AuditEvent

name = "NAME"
with CaptureQueriesContext(connection) as queries:
    bob = User.objects.create(username=name)
    bob.is_active = False
    bob.save()
print(len(queries), *AuditEvent.objects.filter(subject_label=name).order_by("pk").values_list("kind", flat=True))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProject]:
    made = HostProject(tmp_path_factory.mktemp("host") / "project")
    made.follow()
    with (made.folder / "shop" / "tools.py").open("a") as tools:
        tools.write(RECEIVER)
    with made.served():
        yield made


def test_a_function_of_the_project_answers_a_client(project: HostProject) -> None:
    assert project.call("count_people")["structuredContent"] == {"result": 1}


def test_a_model_of_the_project_answers_with_the_rights_of_the_person(project: HostProject) -> None:
    found = project.call("user_list", search="ann")["structuredContent"]
    assert [(row["username"], row["is_active"]) for row in found["results"]] == [("ann", True)]


def test_the_call_is_on_record_in_the_name_of_its_person(project: HostProject) -> None:
    project.call("count_people")
    columns = "'tool_name', 'status', 'caller_label', 'principal'"
    asked = (
        f"from invocations.models import McpToolInvocation as Call; print(*Call.objects.values_list({columns}).last())"
    )
    recorded = project.run(f'python manage.py shell -v 0 -c "{asked}"')
    assert recorded.startswith("count_people ok")
    assert "laptop" in recorded
    assert "as they were sealed" in project.run("python manage.py mcphub audit verify")


def test_the_server_sends_which_tool_changed(project: HostProject) -> None:
    changes = project.folder / "changes.log"
    for word in ("disable", "enable"):
        before = changes.read_text() if changes.exists() else ""
        project.run(f"python manage.py mcphub tool {word} count_people")
        until(lambda before=before: changes.exists() and changes.read_text() == before + "count_people changed\n")


def test_outside_of_tests_no_record_can_be_deleted(project: HostProject) -> None:
    """The rule is lifted in databases of tests alone, so that Django can flush them."""
    project.call("count_people")
    delete = "from django.db import connection as c; c.cursor().execute('DELETE FROM invocations_mcptoolinvocation')"
    tried = project.attempt(f'python manage.py shell -v 0 -c "{delete}"')
    assert tried.returncode != 0
    assert "records never change" in tried.stderr


def test_rest_is_at_the_prefix(project: HostProject) -> None:
    project.call("count_people")
    with project.rest("audit:read") as rest:
        root = rest.get("/api/").json()
        calls = next(each["address"] for each in root["resources"] if each["name"] == "invocations")
        assert calls == f"{project.url}/api/invocations/"
        page = rest.get(calls, params={"limit": 1, "tool": "count_people"}).json()
        assert page["results"][0]["tool_name"] == "count_people"
        assert page["next"] is None or page["next"].startswith(f"{project.url}/api/invocations/?")
        assert (
            rest.get("/api/invocations/x/").json()["error"]["message"].endswith("GET /hub/api/invocations/ lists them.")
        )
        assert not {"people", "groups", "saved-views"} & {each["name"] for each in root["resources"]}


def test_rest_refuses_visitors_without_a_key(project: HostProject) -> None:
    refused = httpx2.get(f"{project.url}/api/invocations/", timeout=PATIENCE_SECONDS)
    assert refused.status_code == 401
    assert refused.headers["content-type"] == "application/problem+json"


def test_a_login_of_the_project_opens_rest(project: HostProject) -> None:
    with project.browser() as browser:
        assert browser.get("/hub/api/invocations/").status_code == 200
        changed = browser.patch("/hub/api/audit/retention", json={"rows_days": 30})
        assert changed.status_code == 403
        assert "CSRF" in changed.text


def test_the_openapi_document_names_the_prefix(project: HostProject) -> None:
    document = httpx2.get(f"{project.url}/api/schema?format=json", timeout=PATIENCE_SECONDS).json()
    assert document["servers"] == [{"url": "/hub"}]
    assert document["paths"]["/api/invocations/"]["get"]["responses"]["401"]


def test_the_description_of_the_server_names_the_prefix(project: HostProject) -> None:
    found = httpx2.get(f"{project.url}/.well-known/mcp", timeout=PATIENCE_SECONDS).json()
    assert found["transports"][0]["url"] == f"{project.url}/mcp"


def test_a_client_without_a_key_is_not_sent_to_sign_in(project: HostProject) -> None:
    refused = httpx2.post(f"{project.url}/mcp", json={}, timeout=PATIENCE_SECONDS)
    assert refused.status_code == 401
    assert "resource_metadata" not in refused.headers["www-authenticate"]


def test_a_call_without_a_key_is_refused(project: HostProject) -> None:
    assert project.ask("tools/list", key="mcph_wrong")["error"]["data"]["errorCode"] == "unauthorized"


def test_pages_of_the_project_stay_where_they_were(project: HostProject) -> None:
    found = httpx2.get(project.url.removesuffix("/hub") + "/admin/login/", timeout=PATIENCE_SECONDS)
    assert found.status_code == 200
    assert "Django administration" in found.text
    assert "content-security-policy" not in found.headers


def test_the_stock_admin_shows_calls_and_lets_nobody_edit_them(project: HostProject) -> None:
    project.call("count_people")
    with project.browser() as browser:
        calls = browser.get("/admin/invocations/mcptoolinvocation/")
        assert "count_people" in calls.text
        assert browser.get("/admin/invocations/mcptoolinvocation/add/").status_code == 403
        assert browser.get("/admin/sessions_app/apikey/").status_code == 200
        assert "count_people" in browser.get("/admin/tools_catalog/mcptooldefinition/").text


def test_the_stock_admin_shows_what_a_call_got_and_records_who_read_it(project: HostProject) -> None:
    project.call("count_people")
    with project.browser() as browser:
        listed = browser.get("/admin/invocations/mcptoolinvocation/?q=count_people").text
        (call, *_) = re.findall(r'href="(/admin/invocations/mcptoolinvocation/\d+/change/)', listed)
        assert "structuredContent" in browser.get(call).text
        assert call in browser.get("/admin/sessions_app/auditevent/").text


def test_the_stock_admin_switches_a_tool_in_the_name_of_its_person(project: HostProject) -> None:
    with project.browser() as browser:
        page = "/admin/tools_catalog/mcptooldefinition/?q=user_retrieve"
        (row,) = re.findall(r'name="_selected_action" value="(\d+)"', browser.get(page).text)
        for action in ("switch_off", "switch_on"):
            sent = {"action": action, "_selected_action": row, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
            assert "Changed: 1." in browser.post(page, data=sent).text
    rows = "E.objects.order_by('pk').values_list('via', 'actor_label')"
    asked = f"from sessions_app.history.models import AuditEvent as E; print(*{rows}.last())"
    assert project.run(f'python manage.py shell -v 0 -c "{asked}"') == "admin ann\n"


def test_an_admin_site_without_the_pages_is_named_with_the_line_to_write(project: HostProject) -> None:
    urls = project.folder / "shop" / "urls.py"
    before = urls.read_text()
    try:
        own = 'from django.contrib import admin\nfrom django.urls import path\n\nsite = admin.AdminSite(name="staff")\n'
        urls.write_text(own + 'urlpatterns = [path("office/", site.urls)]\n')
        found = project.attempt("python manage.py check").stderr
        assert "mcphub.W104" in found
        assert "add_pages(site)" in found
        mended = own + "from mcphub.embedding import add_pages\nadd_pages(site)\n"
        urls.write_text(mended + 'urlpatterns = [path("office/", site.urls)]\n')
        assert project.run("python manage.py check") == "System check identified no issues (0 silenced).\n"
    finally:
        urls.write_text(before)


def test_it_takes_ten_lines_of_the_project(project: HostProject) -> None:
    lines_of_the_tools = 7
    assert project.lines - lines_of_the_tools <= 10


def test_django_own_commands_are_those_of_django(project: HostProject) -> None:
    assert (
        project.run("python manage.py makemigrations --check --dry-run shop") == "No changes detected in app 'shop'\n"
    )
    assert "words" not in project.run("python manage.py migrate --help")


def test_the_primary_keys_of_a_host_are_not_those_of_the_hub(project: HostProject) -> None:
    settings = project.folder / "shop" / "settings.py"
    before = settings.read_text()
    try:
        settings.write_text(before + '\nDEFAULT_AUTO_FIELD = "django.db.models.AutoField"\n')
        assert project.run("python manage.py makemigrations --check --dry-run") == "No changes detected\n"
    finally:
        settings.write_text(before)


def test_what_is_missing_is_named_with_the_line_to_write(project: HostProject) -> None:
    settings, asgi = project.folder / "shop" / "settings.py", project.folder / "shop" / "asgi.py"
    before = settings.read_text(), asgi.read_text()
    try:
        asgi.write_text("")
        settings.write_text(before[0] + "\nUSE_TZ = False\n")
        found = project.attempt("python manage.py check").stderr
        assert "mcphub.E104" in found
        assert "USE_TZ = True" in found
        assert "application = mount(get_asgi_application())" in found
    finally:
        settings.write_text(before[0])
        asgi.write_text(before[1])


def test_the_example_of_a_test_passes_in_the_project(project: HostProject) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/integrate/testing.md").read_text(), re.S | re.M)
    (project.folder / "tests.py").write_text(example)
    done = project.attempt("python manage.py test tests")
    assert done.returncode == 0, done.stderr
    assert "Ran 1 test" in done.stderr


def test_a_server_with_the_defaults_of_sqlite_does_not_start(project: HostProject) -> None:
    settings = project.folder / "shop" / "settings.py"
    before = settings.read_text()
    try:
        settings.write_text(before.replace("= SQLITE_OPTIONS", "= {}"))
        assert "mcphub.E106" in project.attempt("python manage.py check").stderr
        started = project.attempt("uvicorn shop.asgi:application --port 0")
        assert started.returncode != 0
        assert "= SQLITE_OPTIONS`" in started.stderr
    finally:
        settings.write_text(before)


def test_people_are_followed_unless_the_project_says_no(project: HostProject) -> None:
    settings = project.folder / "shop" / "settings.py"
    before = settings.read_text()
    count, *events = project.run(f"python manage.py shell -v 0 -c '{SAVED.replace('NAME', 'bob')}'").split()
    assert int(count) > 2
    assert events == ["user.created", "user.changed", "user.ended"]
    try:
        settings.write_text(before.replace("MCPHUB = {", 'MCPHUB = {"FOLLOW_PEOPLE": False, '))
        saved = project.run(f"python manage.py shell -v 0 -c '{SAVED.replace('NAME', 'eve')}'")
        assert saved == "2\n"  # an INSERT and an UPDATE
    finally:
        settings.write_text(before)


@pytest.mark.parametrize(
    ("chosen", "installed"),
    [
        ("", "approvals call_rules error_groups guardrails login quotas signin"),
        ('"FEATURES": ["call_rules", "quotas"], ', "call_rules login quotas signin"),
        ('"FEATURES": "none", ', "login signin"),
    ],
)
def test_the_project_chooses_the_features_that_are_embedded(project: HostProject, chosen: str, installed: str) -> None:
    settings = project.folder / "shop" / "settings.py"
    before = settings.read_text()
    asked = "from sessions_app.kit.features import installed; print(*sorted(each.feature for each in installed()))"
    try:
        settings.write_text(before.replace("MCPHUB = {", f"MCPHUB = {{{chosen}"))
        assert project.run(f'python manage.py shell -v 0 -c "{asked}"') == f"{installed}\n"
        assert project.run("python manage.py check") == "System check identified no issues (0 silenced).\n"
    finally:
        settings.write_text(before)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('"PUBLIC_ADDRESS": 1', "PUBLIC_ADDRESS, and the hub has no such setting"),
        ('"DATABASE_URL": "x"', "DATABASES counts"),
        ('"FEATURES": ["chat"]', "chat, which need the hub's own project"),
        ('"SIGN_IN": True', "MCPHUB has SIGN_IN, whose pages and documents need the hub's own project"),
        ('"CALL_TIMEOUT_SECONDS": "soon"', "MCPHUB_CALL_TIMEOUT_SECONDS is 'soon'; write a number"),
        ('"LIMITS": {"max_cals": 5}', "MCPHUB_LIMITS names max_cals, and there is no such limit. Write max_calls"),
        ('"FOLLOW_PEOPLE": "perhaps"', "MCPHUB_FOLLOW_PEOPLE is 'perhaps'; write 1 or 0"),
        ('"MAX_CALLS": "many"', "MCPHUB_MAX_CALLS is 'many'; write a number"),
    ],
)
def test_a_wrong_setting_is_one_sentence(project: HostProject, entry: str, words: str) -> None:
    code = f"import mcphub.embedding as e; e.add_hub({{'MCPHUB': {{{entry}}}, 'SECRET_KEY': 'x'}})"
    assert words in project.attempt(f"python -c {json.dumps(code)}").stderr.replace("\\", "")
