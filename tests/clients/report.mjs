// What every JavaScript client does with the hub, and the lines in which it says what it saw.

export const capabilities = { elicitation: {}, sampling: {}, roots: {} };

// The answers to whatever tools ask, by method.
export const answers = {
  "elicitation/create": async () => ({
    action: "accept",
    content: { username: "ada", email: "ada@example.org" },
  }),
  "sampling/createMessage": async ({ params }) => {
    const content = [params.messages[0].content].flat();
    return { role: "assistant", model: "parrot", content: { type: "text", text: `You said: ${content[0].text}` } };
  },
  "roots/list": async () => ({ roots: [{ uri: "file:///home/ada", name: "home" }] }),
};

export async function report(client, version) {
  const { tools } = await client.listTools();
  const call = (name, args) => client.callTool({ name, arguments: args });
  const echo = await call("echo", { text: process.env.MCPHUB_WORDS });
  const added = await call("add", { a: 2, b: 40 });
  const bad = await call("add", { a: "two" });
  let unknown = "";
  try {
    const answer = await call("nowhere", {});
    unknown = answer.isError ? answer.content[0].text : "";
  } catch (error) {
    unknown = error.message;
  }
  const { resources } = await client.listResources();
  const text = await client.readResource({ uri: "test://static-text" });
  const { prompts } = await client.listPrompts();
  const prompt = await client.getPrompt({
    name: "test_prompt_with_arguments",
    arguments: { arg1: "one", arg2: "two" },
  });
  const spoken = version();
  console.log(
    JSON.stringify({
      version: spoken,
      tools: tools.map((tool) => tool.name),
      echo: echo.content[0].text,
      add: added.content[0].text,
      bad: bad.isError ? bad.content[0].text : "",
      unknown,
      resources: resources.map((one) => one.uri),
      read: text.contents[0].text,
      prompts: prompts.map((one) => one.name),
      prompt: prompt.messages[0].content.text,
    }),
  );
}

// Answers what the tools of MCPHUB_ASKED ask, gives up the call of `hold` for the box MCPHUB_BOX once it runs, and
// waits for news of the tools. `call(params, options)` calls a tool, `hear(act)` has `act` run at each news, and
// `listen()` opens what the news come by.
export async function act(client, { call, hear, listen }) {
  const say = (what) => console.log(JSON.stringify(what));
  const said = [];
  for (const [name, args] of JSON.parse(process.env.MCPHUB_ASKED)) {
    said.push((await call({ name, arguments: args })).content[0].text);
  }
  say(said);

  const patience = new AbortController();
  const options = { signal: patience.signal, onprogress: () => patience.abort() };
  const held = call({ name: "hold", arguments: { name: process.env.MCPHUB_BOX } }, options);
  const gaveUp = await held.then(
    () => false,
    () => patience.signal.aborted,
  );
  const added = await call({ name: "add", arguments: { a: 2, b: 40 } });
  say({ gaveUp, add: added.content[0].text });

  const changed = new Promise(hear);
  await listen();
  console.log("listening");
  await changed;
  say((await client.listTools()).tools.map((tool) => tool.name));
}

export const requestInit = { headers: { Authorization: `Bearer ${process.env.MCPHUB_KEY}` } };
