// The official `openai` client, told what to do in lines of JSON: judge.mjs BASE_URL KEY MAX_RETRIES
// in  {kind, body, headers?, events?}   kind: chat, stream, helper, responses, responses_stream, models, model
// out {result} or {error: {name, status, code, type, param, requestID, message}}
import readline from "node:readline";
import OpenAI from "openai";

const [baseURL, apiKey, maxRetries] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: Number(maxRetries), timeout: 120_000 });

const all = async (stream) => {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
};

const kinds = {
  chat: (body, options) => client.chat.completions.create(body, options),
  stream: async (body, options) => all(await client.chat.completions.create({ ...body, stream: true }, options)),
  // The helper puts the chunks together and throws where they do not fit.
  helper: (body, options) => client.chat.completions.stream(body, options).finalChatCompletion(),
  responses: (body, options) => client.responses.create(body, options),
  responses_stream: async (body, options) => all(await client.responses.create({ ...body, stream: true }, options)),
  responses_helper: (body, options) => client.responses.stream(body, options).finalResponse(),
  models: async () => all(await client.models.list()),
  model: (body) => client.models.retrieve(body.model),
};

const failure = (error) => {
  const { status, code, type, param, requestID, message } = error;
  return { name: error.constructor.name, status, code, type, param, requestID, message };
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { kind, body, headers } = JSON.parse(line);
  let answer;
  try {
    answer = { result: await kinds[kind](body, { headers }) };
  } catch (error) {
    answer = { error: failure(error) };
  }
  console.log(JSON.stringify(answer));
}
