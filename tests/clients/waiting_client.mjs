// @modelcontextprotocol/client 2.x, whose calls wait for a yes: waiting_client.mjs TARGET [sse-]legacy|auto|2026-07-28
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { requestInit } from "./report.mjs";
import { callAll, elicit } from "./waiting.mjs";

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
const client = new Client(
  { name: "typescript-client", version: "2" },
  { capabilities: { elicitation: {} }, ...negotiation },
);
client.setRequestHandler("elicitation/create", elicit);
await client.connect(reach());
await callAll((params, options) => client.callTool(params, options));
await client.close();
