"""`resources/read` of a kept result, whole or in part. Another caller's is not there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from channels.db import database_sync_to_async

from invocations.reading import Reading
from invocations.subject import RESOURCES_READ, RowSubject
from mcphub.features.fitting import handles, result_parts
from mcphub.features.fitting.handles import PREFIX
from mcphub.server.results import IDENTITY, bounded, hints
from sessions_app.protocol import json, shapes, uritemplate
from sessions_app.protocol.errors import InvalidParams, ResourceNotFound, ToolDisabled, ToolNotFound

if TYPE_CHECKING:
    from invocations.call.context import CallContext
    from invocations.ledger.rows import Recorded
    from invocations.stages import Stages
    from mcphub.server.exchange import McpExchange, Result
    from sessions_app.protocol.json import Json

TEMPLATE = f"{PREFIX}{{id}}{{?path,start,end,search}}"
_SECONDS = 30.0
_DEFINITION: dict[str, Json] = {"name": "result", "uriTemplate": TEMPLATE}
_TEMPLATE = uritemplate.parse(TEMPLATE)


def reading(exchange: McpExchange, uri: str) -> Reading:
    """Return how the resource is read. Raises ResourceNotFound and InvalidParams for a URI that names none."""
    missing = ResourceNotFound(uri, exchange.revision.resource_not_found_code)
    values = _TEMPLATE.match(uri)
    if values is None:
        raise missing
    try:
        part = result_parts.ResultPart.read(values)
    except result_parts.PartError as error:
        raise InvalidParams(str(error)) from error
    sent: list[result_parts.ShownPart] = []

    async def read(call: CallContext) -> dict[str, Json]:
        assert call.record is not None
        whole = await found(values["id"], call.record, exchange.hub.calls.stages)
        if whole is None:
            raise missing
        try:
            shown = await asyncio.to_thread(lambda: result_parts.shown(result_parts.of(whole.wire, part)))
        except result_parts.PartError as error:
            raise InvalidParams(str(error)) from error
        sent.append(shown)
        # The record of the call has the result as its rules show it. Here stands which part was read.
        return {
            "contents": [
                {
                    "uri": uri,
                    "mimeType": shown.mime_type,
                    "characters": len(shown.text),
                    "digest": f"sha256:{json.digest(shown.text)}",
                    "invocationId": whole.invocation_id,
                }
            ]
        }

    def answer(recorded: dict[str, Json]) -> Result:
        shown = sent[-1]
        told = {
            "contents": [{"uri": uri, "mimeType": shown.mime_type, "text": shown.text}],
            **hints(is_public=False, ttl_ms=0),
            "_meta": {**recorded.get("_meta", {}), **IDENTITY},
        }
        return bounded(shapes.read_result_for(exchange.revision, told))

    subject = RowSubject(method=RESOURCES_READ, target=TEMPLATE, definition=_DEFINITION)
    return Reading(subject=subject, label="The result", seconds=_SECONDS, is_static=False, work=read, answer=answer)


async def found(id_: str, record: Recorded, stages: Stages) -> handles.Whole | None:
    """Return a caller's result as the stages of its tool let it go on now; `record` is that of the read.

    None where it is not there, or the caller may not call its tool any more. Raises their refusal.
    """
    caller = record.source.caller
    whole = await database_sync_to_async(handles.find)(id_, caller.principal)
    if whole is None:
        return None
    try:
        tool = record.configuration.catalog.find(whole.tool_name, caller)
    except (ToolNotFound, ToolDisabled):
        return None
    # The whole, not the part that is read: a range could cut in two what a stage finds.
    return replace(whole, wire=await stages.result_again(tool, record, whole.wire))
