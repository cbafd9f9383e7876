// An upstream that demands OAuth, and its issuer, on the TypeScript SDK: `oauth.mjs FOLDER [PORT]`. Prints `ready PORT`.
//
// The router, the check of tokens and the provider are those of the SDK and its example; here they learn whose each token is,
// and to renew it. The login is one address, `/login?sign_in=…&as=NAME`, which sends the browser back at once.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(`${process.argv[2]}/package.json`));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const SDK = "@modelcontextprotocol/sdk";
const { McpServer } = await load(`${SDK}/server/mcp.js`);
const { StreamableHTTPServerTransport } = await load(`${SDK}/server/streamableHttp.js`);
const { mcpAuthRouter, getOAuthProtectedResourceMetadataUrl } = await load(`${SDK}/server/auth/router.js`);
const { requireBearerAuth } = await load(`${SDK}/server/auth/middleware/bearerAuth.js`);
const { InvalidGrantError, InvalidTokenError } = await load(`${SDK}/server/auth/errors.js`);
const { DemoInMemoryAuthProvider } = await load(`${SDK}/examples/server/demoInMemoryOAuthProvider.js`);
const express = (await load("express")).default;

class Accounts extends DemoInMemoryAuthProvider {
  signingIn = new Map();
  subjects = new Map(); // code or token -> whose it is
  refresh = new Map();

  async authorize(client, params, response) {
    const name = randomUUID();
    this.signingIn.set(name, { client, params });
    response.redirect(`/login?sign_in=${name}`);
  }

  signIn(name, subject) {
    const { client, params } = this.signingIn.get(name);
    this.signingIn.delete(name);
    const code = randomUUID();
    this.codes.set(code, { client, params });
    this.subjects.set(code, subject);
    const back = new URL(params.redirectUri);
    back.searchParams.set("code", code);
    if (params.state !== undefined) back.searchParams.set("state", params.state);
    return back.toString();
  }

  async exchangeAuthorizationCode(client, code) {
    const subject = this.subjects.get(code);
    const given = await super.exchangeAuthorizationCode(client, code);
    return this.known(given, subject);
  }

  async exchangeRefreshToken(client, token) {
    const kept = this.refresh.get(token);
    if (kept === undefined) throw new InvalidGrantError("this refresh token is spent");
    this.refresh.delete(token);
    const access = randomUUID();
    this.tokens.set(access, { clientId: client.client_id, scopes: [], expiresAt: Date.now() + 3600000 });
    return this.known({ access_token: access, token_type: "bearer", expires_in: 3600 }, kept);
  }

  known(given, subject) {
    const refresh = randomUUID();
    this.refresh.set(refresh, subject);
    this.subjects.set(given.access_token, subject);
    return { ...given, refresh_token: refresh };
  }

  async verifyAccessToken(token) {
    const found = await super.verifyAccessToken(token).catch(() => undefined);
    if (found === undefined) throw new InvalidTokenError("no such token");
    return { ...found, extra: { subject: this.subjects.get(token) } };
  }
}

const http = createServer();
http.listen(process.argv[3] ? Number(process.argv[3]) : 0, "127.0.0.1", () => {
  const own = new URL(`http://localhost:${http.address().port}`);
  const resource = new URL("/mcp", own);
  const accounts = new Accounts();
  const app = express();
  app.use(express.json());
  app.use(mcpAuthRouter({ provider: accounts, issuerUrl: own, resourceServerUrl: resource, scopesSupported: ["read"] }));
  app.get("/login", (request, response) => response.redirect(accounts.signIn(request.query.sign_in, request.query.as)));
  app.post("/control", (_request, response) => {
    for (const token of accounts.tokens.values()) token.expiresAt = 0;
    response.json({ refresh_tokens: accounts.refresh.size });
  });
  const bearer = requireBearerAuth({
    verifier: accounts,
    resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource),
  });
  app.all("/mcp", bearer, async (request, response) => {
    const server = new McpServer({ name: "oauth-peer", version: "1" });
    server.registerTool("whoami", { description: "Tell whose account this call is made with." }, (extra) => ({
      content: [{ type: "text", text: extra.authInfo.extra.subject }],
    }));
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    response.on("close", () => transport.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, request.body);
  });
  http.on("request", app);
  console.log(`ready ${own.port}`);
});
