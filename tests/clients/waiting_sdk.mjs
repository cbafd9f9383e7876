// @modelcontextprotocol/sdk 1.x, whose calls wait for a yes: waiting_sdk.mjs TARGET http|sse|stdio
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { requestInit } from "./report.mjs";
import { callAll, elicit } from "./waiting.mjs";

const [target, kind] = process.argv.slice(2);
const reach = {
  http: () => new StreamableHTTPClientTransport(new URL(target), { requestInit }),
  sse: () => new SSEClientTransport(new URL(target), { requestInit }),
  stdio: () => {
    const [command, ...args] = JSON.parse(target);
    return new StdioClientTransport({ command, args, env: process.env });
  },
};
const client = new Client({ name: "typescript-sdk", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, elicit);
await client.connect(reach[kind]());
await callAll((params, options) => client.callTool(params, undefined, options));
await client.close();
