// @modelcontextprotocol/sdk 1.x: sdk.mjs TARGET http|sse|stdio
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { act, answers, capabilities, report, requestInit } from "./report.mjs";

const [target, kind] = process.argv.slice(2);
const reach = {
  http: () => new StreamableHTTPClientTransport(new URL(target), { requestInit }),
  sse: () => new SSEClientTransport(new URL(target), { requestInit }),
  stdio: () => {
    const [command, ...args] = JSON.parse(target);
    return new StdioClientTransport({ command, args, env: process.env });
  },
};
const client = new Client({ name: "typescript-sdk", version: "1" }, { capabilities });
for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema]) {
  client.setRequestHandler(schema, answers[schema.shape.method.value]);
}
let version = "";
const transport = reach[kind]();
const remember = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (negotiated) => {
  version = negotiated;
  remember?.(negotiated);
};
await client.connect(transport);
await report(client, () => version);
await act(client, {
  call: (params, options) => client.callTool(params, undefined, options),
  hear: (news) => client.setNotificationHandler(ToolListChangedNotificationSchema, news),
  listen: () => undefined, // a session hears unasked
});
await client.close();
