"""Guardrails written as Python functions: the `@guardrail` decorator, its registry, and how one is run.

A function enters the registry when its module is imported, under `module:qualname`, as tools do: `tools.py` or
`guardrails.py` of an installed app. It runs in a thread of a small pool, within the guardrail's deadline.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from mcphub.features.guardrails.guardrail import CheckFailed, GuardedCall, GuardrailFinding
from sessions_app.protocol.errors import ServerBusy
from sessions_app.protocol.json import Json
from tools_catalog.backends.threads import ToolThreads

logger = logging.getLogger(__name__)

GuardrailFunction: TypeAlias = Callable[[Json, GuardedCall], GuardrailFinding | None]
_Function = TypeVar("_Function", bound=Callable[..., object])

THREADS = 4
"""Of a process. A function that never returns keeps one; once all are kept, calls wait, then their guardrail fails."""


class GuardrailDefinitionError(Exception):
    """A function that cannot be a guardrail."""


registry: dict[str, GuardrailFunction] = {}
"""Reference -> function."""


def guardrail(function: _Function) -> _Function:
    """Register a function as a guardrail and give it back unchanged.

    It is given the value, arguments or result as JSON, and a `GuardedCall`; it gives None, or a `GuardrailFinding`.
    The row that names it defines the consequence of a finding. Raises GuardrailDefinitionError for a function that is
    async, or takes other parameters.
    """
    reference = f"{function.__module__}:{function.__qualname__}"
    if inspect.iscoroutinefunction(function):
        raise GuardrailDefinitionError(f"@guardrail {reference}: write `def`, not `async def`. It runs in a thread.")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise GuardrailDefinitionError(f"@guardrail {reference}: it takes two parameters, value and call.") from error
    earlier = registry.get(reference)
    if (
        earlier is not None
        and inspect.unwrap(earlier).__code__.co_firstlineno != inspect.unwrap(function).__code__.co_firstlineno
    ):
        raise GuardrailDefinitionError(f"@guardrail {reference}: two functions have this name. Rename one.")
    registry[reference] = function  # type: ignore[assignment]  # its signature was looked at
    return function


def discover() -> None:
    """Import `guardrails.py` of every installed app; those of `tools.py` come with the tools."""
    from django.utils.module_loading import autodiscover_modules

    autodiscover_modules("guardrails")


class FunctionCheck:
    """Runs one registered function."""

    def __init__(self, reference: str) -> None:
        """Raise LookupError for a reference that nothing registered."""
        if reference not in registry:
            known = ", ".join(sorted(registry)) or "none"
            raise LookupError(f"no function is registered as {reference!r}; registered: {known}")
        self._function = registry[reference]
        self._reference = reference

    async def look(self, name: str, version: int, value: Json, call: GuardedCall, seconds: float) -> GuardrailFinding:
        try:
            async with asyncio.timeout(seconds):
                found = await threads().run(lambda: self._function(value, call), caller=call.principal)
            if found is None:
                return GuardrailFinding()
            if not isinstance(found, GuardrailFinding):
                raise CheckFailed(f"it gave a {type(found).__name__}, not a GuardrailFinding")
            found.check()
            return found
        except TimeoutError as error:
            raise CheckFailed(f"it took longer than {seconds:g} s") from error
        except ServerBusy as error:
            raise CheckFailed("all threads of guardrails are taken") from error
        except CheckFailed:
            raise
        except Exception as error:
            logger.exception("The guardrail %s (%s) failed", name, self._reference)
            raise CheckFailed(f"it raised {type(error).__name__}") from error


def threads() -> ToolThreads:
    """Return the process's threads for guardrails, made at first use."""
    global _threads
    if _threads is None:
        _threads = ToolThreads(THREADS, name="guardrail")
    return _threads


_threads: ToolThreads | None = None
sys.modules.setdefault("tools_catalog.guardrails.functions", sys.modules[__name__])  # its name in 1.0.0
