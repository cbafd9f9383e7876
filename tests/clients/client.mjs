// @modelcontextprotocol/client 2.x: client.mjs TARGET [sse-]legacy|auto|2026-07-28
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { act, answers, capabilities, report, requestInit } from "./report.mjs";

const [target, kind] = process.argv.slice(2);
const mode = kind.replace("sse-", "");
const negotiation =
  mode === "legacy" ? {} : { versionNegotiation: { mode: mode === "auto" ? "auto" : { pin: mode } } };
const reach = () => {
  if (target.startsWith("[")) {
    const [command, ...args] = JSON.parse(target);
    return new StdioClientTransport({ command, args, env: process.env });
  }
  const Transport = kind.startsWith("sse-") ? SSEClientTransport : StreamableHTTPClientTransport;
  return new Transport(new URL(target), { requestInit });
};
const client = new Client({ name: "typescript-client", version: "2" }, { capabilities, ...negotiation });
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
await client.connect(reach());
await report(client, () => client.getNegotiatedProtocolVersion());
await act(client, {
  call: (params, options) => client.callTool(params, options),
  hear: (news) => client.setNotificationHandler("notifications/tools/list_changed", news),
  // A session hears unasked.
  listen: () => (mode === "legacy" ? undefined : client.listen({ toolsListChanged: true })),
});
await client.close();
