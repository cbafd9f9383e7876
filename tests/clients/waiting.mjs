// What both JavaScript clients do with calls that wait for a yes; see waiting_v1.py.
import { createInterface } from "node:readline";

export const now = {};
const asked = [];

export async function elicit({ params }) {
  asked.push(params.message);
  return now.answer;
}

// `call(params, options)` calls a tool.
export async function callAll(call) {
  for await (const line of createInterface({ input: process.stdin })) {
    Object.assign(now, JSON.parse(line));
    asked.length = 0;
    const onprogress = (progress) => console.log(JSON.stringify({ heard: progress.message ?? "" }));
    const options = { onprogress, resetTimeoutOnProgress: true };
    const result = await call({ name: now.name, arguments: now.arguments }, options);
    const told = { text: result.content[0].text, isError: Boolean(result.isError), meta: result._meta ?? {} };
    console.log(JSON.stringify({ ...told, asked }));
  }
}
