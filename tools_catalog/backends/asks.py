"""The short forms of asking, as a tool's context offers them: each is one question under one key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from pydantic import BaseModel

from tools_catalog.backends.base import Json
from tools_catalog.backends.questions import Elicited, Form, Question, Root, Roots, Sample, Sampled, Url


class Asks:
    """For async tools. A subclass says in `ask` how the client is asked, in `_key` how a question is named."""

    __slots__ = ()

    async def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        raise NotImplementedError

    async def require(self, addresses_to_open: Mapping[str, Url]) -> NoReturn:
        raise NotImplementedError

    def elicitation_id(self, name: str = "") -> str:
        raise NotImplementedError

    def _key(self, question: Question) -> str:
        raise NotImplementedError

    async def elicit(
        self, message: str, schema: Mapping[str, Json] | type[BaseModel], *, key: str | None = None
    ) -> Elicited:
        """Ask the person to fill in a form. See `questions.Form`."""
        found: Elicited = await self._ask_one(Form(message, schema), key)
        return found

    async def elicit_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> Elicited:
        """Ask the person to open an address. See `questions.Url`."""
        found: Elicited = await self._ask_one(self._address(message, url, elicitation_id), key)
        return found

    async def require_url(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> NoReturn:
        """End the call: a person must have been at an address before it can be made. See `ToolContext.require_url`."""
        question = self._address(message, url, elicitation_id)
        await self.require({key or self._key(question): question})

    def _address(self, message: str, url: str, elicitation_id: str | None) -> Url:
        return Url(message, url, elicitation_id or self.elicitation_id(url))

    async def sample(
        self,
        messages: str | Iterable[dict[str, Json]],
        *,
        max_tokens: int = 1000,
        key: str | None = None,
        **options: Json,
    ) -> Sampled:
        """Ask the client's model. See `questions.Sample`."""
        found: Sampled = await self._ask_one(Sample(messages, max_tokens=max_tokens, **options), key)
        return found

    async def roots(self, *, key: str | None = None) -> list[Root]:
        """Ask which folders the client works in."""
        found: list[Root] = await self._ask_one(Roots(), key)
        return found

    async def _ask_one(self, question: Question, key: str | None) -> Any:
        key = key or self._key(question)
        return (await self.ask({key: question}))[key]
