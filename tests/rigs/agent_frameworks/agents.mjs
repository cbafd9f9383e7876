// Agent frameworks that others wrote, each at `/mcp` of a hub: `agents.mjs FRAMEWORK ADDRESS KEY TOOL`.
//
// Lists the tools as the framework makes them for a model, calls TOOL by what the framework calls it, and writes JSON:
// `{"tools": […], "called": text}`.
const WORDS = { text: "by an agent" };

const FRAMEWORKS = {
  async "vercel-ai-sdk"(url, headers, tool) {
    const { createMCPClient } = await import("@ai-sdk/mcp");
    const { generateText, stepCountIs } = await import("ai");
    const { MockLanguageModelV4 } = await import("ai/test");
    const client = await createMCPClient({ transport: { type: "http", url, headers } });
    const tools = await client.tools();
    const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
    const calls = { type: "tool-call", toolCallId: "1", toolName: tool, input: JSON.stringify(WORDS) };
    const answers = [
      { content: [calls], finishReason: { unified: "tool-calls" }, usage, warnings: [] },
      { content: [{ type: "text", text: "Done." }], finishReason: { unified: "stop" }, usage, warnings: [] },
    ];
    const model = new MockLanguageModelV4({ doGenerate: async () => answers.shift() });
    const { steps } = await generateText({ model, tools, prompt: "Repeat it.", stopWhen: stepCountIs(3) });
    await client.close();
    return [Object.keys(tools), JSON.stringify(steps[0].toolResults)];
  },
  async mastra(url, headers, tool) {
    const { MCPClient } = await import("@mastra/mcp");
    const client = new MCPClient({ servers: { hub: { url: new URL(url), requestInit: { headers } } } });
    const { hub } = await client.listToolsets();
    const called = await hub[tool].execute(WORDS, {});
    await client.disconnect();
    return [Object.keys(hub), JSON.stringify(called)];
  },
  async "langchain-js"(url, headers, tool) {
    const { MultiServerMCPClient } = await import("@langchain/mcp-adapters");
    const client = new MultiServerMCPClient({ mcpServers: { hub: { transport: "http", url, headers } } });
    const tools = await client.getTools();
    const called = await tools.find(({ name }) => name === tool).invoke(WORDS);
    await client.close();
    return [tools.map(({ name }) => name), JSON.stringify(called)];
  },
  async "openai-agents-js"(url, headers, tool) {
    const { MCPServerStreamableHttp } = await import("@openai/agents");
    const server = new MCPServerStreamableHttp({ url, requestInit: { headers } });
    await server.connect();
    const tools = await server.listTools();
    const called = await server.callTool(tool, WORDS);
    await server.close();
    return [tools.map(({ name }) => name), JSON.stringify(called)];
  },
};

const [framework, url, key, tool] = process.argv.slice(2);
const [tools, called] = await FRAMEWORKS[framework](url, { Authorization: `Bearer ${key}` }, tool);
console.log(JSON.stringify({ tools: tools.sort(), called }));
process.exit(0);
