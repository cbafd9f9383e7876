"""A tool's view beside the call that a person tries: it gets the result, asks, and reaches nothing of the console."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser.operating import open_tool
from tests.browser.test_catalogue import look

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

SEED = '''
from django.contrib.auth.models import User
from tools_catalog.backends import python
from tools_catalog.models import McpResource, McpToolDefinition
User.objects.create_superuser("operator", password="a long password")
PAGE = """<!doctype html><title>Face</title><h1>Waiting</h1><p id=reach></p><button>Again</button>
<button>Change</button><button>Forbidden</button><script>
let id = 0;
const waiting = new Map();
const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const ask = (method, params) => new Promise((resolve) => {
  id += 1;
  waiting.set(id, resolve);
  send({ id, method, params });
});
const show = (text) => { document.querySelector("h1").textContent = text; };
addEventListener("message", ({ data }) => {
  if (data.method === "ui/notifications/tool-input") window.given = data.params.arguments;
  if (data.method === "ui/notifications/tool-result") show(`${given.text}: ${data.params.content[0].text}`);
  if (waiting.has(data.id)) waiting.get(data.id)(data);
});
const [again, change, forbidden] = document.querySelectorAll("button");
for (const [button, name] of [[again, "echo"], [change, "changing"], [forbidden, "for_models"]]) {
  button.onclick = async () => {
    const answer = await ask("tools/call", { name, arguments: { text: "tick" } });
    show(answer.error ? `error: ${answer.error.message}` : `now: ${answer.result.content[0].text}`);
  };
}
(async () => {
  const { result } = await ask("ui/initialize", { appInfo: { name: "face", version: "1" }, appCapabilities: {},
    protocolVersion: "2026-01-26" });
  send({ method: "ui/notifications/initialized" });
  send({ method: "ui/notifications/size-changed", params: { height: 333 } });
  const tried = [origin];
  for (const reach of [() => parent.document.title, () => document.cookie, () => localStorage.length]) {
    try { tried.push(String(reach())); } catch (error) { tried.push(error.name); }
  }
  document.getElementById("reach").textContent = [...tried, result.hostContext.toolInfo.tool.name].join(" ");
})();
</script>"""
McpResource.objects.create(uri="ui://own/face.html", name="face", mime_type="text/html;profile=mcp-app", content=PAGE)
python.discover(["starter"])
told = python.definition("tools_catalog.packs.starter.tools:echo")
for name, words in (
    ("echo", {"meta": {"ui": {"resourceUri": "ui://own/face.html"}}}),
    ("changing", {"read_only": False, "meta": {"ui": {"resourceUri": "ui://own/face.html"}}}),
    ("for_models", {"meta": {"ui": {"resourceUri": "ui://own/face.html", "visibility": ["model"]}}}),
):
    tool = McpToolDefinition(name=name, description="It is tried.", input_schema=told["inputSchema"], backend="python",
        configuration=told["configuration"], **{"read_only": True, "destructive": False, **words})
    tool.full_clean()
    tool.save()
'''


def test_a_view_shows_the_result_asks_the_person_and_reaches_nothing_else(page: Any) -> None:
    open_tool(page, "echo")
    number = page.url.partition("/mcptooldefinition/")[2].partition("/")[0]
    page.goto(f"/admin/tools_catalog/mcptooldefinition/{number}/try/")
    page.locator("[name=argument_0]").fill("tock")
    page.get_by_role("button", name="Call", exact=True).click()
    view = page.frame_locator("iframe.hub-view")
    expect(view.get_by_role("heading")).to_have_text("tock: tock")
    # A page without an origin, a host that it cannot look into, no cookies, no storage.
    expect(view.locator("#reach")).to_have_text("null SecurityError SecurityError SecurityError echo")
    expect(page.locator("iframe.hub-view")).to_have_js_property("offsetHeight", 333)
    view.get_by_role("button", name="Again").click()
    expect(view.get_by_role("heading")).to_have_text("now: tick")
    expect(page.get_by_role("alertdialog")).to_be_hidden()

    view.get_by_role("button", name="Change").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("changing")
    look(page, "tool-view")
    page.get_by_role("alertdialog").get_by_role("button", name="Deny").click()
    expect(view.get_by_role("heading")).to_have_text("error: You denied it.")
    view.get_by_role("button", name="Change").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Allow").click()
    expect(view.get_by_role("heading")).to_have_text("now: tick")
    view.get_by_role("button", name="Forbidden").click()
    expect(view.get_by_role("heading")).to_contain_text("may call no tool 'for_models'")

    _asked_by_hand(page, number)


def _asked_by_hand(page: Any, number: str) -> None:
    """What a view sends that no script of a library would."""
    token = page.locator("[name=csrfmiddlewaretoken]").first.input_value()
    address = f"/admin/tools_catalog/mcptooldefinition/{number}/view/asked/"

    def ask(message: object) -> dict[str, Any]:
        headers = {"X-CSRFToken": token, "Content-Type": "application/json", "Referer": page.url}
        found: dict[str, Any] = page.request.post(address, data=json.dumps(message), headers=headers).json()
        return found

    changing = {"method": "tools/call", "params": {"name": "changing", "arguments": {"text": "tick"}}}
    assert ask({**changing, "agreed": "yes"}).keys() == {"asks"}
    own = ask({"method": "resources/read", "params": {"uri": "ui://own/face.html"}})
    assert own["result"]["contents"][0]["uri"] == "ui://own/face.html"
    for message in (
        {"method": "tools/call", "params": {"name": ["echo"]}},
        {"method": "tools/list", "params": {}},
        {"method": "resources/read", "params": {"uri": "ui://other/page.html"}},
        {"method": "resources/read", "params": {}},
        {"method": "tools/call", "params": 7},
        {"method": "tools/call", "params": {"name": "echo", "arguments": "x" * 300_000}},
        [],
    ):
        assert ask(message).keys() == {"error"}
