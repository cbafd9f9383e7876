// Clients of OpenAI's API that others wrote, each at a hub's `/v1`: `chat_clients.mjs CLIENT MODELS KEY PROMPT`.
//
// Asks the model `default` by PROMPT, with no tools of its own, and writes what it answered as JSON: `{"answered": text}`.
const CLIENTS = {
  async "openai-js"(models, key, prompt) {
    const { default: OpenAI } = await import("openai");
    const client = new OpenAI({ baseURL: models, apiKey: key });
    const answer = await client.chat.completions.create({ model: "default", messages: [{ role: "user", content: prompt }] });
    return answer.choices[0].message.content;
  },
  async "vercel-openai-compatible"(models, key, prompt) {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const { generateText } = await import("ai");
    const model = createOpenAICompatible({ name: "hub", baseURL: models, apiKey: key })("default");
    return (await generateText({ model, prompt })).text;
  },
  async "langchain-openai-js"(models, key, prompt) {
    const { ChatOpenAI } = await import("@langchain/openai");
    return (await new ChatOpenAI({ model: "default", apiKey: key, configuration: { baseURL: models } }).invoke(prompt)).content;
  },
};

const [client, models, key, prompt] = process.argv.slice(2);
console.log(JSON.stringify({ answered: await CLIENTS[client](models, key, prompt) }));
process.exit(0);
