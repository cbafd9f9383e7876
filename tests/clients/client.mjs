// @modelcontextprotocol/client 2.x: client.mjs URL legacy|auto
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { report, requestInit } from "./report.mjs";

const [url, mode] = process.argv.slice(2);
const options = mode === "legacy" ? {} : { versionNegotiation: { mode } };
const client = new Client({ name: "typescript-client", version: "2" }, options);
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
await report(client, () => client.getNegotiatedProtocolVersion());
