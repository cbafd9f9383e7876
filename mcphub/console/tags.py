"""What templates of the theme ask the map of the console. They are rendered without our context processors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import template
from django.forms import BoundField
from django.template import RequestContext
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst
from unfold.templatetags.unfold_list import CHECKBOX_CLASSES, LINK_CLASSES, ROW_CLASSES

from mcphub.console import navigation
from sessions_app.kit.admin import row_page

register = template.Library()


@register.filter
def purpose(opts: Any) -> str:
    """Return what the rows of a model's list are for. `opts`: its `_meta`."""
    return str(navigation.purpose(f"{opts.app_label}_{opts.model_name}"))


@register.simple_tag(takes_context=True)
def first_step(context: RequestContext, opts: Any) -> navigation.Tab | None:
    """Return the page that leads to the first row of a model's list. `opts`: its `_meta`."""
    return navigation.first_step(context.request, f"{opts.app_label}_{opts.model_name}")


_LABEL = re.compile(r' data-label="[^"]*"')
_BLANK = re.compile(r">\s{2,}<")
_CLASSES = (
    (" ".join(ROW_CLASSES), "hub-value"),
    (" ".join(CHECKBOX_CLASSES), "action-checkbox hub-value"),
    (f' class="{" ".join(LINK_CLASSES)}" ', ' class="hub-row"'),
)


@register.simple_tag
def cell(written: SafeString, headers: Sequence[Mapping[str, Any]], number: int) -> SafeString:
    """Return a cell of a list with the label of its column, and one class of ours in place of 600 bytes of the theme's.

    The theme labels the first cell *Select record* where a list has no boxes to tick, too.
    """
    words = str(written)
    for theirs, ours in _CLASSES:
        words = words.replace(theirs, ours, 1)
    if number < len(headers) and "action-toggle" not in headers[number]["text"]:
        label = conditional_escape(capfirst(headers[number]["text"]))
        words = _LABEL.sub(lambda _theirs: f' data-label="{label}"', words, count=1)
    return mark_safe(words)  # noqa: S308 - only classes and an escaped label changed


@register.filter
def values_in(fieldset: Any) -> str:
    """Return the first values of a part of a form."""
    return row_page.values_in(fieldset)


@register.filter
def is_editable(fieldset: Any) -> bool:
    """Return whether a part of a form has a field that can be changed."""
    return any(isinstance(each.field, BoundField) for line in fieldset for each in line)


@register.filter
def thin(html: SafeString) -> SafeString:
    """Return HTML without the blank lines between tags, which are a tenth of a list's page."""
    return mark_safe(_BLANK.sub(">\n<", html))  # noqa: S308 - only blanks are removed
