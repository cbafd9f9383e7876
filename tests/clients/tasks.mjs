// Tasks of 2025-11-25 with @modelcontextprotocol/sdk 1.x: tasks.mjs TARGET http|sse
// MCPHUB_WORDS is JSON, [[tool, arguments], ...]. Prints what the client saw of each, and what it was asked.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { requestInit } from "./report.mjs";

const [target, kind] = process.argv.slice(2);
const reach = { http: StreamableHTTPClientTransport, sse: SSEClientTransport };
const client = new Client({ name: "typescript-tasks", version: "1" }, { capabilities: { elicitation: {} } });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: { confirm: true, name: "Ada" } };
});
await client.connect(new reach[kind](new URL(target), { requestInit }));
await client.listTools();
const seen = [];
for (const [name, args] of JSON.parse(process.env.MCPHUB_WORDS)) {
  const states = new Set();
  let said = "";
  const stream = client.experimental.tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, {
    task: { ttl: 60000 },
  });
  for await (const message of stream) {
    if (message.task) states.add(message.task.status);
    if (message.type === "result") said = message.result.content[0].text;
  }
  seen.push({ states: [...states], said });
}
const { tasks } = await client.experimental.tasks.listTasks();
await client.close();
console.log(JSON.stringify({ seen, asked, listed: tasks.map((task) => task.status) }));
