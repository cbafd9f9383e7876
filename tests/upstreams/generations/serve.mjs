// A server on the official SDK of one year: serve.mjs PACKAGE stdio|sse|streamable-http [PORT]
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

const [generation, kind, port] = process.argv.slice(2);
const isNewest = generation === "server-2";
const part = (path) => import(isNewest ? `@modelcontextprotocol/${path}` : `${generation}/${path}`);
const core = isNewest ? await part("server") : { ...(await part("server/index.js")), ...(await part("types.js")) };

const text = { type: "string" };
const number = { type: "integer" };
const tools = [
  ["turn", "Give the text turned round, so many times.", { text, times: number }, ["text"]],
  ["order", "Give an object whose names are in no order.", { zebra: number }, ["zebra"]],
  ["fail", "Fail with these words.", { words: text }, ["words"]],
].map(([name, description, properties, required]) => ({
  name,
  description,
  inputSchema: { type: "object", properties, required },
}));
const said = (words, more = {}) => ({ content: [{ text: words, type: "text" }], ...more });
const calls = {
  turn: ({ text, times = 1 }) => said([...text].reverse().join("").repeat(times)),
  order: ({ zebra }) => said(JSON.stringify({ zebra, apple: { y: 1, b: [1.5, null, true] } }), { vendor: { z: 1, a: 2 } }),
  fail: ({ words }) => said(words, { isError: true }),
};

function made() {
  const server = new core.Server({ name: "generation", version: "1" }, { capabilities: { tools: {} } });
  const on = (method, schema, answer) => server.setRequestHandler(isNewest ? method : core[schema], answer);
  on("tools/list", "ListToolsRequestSchema", async () => ({ tools }));
  on("tools/call", "CallToolRequestSchema", async ({ params }) => calls[params.name](params.arguments ?? {}));
  return server;
}

const sessions = new Map();

async function events(request, response) {
  const { SSEServerTransport } = await part("server/sse.js");
  if (request.method === "GET") {
    const transport = new SSEServerTransport("/messages", response);
    await made().connect(transport);
    sessions.set(transport.sessionId, transport);
    return;
  }
  const id = new URL(request.url, "http://127.0.0.1").searchParams.get("sessionId");
  await sessions.get(id).handlePostMessage(request, response);
}

async function posts(request, response) {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known) {
    await known.handleRequest(request, response);
    return;
  }
  const options = {
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, transport),
  };
  const http = isNewest ? await part("node") : await part("server/streamableHttp.js");
  const transport = new (http.NodeStreamableHTTPServerTransport ?? http.StreamableHTTPServerTransport)(options);
  await made().connect(transport);
  await transport.handleRequest(request, response);
}

if (kind === "stdio") {
  const { StdioServerTransport } = await part(isNewest ? "server/stdio" : "server/stdio.js");
  await made().connect(new StdioServerTransport());
} else {
  const answer = kind === "sse" ? events : posts;
  createServer((request, response) => void answer(request, response)).listen(Number(port), "127.0.0.1");
}
