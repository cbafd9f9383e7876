// @modelcontextprotocol/sdk 1.x: sdk.mjs URL http|sse
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { report, requestInit } from "./report.mjs";

const [url, kind] = process.argv.slice(2);
const Transport = kind === "sse" ? SSEClientTransport : StreamableHTTPClientTransport;
const client = new Client({ name: "typescript-sdk", version: "1" });
let version = "";
const transport = new Transport(new URL(url), { requestInit });
const remember = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (negotiated) => {
  version = negotiated;
  remember?.(negotiated);
};
await client.connect(transport);
await report(client, () => version);
