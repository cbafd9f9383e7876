// A server on @modelcontextprotocol/server 2.x with the skills of a folder, read at each request:
// skills.mjs FOLDER stateless|sessions PORT
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { NodeStreamableHTTPServerTransport, toNodeHandler } from "@modelcontextprotocol/node";
import { McpServer, createMcpHandler } from "@modelcontextprotocol/server";
import { loadSkills } from "@modelcontextprotocol/server/ext/skills/node";

const [folder, kind, port] = process.argv.slice(2);
const skills = await loadSkills(folder);

function made() {
  const server = new McpServer({ name: "skills", version: "1" });
  skills.attach(server);
  server.registerTool("be", { description: "Be." }, async () => ({ content: [{ type: "text", text: "is" }] }));
  return server;
}

const sessions = new Map();

async function inSession(request, response) {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known) return known.handleRequest(request, response);
  const options = { sessionIdGenerator: randomUUID, onsessioninitialized: (id) => void sessions.set(id, transport) };
  const transport = new NodeStreamableHTTPServerTransport(options);
  await made().connect(transport);
  return transport.handleRequest(request, response);
}

const answer = kind === "sessions" ? inSession : toNodeHandler(createMcpHandler(made));
const server = createServer(async (request, response) => {
  await skills.reload();
  await answer(request, response);
});
server.listen(Number(port), "127.0.0.1", () => console.log(`ready ${port}`));
