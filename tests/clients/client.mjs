// @modelcontextprotocol/client 2.x: client.mjs URL legacy|auto
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { act, answers, capabilities, report, requestInit } from "./report.mjs";

const [url, mode] = process.argv.slice(2);
const negotiation = mode === "legacy" ? {} : { versionNegotiation: { mode } };
const client = new Client({ name: "typescript-client", version: "2" }, { capabilities, ...negotiation });
for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
await report(client, () => client.getNegotiatedProtocolVersion());
await act(client, {
  call: (params, options) => client.callTool(params, options),
  hear: (news) => client.setNotificationHandler("notifications/tools/list_changed", news),
  // A session hears unasked.
  listen: () => (mode === "legacy" ? undefined : client.listen({ toolsListChanged: true })),
});
await client.close();
