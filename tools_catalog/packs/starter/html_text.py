"""HTML reduced to the text that a reader would see, for models. Standard library only."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "canvas", "iframe", "object"})
_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "dd", "div", "dl", "dt", "figure", "footer", "form"}
    | {"header", "main", "nav", "ol", "p", "pre", "section", "table", "title", "tr", "ul", "body", "br"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_FOLLOWED = ("http://", "https://", "mailto:")


def readable(html: str, base_url: str = "") -> str:
    """Return the visible text: headings as `#`, list items as `-`, links as `[text](absolute URL)`.

    Never raises: broken markup gives whatever text it holds.
    """
    reader = _Reader(base_url)
    reader.feed(html)
    reader.close()
    return reader.text()


class _Reader(HTMLParser):
    def __init__(self, base_url: str) -> None:
        super().__init__(convert_charrefs=True)
        self._base_url = base_url
        self._pieces: list[str] = []
        self._unseen: list[str] = []
        self._link: str | None = None
        self._verbatim = 0

    def text(self) -> str:
        lines = [re.sub(r"[ \t\r\f\v\xa0]+", " ", line).strip() for line in "".join(self._pieces).split("\n")]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _UNSEEN:
            self._unseen.append(tag)
        if self._unseen:
            return
        given = dict(attrs)
        if tag in _HEADINGS:
            self._pieces.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "li":
            self._pieces.append("\n- ")
        elif tag in ("td", "th"):
            self._pieces.append(" | ")
        elif tag in _BLOCKS:
            self._pieces.append("\n" if tag in ("br", "tr") else "\n\n")
        elif tag == "img" and given.get("alt"):
            self._pieces.append(f"[image: {given['alt']}]")
        elif tag == "a" and self._link is None:
            self._open_link(given.get("href") or "")
        self._verbatim += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if self._unseen:
            if tag == self._unseen[-1]:
                self._unseen.pop()
            return
        if tag == "a" and self._link is not None:
            self._pieces.append(f"]({self._link})")
            self._link = None
        elif tag in _HEADINGS or tag in _BLOCKS:
            self._pieces.append("\n\n" if tag != "tr" else "\n")
        if tag == "pre" and self._verbatim:
            self._verbatim -= 1

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self._pieces.append(data if self._verbatim else re.sub(r"\s+", " ", data))

    def _open_link(self, href: str) -> None:
        try:
            target = urljoin(self._base_url, href.strip())
        except ValueError:
            return
        if href and not href.startswith("#") and target.startswith(_FOLLOWED):
            self._link = target
            self._pieces.append("[")
