// Reads every skill with @modelcontextprotocol/client 2.x, which verifies them: skills.mjs URL legacy|auto
// Prints digests by URI and path.
import { createHash } from "node:crypto";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { SkillsClient } from "@modelcontextprotocol/client/ext/skills";
import { requestInit } from "./report.mjs";

const [url, mode] = process.argv.slice(2);
const negotiation = mode === "legacy" ? {} : { versionNegotiation: { mode } };
const client = new Client({ name: "typescript-client", version: "2" }, { capabilities: {}, ...negotiation });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
const skills = new SkillsClient(client);
const found = {};

async function children(uri) {
  const { resources } = await skills.readDirectory(uri);
  const inner = resources.map((each) => (each.mimeType === "inode/directory" ? children(each.uri) : [each.uri]));
  return (await Promise.all(inner)).flat();
}

for (const listed of (await skills.list()).skills) {
  const root = listed.uri.slice(0, -"/SKILL.md".length);
  try {
    const { skill } = await skills.get(listed.uri);
    const files = {};
    for (const { uri } of skill.resources) {
      const { bytes, verified } = await skills.read(skill, uri);
      if (!verified) throw new Error(`${uri} is not verified`);
      files[decodeURIComponent(uri.slice(root.length + 1))] = createHash("sha256").update(bytes).digest("hex");
    }
    if (skills.directoryRead && (await children(root)).length !== skill.resources.length) throw new Error("directory");
    found[listed.uri] = Object.fromEntries(Object.entries(files).sort());
  } catch (error) {
    found[listed.uri] = error.message;
  }
}
console.log(JSON.stringify(found));
await client.close();
