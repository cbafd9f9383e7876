"""`GET` and `POST /v1/approvals/{id}`: look at a call that waits, approve or deny it."""

from __future__ import annotations

from channels.db import database_sync_to_async

from invocations.redaction.records import RecordRedaction
from mcphub.features.chat import approvals
from mcphub.features.chat.endpoints.base import ChatEndpoint
from mcphub.features.chat.errors import invalid


class ApprovalEndpoint(ChatEndpoint):
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
                raise invalid("approve", "approve must be true or false.")
            if not isinstance(reason, str):
                raise invalid("reason", "reason must be a text.")
            row = await database_sync_to_async(approvals.decide)(
                id_,
                RecordRedaction(self.hub.configuration.redaction),
                approve=approve,
                reason=reason,
                actor=principal,
                by=self.caller.label,
                principal=principal,
            )
        await self.respond_json(approvals.wire(row))
