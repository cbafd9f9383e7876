// @modelcontextprotocol/sdk 1.x with nothing but an address: signin.mjs ADDRESS
import http from "node:http";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [address] = process.argv.slice(2);
let told;
const code = new Promise((resolve) => (told = resolve));
const server = http.createServer((request, response) => {
  const query = new URL(request.url, "http://127.0.0.1").searchParams;
  response.writeHead(200, { "Content-Type": "text/html" });
  response.end("<!doctype html><title>Done</title><p>You may close this page.");
  if (query.has("code")) told(query.get("code"));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const redirectUrl = `http://127.0.0.1:${server.address().port}/callback`;
const kept = {};
const authProvider = {
  redirectUrl,
  clientMetadata: { client_name: "TypeScript SDK 1", redirect_uris: [redirectUrl], token_endpoint_auth_method: "none" },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => (kept.tokens = tokens),
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => (kept.verifier = verifier),
  redirectToAuthorization: (url) => console.log(`visit ${url}`),
};
const connect = async () => {
  const client = new Client({ name: "typescript-sdk", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(address), { authProvider });
  try {
    await client.connect(transport);
    return client;
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(await code);
  }
};
const client = (await connect()) ?? (await connect());
const said = await client.callTool({ name: "echo", arguments: { text: "signed in" } });
console.log(JSON.stringify(said.content[0].text));
await client.close();
server.closeAllConnections();
server.close();
