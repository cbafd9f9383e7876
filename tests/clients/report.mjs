// What every JavaScript client does with the hub, and the line in which it says what it saw.

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
  const spoken = version();
  await client.close();
  console.log(
    JSON.stringify({
      version: spoken,
      tools: tools.map((tool) => tool.name),
      echo: echo.content[0].text,
      add: added.content[0].text,
      bad: bad.isError ? bad.content[0].text : "",
      unknown,
    }),
  );
}

export const requestInit = { headers: { Authorization: `Bearer ${process.env.MCPHUB_KEY}` } };
