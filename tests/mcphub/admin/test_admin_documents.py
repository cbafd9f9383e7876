"""The documents inside the console: each opens, its links lead on, and nothing of a text becomes markup."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urldefrag

import pytest
from django.test import Client
from django.urls import reverse

from mcphub.console.documents import shelf
from mcphub.console.documents.rendering import rendered
from mcphub.console.documents.shelf import FOR_CLIENTS, HubDocument
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db


class Places(HTMLParser):
    """Reads the anchors, links and pictures of a page's article."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.styled: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        if tag in ("a", "img"):
            self.links.append(given.get("href", given.get("src", "")))
        if "style" in given or any(name.startswith("on") for name in given):
            self.styled.append(tag)


def articles(client: Client, name: str, base: str) -> Places:
    page = client.get(reverse(base, args=[name]))
    assert page.status_code == 200, name
    return Places(page.content.decode().partition("<article")[2].partition("</article>")[0])


@pytest.mark.parametrize(("base", "names"), [("docs", None), ("my-docs", FOR_CLIENTS)])
def test_every_document_opens_and_its_links_lead_on(log_in, base, names):
    client = log_in("Viewer")
    if base == "my-docs":
        client.force_login(UserFactory())
    pages = {name: articles(client, name, f"{base}-page") for name in names or shelf.documents()}
    seen: set[str] = set()
    for name, page in pages.items():
        assert page.styled == [], name
        for target in page.links:
            if target.startswith("https://") or target.startswith("http://"):
                continue
            address, anchor = urldefrag(target)
            if address and address not in seen:
                seen.add(address)
                assert client.get(address).status_code == 200, (name, target)
            there = pages[name if not address else address.partition("/docs/")[2].strip("/")] if anchor else None
            assert there is None or unescape(anchor) in there.ids, (name, target)
    assert len(seen) > (50 if base == "docs" else 0)


def test_the_shelf_names_every_document(log_in):
    page = log_in("Viewer").get(reverse("docs-shelf")).content.decode()
    for name, document in shelf.documents().items():
        assert document.is_cover or f'href="{reverse("docs-page", args=[name])}"' in page, name


def test_markup_in_a_text_stays_text():
    class Written(HubDocument):
        def text(self) -> str:
            return "# T\n\n<script>x</script> [a](javascript:x) ![b](../../etc/passwd) <b>c</b>\n\n## `<i>`\n"

    html = str(rendered(Written("start/x", "T", "", ()), lambda name: ""))
    assert not re.search(r"<(script|b|i|a)\b", html)
    assert "passwd" not in html


def test_pictures_keep_their_place_before_they_are_loaded(log_in):
    page = log_in("Viewer").get(reverse("docs-page", args=["operate/console"])).content.decode()
    pictures = re.findall(r"<img [^>]*>", page.partition("<article")[2])
    assert pictures
    for each in pictures:
        assert re.search(r'width="[1-9]\d{2,}" height="[1-9]\d{2,}"', each), each


@pytest.mark.parametrize("name", ["start/nothing", "../pyproject", "start/../secure/quotas", "pictures/calls", "x"])
def test_what_is_not_on_the_shelf_is_not_found(log_in, name):
    assert log_in("superuser").get(f"/admin/docs/{name}/").status_code == 404


def test_a_person_without_a_role_reads_the_pages_for_clients_alone():
    client = Client()
    assert client.get(reverse("my-docs-page", args=["start/clients"])).status_code == 302
    client.force_login(UserFactory())
    assert client.get(reverse("my-docs-page", args=["start/clients"])).status_code == 200
    assert client.get(reverse("my-docs-page", args=["operate/deployment"])).status_code == 404
    assert client.get(reverse("docs-page", args=["start/clients"])).status_code == 302
