"""`GET` and `POST /v1/approvals/{id}`: look at a call that waits, approve or deny it."""

from __future__ import annotations

from channels.db import database_sync_to_async

from mcphub.chat import approvals
from mcphub.chat.door import ChatDoor
from mcphub.chat.errors import ChatError


class Approval(ChatDoor):
    allowed_methods = ("GET", "POST")

    async def answer(self) -> None:
        id_ = self.scope["path"].removeprefix("/v1/approvals/").strip("/")
        principal = self.caller.principal
        if self.scope["method"] == "GET":
            row = await database_sync_to_async(approvals.find)(id_, principal)
        else:
            body = await self.read_object()
            approve, reason = body.get("approve"), body.get("reason") or ""
            if not isinstance(approve, bool):
                raise ChatError("INVALID_QUERY", "approve must be true or false.", param="approve")
            if not isinstance(reason, str):
                raise ChatError("INVALID_QUERY", "reason must be a text.", param="reason")
            row = await database_sync_to_async(approvals.decide)(
                id_, approve=approve, reason=reason, actor=principal, by=self.caller.label, principal=principal
            )
        await self.give(approvals.wire(row))
