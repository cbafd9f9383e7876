"""A JSON value as a tree of HTML that folds without scripts; a script adds a search over it (mcphub/json_tree.js)."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from sessions_app.kit.shown import INLINE_CHARACTERS, json_block, pretty, visible

MOST_NODES = 1500
_DEEPEST = 40
_OPEN_DEPTH = 3
_OPEN_MEMBERS = 25
_EMPTY = SafeString("")


@dataclass
class _TreeRoom:
    left: int = MOST_NODES


class _TooLarge(Exception):
    pass


def json_tree(value: object, name: str, label: str) -> SafeString:
    """Return the value with its tools; as plain text where it is too large for a tree. `name` is unique on the page."""
    text = pretty(value)
    try:
        if len(text) > INLINE_CHARACTERS:
            raise _TooLarge
        shown = _node(value, 0, _TreeRoom())
    except _TooLarge:
        return json_block(value, label)
    return format_html(
        '<div class="hub-tree" data-tree role="group" aria-label="{}"><div class="hub-tree-tools">'
        '<input type="search" class="hub-input" data-tree-search hidden placeholder="{}" aria-label="{}">'
        '<span class="hub-subtle" data-tree-found role="status"></span>'
        '<button type="button" class="hub-link" data-tree-fold="1" hidden>{}</button>'
        '<button type="button" class="hub-link" data-tree-fold="" hidden>{}</button>'
        '<button type="button" class="hub-link" data-copy="hub-copy-{}">{}</button></div>'
        '<div class="hub-json" tabindex="0" role="region" aria-label="{}">{}</div>'
        '<pre id="hub-copy-{}" hidden>{}</pre></div>',
        label,
        _t("Search within"),
        _t("Search within %(name)s") % {"name": label},
        _t("Collapse all"),
        _t("Expand all"),
        name,
        _t("Copy"),
        label,
        shown,
        name,
        text,
    )


def _node(value: object, depth: int, room: _TreeRoom) -> SafeString:
    room.left -= 1
    if room.left < 0 or depth > _DEEPEST:
        raise _TooLarge
    if isinstance(value, dict) and value:
        members = [(_key(key), _node(each, depth + 1, room)) for key, each in value.items()]
        return _folded("{", "}", members, depth)
    if isinstance(value, list) and value:
        items = [(_EMPTY, _node(each, depth + 1, room)) for each in value]
        return _folded("[", "]", items, depth)
    return _scalar(value)


def _folded(opening: str, closing: str, members: list[tuple[SafeString, SafeString]], depth: int) -> SafeString:
    lines = format_html_join("", "<li>{}{}</li>", members)
    words = ngettext("%(count)d member", "%(count)d members", len(members)) % {"count": len(members)}
    is_open = depth < _OPEN_DEPTH and len(members) <= _OPEN_MEMBERS
    return format_html(
        "<details{}><summary>{} <span>{} {}</span></summary><ul>{}</ul>{}</details>",
        SafeString(" open") if is_open else _EMPTY,
        opening,
        words,
        closing,
        lines,
        closing,
    )


def _key(key: object) -> SafeString:
    return format_html('<span class="hub-tree-key">{}</span>: ', visible(json.dumps(key, ensure_ascii=False)))


def _scalar(value: object) -> SafeString:
    kind = "text" if isinstance(value, str) else "word" if value is None or isinstance(value, bool) else "number"
    return format_html('<span class="hub-tree-{}">{}</span>', kind, visible(json.dumps(value, ensure_ascii=False)))
