// @modelcontextprotocol/client 2.x: handles.mjs URL auto|legacy. Calls, reads the rest, and is refused another's link.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { requestInit } from "./report.mjs";

const [target, mode, foreign] = process.argv.slice(2);
const negotiation = mode === "legacy" ? {} : { versionNegotiation: { mode } };
const client = new Client({ name: "typescript-handles", version: "2" }, { capabilities: {}, ...negotiation });
await client.connect(new StreamableHTTPClientTransport(new URL(target), { requestInit }));
await client.listTools(); // The SDK checks results against the schemas that it has seen.
const result = await client.callTool({ name: "list_pulls", arguments: { count: 500 } });
const link = result.content.find((block) => block.type === "resource_link");
const part = await client.readResource({ uri: `${link.uri}?path=%2Fvalues&start=499` });
let refused = "";
try {
  await client.readResource({ uri: foreign });
} catch (error) {
  refused = error.message;
}
console.log(
  JSON.stringify({
    shown: JSON.parse(result.content[0].text).length,
    last: JSON.parse(part.contents[0].text)[0].id,
    refused,
  }),
);
await client.close();
