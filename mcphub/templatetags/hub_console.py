"""What templates of the theme ask the map of the console. They are rendered without our context processors."""

from __future__ import annotations

from typing import Any

from django import template

from mcphub.console import navigation

register = template.Library()


@register.filter
def purpose(opts: Any) -> str:
    """Return what the rows of a model's list are for. `opts`: its `_meta`."""
    return str(navigation.purpose(f"{opts.app_label}_{opts.model_name}"))
