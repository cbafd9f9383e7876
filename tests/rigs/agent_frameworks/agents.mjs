// Agent frameworks that others wrote, each at `/mcp` of a hub: `agents.mjs FRAMEWORK ADDRESS KEY TOOL MODELS PROMPT`.
//
// Lists the tools as the framework makes them for a model, calls TOOL by what the framework calls it, then asks the model
// `default` at MODELS, the hub's `/v1`, by PROMPT, with the tools of `/mcp`. Writes JSON: `{"tools": […], "called": text,
// "answered": text}`.
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

const ASKING = {
  async "vercel-ai-sdk"(url, headers, models, key, prompt) {
    const { createMCPClient } = await import("@ai-sdk/mcp");
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const { generateText, stepCountIs } = await import("ai");
    const client = await createMCPClient({ transport: { type: "http", url, headers } });
    const model = createOpenAICompatible({ name: "hub", baseURL: models, apiKey: key })("default");
    const { text } = await generateText({ model, tools: await client.tools(), prompt, stopWhen: stepCountIs(3) });
    await client.close();
    return text;
  },
  async mastra(url, headers, models, key, prompt) {
    const { Agent } = await import("@mastra/core/agent");
    const { MCPClient } = await import("@mastra/mcp");
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const client = new MCPClient({ servers: { hub: { url: new URL(url), requestInit: { headers } } } });
    const { hub: tools } = await client.listToolsets();
    const model = createOpenAICompatible({ name: "hub", baseURL: models, apiKey: key })("default");
    const agent = new Agent({ id: "asks", name: "asks", instructions: "Answer.", model, tools });
    const { text } = await agent.generate(prompt);
    await client.disconnect();
    return text;
  },
  async "langchain-js"(url, headers, models, key, prompt) {
    const { MultiServerMCPClient } = await import("@langchain/mcp-adapters");
    const { ChatOpenAI } = await import("@langchain/openai");
    const { createAgent } = await import("langchain");
    const client = new MultiServerMCPClient({ mcpServers: { hub: { transport: "http", url, headers } } });
    const model = new ChatOpenAI({ model: "default", apiKey: key, configuration: { baseURL: models } });
    const agent = createAgent({ model, tools: await client.getTools() });
    const { messages } = await agent.invoke({ messages: [{ role: "user", content: prompt }] });
    await client.close();
    return messages.at(-1).content;
  },
  async "openai-agents-js"(url, headers, models, key, prompt) {
    const { Agent, MCPServerStreamableHttp, OpenAIChatCompletionsModel, run, setTracingDisabled } = await import("@openai/agents");
    const { default: OpenAI } = await import("openai");
    setTracingDisabled(true);
    const server = new MCPServerStreamableHttp({ url, requestInit: { headers } });
    await server.connect();
    const model = new OpenAIChatCompletionsModel(new OpenAI({ baseURL: models, apiKey: key }), "default");
    const { finalOutput } = await run(new Agent({ name: "asks", model, mcpServers: [server] }), prompt);
    await server.close();
    return finalOutput;
  },
};

const [framework, url, key, tool, models, prompt] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${key}` };
const [tools, called] = await FRAMEWORKS[framework](url, headers, tool);
const answered = await ASKING[framework](url, headers, models, key, prompt);
console.log(JSON.stringify({ tools: tools.sort(), called, answered }));
process.exit(0);
