"""Documents as HTML: no markup of theirs is passed on, and links lead to other documents of the same shelf."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from mcphub.console.documents import shelf
from mcphub.console.documents.shelf import PICTURES, HubDocument

PageOf = Callable[[str], str]
"""Returns the address of a document or picture by name; empty where the reader may not open it."""


@lru_cache(maxsize=1)
def _reader() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def rendered(document: HubDocument, page_of: PageOf) -> SafeString:
    """Return the document without its title. `page_of` decides where links and pictures lead."""
    tokens = _reader().parse(document.text())
    places = iter([heading.anchor for heading in document.headings])
    is_first = True
    body: list[Token] = []
    for token in tokens:
        if is_first and token.type in ("heading_open", "inline", "heading_close"):
            is_first = token.type != "heading_close"
            continue
        if token.type == "heading_open":
            token.attrSet("id", next(places, ""))
        elif token.type in ("th_open", "td_open"):
            token.attrs.pop("style", None)  # the policy of pages admits no styles in them
        elif token.type == "inline":
            token.children = list(_inline(document, token.children or [], page_of))
        body.append(token)
    html = str(_reader().renderer.render(body, _reader().options, {}))
    # What scrolls sideways is reached by the keyboard. The text is escaped, so these are the tags of the renderer.
    html = html.replace("<pre>", '<pre tabindex="0">').replace("<table>", '<div class="hub-wide" tabindex="0"><table>')
    # With html=False there is no other markup than that of markdown-it.
    return mark_safe(html.replace("</table>", "</table></div>"))  # noqa: S308


def _inline(document: HubDocument, tokens: list[Token], page_of: PageOf) -> Iterator[Token]:
    dropped = 0
    for token in tokens:
        if token.type == "link_open":
            address = _address(document, str(token.attrGet("href") or ""), page_of)
            dropped += not address
            if not address:
                continue
            token.attrSet("href", address)
            if "://" in address:
                token.attrSet("rel", "noreferrer")
        elif token.type == "link_close" and dropped:
            dropped -= 1
            continue
        elif token.type == "image":
            name = shelf.resolved(document.name, str(token.attrGet("src") or ""))
            token.attrSet("src", page_of(name) if name.startswith(f"{PICTURES}/") else "")
            token.attrSet("loading", "lazy")
            if (file := shelf.picture(name.removeprefix(f"{PICTURES}/"))) is not None:
                # Its place is kept before it is loaded, or a link to a heading leads elsewhere.
                for side, pixels in zip(("width", "height"), shelf.size_of(file), strict=True):
                    token.attrSet(side, str(pixels))
        yield token


def _address(document: HubDocument, target: str, page_of: PageOf) -> str:
    """Return where a link leads; empty: to what does not ship, so that its words stand alone."""
    if target.startswith(("https://", "http://", "#")):
        return target
    file, _hash, anchor = target.partition("#")
    page = page_of(shelf.resolved(document.name, file))
    return f"{page}#{anchor}" if page and anchor else page
