"""Every page of the console as its people have it, measured by a browser; ends with 1 where a page has a fault.

    python -m tests.rigs.walking [--data-dir DIR --port N] [--people NAME]... [--only WORDS]... [--after ADDRESS]
        [--languages en,ru] [--widths 1440,1280,390] [--theme light|dark] [--pictures DIR] [--answers]

Starts a demo of its own, unless --data-dir and --port name one that runs, and adds one row of each kind that the demo
has none of. Then each address of the URL configuration that answers a person with a page is opened as that person: an
operator of the whole hub, an auditor, the lead of a workspace, and somebody without a role. A row of the table has:

- axe: violations that axe calls serious or critical, light in the first language, dark in the others, unless --theme
  names one;
- Tabs: keys to the main action, straight and by the nearest skip link. The main action of a list is its first row, of a
  form its first field, of another page the first link or control of its content;
- main: landmarks of that role; wide: by how many pixels the page is wider than the window, at each width;
- KB: of the answer itself, without what it loads; console: errors in the browser's console;
- refused: links of the page that do not answer this person.

A page takes some seconds; with --answers nothing is rendered, and a row has landmarks, KB and refused alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urljoin, urlsplit

from playwright.sync_api import Error, sync_playwright

from tests.rigs import seeding
from tests.servers import ROOT, free_port

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
WIDTHS = (1440, 1280, 390)
MOST_TABS, MEDIAN_TABS, MOST_LIST_BYTES = 15, 8, 150_000
_ENDLESS = 40
"""Tabs after which the main action counts as out of reach."""

_LEFT_OUT = re.compile(
    r"admin/(logout|autocomplete|jsi18n)|/live/|notices/stream|^admin/\(|^(login|api|v0\.1|scim|oauth|authorize)\b|^\.well"
)
"""Addresses that end the login, never end, or are no page of the console."""

_MAIN_ACTION = """() => {
    const seen = (each) => each.checkVisibility({visibilityProperty: true}) && !each.disabled
        && !each.closest("[hidden], [inert]")
    const content = document.querySelector("#content, main") ?? document.body
    const first = (selector) => [...content.querySelectorAll(selector)].find(seen)
    const control = "input:not([type=hidden]), select:not(.select2-hidden-accessible), textarea, "
        + "[contenteditable=true], [role=textbox], [role=combobox]"
    const list = content.querySelector("#result_list")
    const found = content.querySelector("#changelist, #changelist-form, #result_list")
        ? (list ? first("#result_list tbody :is(th, td) a[href]") : first("a[href*='/add/']"))
          ?? first("a[href], button")
        : [...content.querySelectorAll("form")].flatMap((form) => [...form.querySelectorAll(control)]).find(seen)
          ?? [...content.querySelectorAll("form button, form summary")]
              .find((each) => seen(each) && (each.matches("button") || each.closest("details").querySelector(control)))
          ?? first("a[href], button, summary, [tabindex='0']")
    document.querySelector("[data-walked]")?.removeAttribute("data-walked")
    found?.setAttribute("data-walked", "")
    return found ? (found.textContent.trim() || found.name || found.id || found.tagName).slice(0, 30) : null
}"""
_IS_THERE = "() => document.activeElement?.closest('[data-walked]') !== null"
_FROM_THE_TOP = """() => {
    document.body.tabIndex = -1
    document.body.focus()
    document.body.removeAttribute("tabindex")
}"""
_LINK = re.compile(r"""<a\s[^>]*?href=["']([^"']*)""")


@dataclass
class Measured:
    """The findings about one page, for one person."""

    person: str
    where: str
    status: int
    size: int
    axe: list[str] = field(default_factory=list)
    straight: int | None = None
    shortest: int | None = None
    action: str | None = None
    mains: int = 0
    wide: dict[str, int] = field(default_factory=dict)
    console: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def is_list(self) -> bool:
        return re.fullmatch(r"/admin/\w+/\w+/", self.where) is not None

    def faults(self) -> Iterator[str]:
        yield from (f"axe: {each}" for each in self.axe)
        if self.mains != 1:
            yield f"{self.mains} main landmarks"
        if self.shortest is not None and self.shortest > MOST_TABS:
            yield f"{self.shortest} Tabs to {self.action!r}"
        yield from (f"{by} pixels too wide at {width}" for width, by in self.wide.items())
        if self.is_list and self.size > MOST_LIST_BYTES:
            yield f"a list of {self.size} bytes"
        yield from (f"console: {each}" for each in self.console)
        yield from (f"link refused: {each}" for each in self.refused)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder of a demo that runs")
    parser.add_argument("--port", type=int, default=0, help="its port")
    parser.add_argument("--people", action="append", help="operator, auditor, lead or nobody; all of them")
    parser.add_argument("--only", action="append", help="pages whose address holds this")
    parser.add_argument("--after", help="go on behind this address, where an earlier walk stopped")
    parser.add_argument("--languages", default="en,ru")
    parser.add_argument("--widths", type=_numbers, default=WIDTHS, help="of the window, in pixels")
    parser.add_argument("--theme", choices=["light", "dark"], help="in every language")
    parser.add_argument("--pictures", type=Path, help="keep a picture of each page, width and language here")
    parser.add_argument("--answers", action="store_true", help="render nothing")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder, port = options.data_dir, options.port
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-walking-")))
            port = stack.enter_context(_demo(folder))
        seeding.setup(str(folder))
        people, found = _prepared()
        wanted = [name for name in people if not options.people or name in options.people]
        found = [each for each in found if not options.only or any(words in each for words in options.only)]
        found = found[found.index(options.after) + 1 :] if options.after else found
        walker = stack.enter_context(_walker(f"http://127.0.0.1:{port}", options))
        measured = [each for name in wanted for each in walker.walk(name, people[name], found)]
    return _summed_up(measured)


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words.split(","))


