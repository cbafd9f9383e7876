"""`GET /v1/models` and `GET /v1/models/{id}`; and the handler of all other addresses under `/v1/`."""

from __future__ import annotations

from urllib.parse import unquote

from mcphub.features.chat.endpoints.base import ChatEndpoint
from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.providers.snapshot import Model
from sessions_app.protocol.json import Json


class ModelsEndpoint(ChatEndpoint):
    allowed_methods = ("GET",)

    async def answer(self) -> None:
        providers = self.chat.providers
        name = unquote(self.scope["path"].removeprefix("/v1/models").strip("/"))
        if not name:
            found = [*providers.models.items(), *providers.aliases.items()]
            await self.respond_json({"object": "list", "data": [_model(id_, model) for id_, model in found]})
            return
        model = providers.models.get(name) or providers.aliases.get(name)
        if model is None:
            raise ChatError("MODEL_NOT_FOUND", f"There is no model {name[:100]!r} here.", param="model")
        await self.respond_json(_model(name, model))


class UnknownEndpoint(ChatEndpoint):
    allowed_methods = ("GET", "POST", "DELETE", "PUT", "PATCH", "HEAD")

    async def answer(self) -> None:
        raise ChatError("NOT_FOUND", "There is nothing at this address. See /v1/models and /v1/chat/completions.")


def _model(id_: str, model: Model) -> dict[str, Json]:
    return {"id": id_, "object": "model", "created": model.created, "owned_by": model.provider.slug}
