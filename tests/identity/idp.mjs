// An identity provider: node idp.mjs '{"issuer": …, "client": {…}, "people": {"ada": {"groups": […]}}}'.
// It logs in whoever names themselves, with the claims that `people` gives them, and says "ready" when it answers.
import Provider from "oidc-provider";

const wanted = JSON.parse(process.argv[2]);
const provider = new Provider(wanted.issuer, {
  clients: [wanted.client, ...(wanted.others ?? [])].map((client) => ({ grant_types: ["authorization_code"], response_types: ["code"], ...client })),
  claims: { openid: ["sub"], profile: ["name", "preferred_username", "given_name", "family_name"], email: ["email", "email_verified"], groups: ["groups"] },
  scopes: ["openid", "profile", "email", "groups"],
  conformIdTokenClaims: wanted.bareIdToken ?? false,
  features: {
    devInteractions: { enabled: true },
    rpInitiatedLogout: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_context, resource) => ({ scope: "tools:list tools:call", audience: resource, accessTokenFormat: "jwt", accessTokenTTL: 600 }),
    },
  },
  pkce: { required: () => true },
  async findAccount(_context, id) {
    return { accountId: id, claims: async () => ({ sub: id, ...(wanted.people[id] ?? { preferred_username: id }) }) };
  },
});
const { port, hostname } = new URL(wanted.issuer);
provider.listen(Number(port), hostname, () => console.log("ready"));