@contextlib.contextmanager
def _demo(folder: Path) -> Iterator[int]:
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    words = [sys.executable, "-m", "mcphub.cli", "demo", "--data-dir", str(folder), "--port", str(port)]
    with subprocess.Popen(
        words, cwd=ROOT, env={**environment, "MCPHUB_ALLOW_NOT_DURABLE": "1"}, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        try:
            for line in demo.stdout:
                if line.startswith("ready "):
                    break
            else:
                raise SystemExit("The demo ended; its words above say why.")
            yield port
        finally:
            demo.terminate()


def _prepared() -> tuple[dict[str, list[dict[str, str]]], list[str]]:
    """Return the cookies of each person, and the addresses of all pages."""
    from django.contrib.auth.models import Group, User

    from sessions_app.models import McpWorkspace
    from tests.rigs import addresses

    rows = addresses.one_of_each()
    found = [
        addresses.address(pattern, rows)
        for pattern in dict.fromkeys(addresses.patterns())
        if not _LEFT_OUT.search(pattern)
    ]
    workspace = McpWorkspace.objects.order_by("pk").first()
    assert workspace is not None, "a demo has workspaces"
    leads = Group.objects.get_or_create(name="Leads of the rig")[0]
    workspace.operators.add(leads)
    workspace.auditors.add(leads)
    grown = {
        "operator": User.objects.filter(is_superuser=True).order_by("pk").first(),
        "auditor": _person("rig-auditor", Group.objects.get(name="Auditor"), is_staff=True),
        "lead": _person("rig-lead", leads, is_staff=False),
        "nobody": _person("rig-nobody", *workspace.members.all(), is_staff=False),
    }
    return {name: _cookies(person) for name, person in grown.items()}, list(dict.fromkeys(found))


def _person(name: str, *groups: Any, is_staff: bool) -> Any:
    from django.contrib.auth.models import User

    person, _made = User.objects.get_or_create(username=name, defaults={"is_staff": is_staff})
    person.groups.set(groups)
    return person


def _cookies(person: Any) -> list[dict[str, str]]:
    from django.conf import settings
    from django.test import Client

    client = Client()
    client.force_login(person)
    return [{"name": settings.SESSION_COOKIE_NAME, "value": client.cookies[settings.SESSION_COOKIE_NAME].value}]


@contextlib.contextmanager
def _walker(address: str, options: argparse.Namespace) -> Iterator[Walker]:
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield Walker(browser, address, options)
        browser.close()


class Walker:
    """Goes through pages as one person after the other."""

    def __init__(self, browser: Any, address: str, options: argparse.Namespace) -> None:
        self._browser = browser
        self._address = address
        self._languages: list[str] = options.languages.split(",")
        self._widths: tuple[int, ...] = options.widths
        self._theme: str | None = options.theme
        self._pictures: Path | None = options.pictures
        self._renders = not options.answers
        self._axe = (files("axe_playwright_python") / "axe.min.js").read_text()
        self._answers: dict[str, int] = {}

    def walk(self, person: str, cookies: list[dict[str, str]], found: Sequence[str]) -> list[Measured]:
        """Return what a person has of each of these addresses that is a page for them."""
        self._answers = {}
        contexts = {language: self._context(language, cookies) for language in self._languages}
        first = contexts[self._languages[0]]
        measured = []
        for each in self._pages(first, person, found):
            if self._renders:
                for language, context in contexts.items():
                    self._measure(context, each, language)
            print(_line(each), flush=True)
            measured.append(each)
        for context in contexts.values():
            context.close()
        return measured

    def _context(self, language: str, cookies: list[dict[str, str]]) -> Any:
        context = self._browser.new_context(
            base_url=self._address,
            locale=language,
            color_scheme=self._theme or ("light" if language == self._languages[0] else "dark"),
            reduced_motion="reduce",
        )
        context.add_cookies([{**cookie, "url": self._address} for cookie in cookies])
        context.set_default_timeout(60_000)
        return context

    def _pages(self, context: Any, person: str, found: Sequence[str]) -> Iterator[Measured]:
        for where in found:
            answer = self._asked(context, where)
            if answer is None:
                continue
            is_page = answer.headers.get("content-type", "").startswith("text/html") and b"</html>" in answer.body()
            if answer.status >= 500 or (answer.status == 200 and is_page):
                html = answer.text()
                of = Measured(person, where, answer.status, len(answer.body()), mains=html.count("<main"))
                of.refused = list(self._refused(context, where, html))
                yield of

    @staticmethod
    def _asked(context: Any, where: str) -> Any | None:
        try:
            return context.request.get(where, max_redirects=0, timeout=20_000)
        except Error:
            return None

    def _measure(self, context: Any, of: Measured, language: str) -> None:
        page = context.new_page()
        page.on("pageerror", lambda error: of.console.append(str(error)[:120]))
        page.on("console", lambda said: of.console.append(said.text[:120]) if said.type == "error" else None)
        try:
            for number, width in enumerate(self._widths):
                page.set_viewport_size({"width": width, "height": 900})
                if number == 0:
                    page.goto(of.where)
                    page.evaluate("document.fonts.ready.then(() => true)")
                by = page.evaluate("document.documentElement.scrollWidth") - width
                if by > 0:
                    of.wide[f"{width} ({language})"] = by
                if number == min(1, len(self._widths) - 1):
                    self._judge(page, of, language)
                self._take_picture(page, of, width, language)
        except Error as error:
            of.console.append(f"the browser: {str(error).splitlines()[0][:120]}")
        page.close()

    def _judge(self, page: Any, of: Measured, language: str) -> None:
        page.evaluate(self._axe)
        told = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        of.axe += [
            f"{each['id']} ({language}): {each['nodes'][0]['html'][:140]}"
            for each in told["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        of.mains = page.locator("main, [role=main]").count()
        if language == self._languages[0]:
            self._count_tabs(page, of)

    def _refused(self, context: Any, where: str, html: str) -> Iterator[str]:
        """Return the links that do not answer; of those that differ by their query one is asked."""
        for link in dict.fromkeys(_LINK.findall(html)):
            to = urlsplit(urljoin(self._address + where, unescape(link)))
            if f"{to.scheme}://{to.netloc}" != self._address or _LEFT_OUT.search(to.path.lstrip("/")):
                continue
            if to.path not in self._answers:
                answer = self._asked(context, to.path + (f"?{to.query}" if to.query else ""))
                self._answers[to.path] = answer.status if answer is not None else 0
            if self._answers[to.path] >= 400:
                yield f"{to.path} {self._answers[to.path]}"

    @staticmethod
    def _count_tabs(page: Any, of: Measured) -> None:
        """Press Tab from the top of the page; the Enter that follows a skip link counts as a key."""
        of.action = page.evaluate(_MAIN_ACTION)
        if of.action is None:
            return
        page.evaluate(_FROM_THE_TOP)
        of.straight = _pressed(page)
        ways = [of.straight]
        for number in range(1, page.locator(".hub-skip").count() + 1):
            page.evaluate(_FROM_THE_TOP)
            for _ in range(number):
                page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            ways.append(number + 1 + (0 if page.evaluate(_IS_THERE) else _pressed(page)))
        of.shortest = min(ways)

    def _take_picture(self, page: Any, of: Measured, width: int, language: str) -> None:
        if self._pictures is not None:
            name = of.where.strip("/").replace("/", "-") or "root"
            path = self._pictures / f"{of.person}-{name[:90]}-{width}-{language}.png"
            page.screenshot(path=path, full_page=True, animations="disabled")


def _pressed(page: Any) -> int:
    for number in range(1, _ENDLESS + 1):
        page.keyboard.press("Tab")
        if page.evaluate(_IS_THERE):
            return number
    return _ENDLESS + 1


def _line(of: Measured) -> str:
    wide = ",".join(f"{width}:+{by}" for width, by in of.wide.items()) or "-"
    tabs = f"{of.straight or '-'}/{of.shortest or '-'}"
    return (
        f"{of.person:<9}{of.where[:70]:<71}{of.status:>4}{len(of.axe):>4} axe{tabs:>7} Tabs{of.mains:>3} main"
        f"{of.size / 1000:>7.0f} KB{len(of.console):>3} console{len(of.refused):>3} refused  wide {wide}"
    )


def _summed_up(measured: Sequence[Measured]) -> int:
    wrong = 0
    for person in dict.fromkeys(each.person for each in measured):
        own = [each for each in measured if each.person == person]
        tabs = [each.shortest for each in own if each.shortest is not None] or [0]
        straight = [each.straight for each in own if each.straight is not None] or [0]
        lists = [each.size for each in own if each.is_list] or [0]
        faults = [f"  {each.where}: {words}" for each in own for words in dict.fromkeys(each.faults())]
        if median(tabs) > MEDIAN_TABS:
            faults.append(f"  the median of Tabs is {median(tabs)}")
        wrong += len(faults)
        print(
            f"\n{person}: {len(own)} pages, {sum(len(each.axe) for each in own)} of axe, Tabs median {median(tabs):g}"
            f" and worst {max(tabs)} (without skip links {median(straight):g} and {max(straight)}), largest list"
            f" {max(lists) / 1000:.0f} KB, {len(faults)} faults"
        )
        print("\n".join(faults))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
