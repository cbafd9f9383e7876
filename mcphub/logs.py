"""Structured logs through structlog: one event a line, as JSON or for a terminal.

What is logged are names, codes, ids and figures. Payloads, keys and headers never are.
"""

from __future__ import annotations

import logging
from typing import Literal

import structlog


def formatter(style: Literal["console", "json"]) -> logging.Formatter:
    """Give the formatter that settings.LOGGING names."""
    renderer = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
