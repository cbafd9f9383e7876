(function (global, send) {
  "use strict";
  // What a program changes of these objects later does not reach the functions below; nothing else depends on them.
  const { stringify, parse } = JSON;
  const { get, ownKeys } = Reflect;
  const waiting = new Map();
  const kept = { get: Map.prototype.get.bind(waiting), set: Map.prototype.set.bind(waiting),
                 remove: Map.prototype.delete.bind(waiting) };
  const PromiseHere = Promise, ErrorHere = Error;
  let asked = 0;

  class HubCallError extends Error {
    constructor(code, message, details) {
      super(message);
      this.name = "HubCallError";
      this.code = code;
      this.details = details;
    }
  }

  const ask = (what, name, given) => begun(what, name, given, new ErrorHere().stack);
  const begun = (what, name, given, asker) => new PromiseHere((resolve, reject) => {
    const text = stringify(given === undefined ? {} : given);
    if (typeof name !== "string") throw new TypeError("The name must be a text.");
    if (text === undefined) throw new TypeError("The arguments must be an object that JSON can hold.");
    const id = ++asked;
    kept.set(id, [resolve, reject, asker]);
    send(stringify({ ask: what, id, name, text }));
  });

  const call = (name, given) => ask("call", name, given);
  const words = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    let text;
    try { text = stringify(value); } catch (error) { text = undefined; }
    return text === undefined ? String(value) : text;
  };
  const print = (...values) => { send(stringify({ print: values.map(words).join(" ") + "\n" })); };

  const tools = new Proxy(Object.create(null), {
    get: (target, name) =>
      typeof name === "symbol" || name === "then" ? undefined : function call_tool(given) { return call(name, given); },
    set: () => false, defineProperty: () => false, deleteProperty: () => false, setPrototypeOf: () => false,
    ownKeys: (target) => ownKeys(target),
  });
  const given = {
    tools, call, print, HubCallError,
    search: (query, limit) => ask("search", String(query), { limit }),
    describe: (name) => ask("describe", String(name)),
    console: Object.freeze({ log: print, info: print, warn: print, error: print, debug: print }),
  };
  for (const name of Object.keys(given)) {
    Object.defineProperty(global, name, { value: given[name], enumerable: true });
  }

  const failed = (error) => {
    const isError = error instanceof Error;
    send(stringify({
      failed: isError ? `${error.name}: ${error.message}` : `The program threw ${words(error)}`,
      kind: isError ? String(error.name) : error === null ? "null" : "", code: error instanceof HubCallError ? error.code : "",
      stack: isError && typeof error.stack === "string" ? error.stack : "",
    }));
  };
  return {
    begin(program) {
      program().then(
        (value) => {
          let text;
          try { text = stringify(value); } catch (error) { return failed(error); }
          send(stringify({ done: text === undefined ? null : text }));
        },
      ).catch(failed);
    },
    settle(id, text, isFailure) {
      const found = kept.get(id);
      if (found === undefined) return;
      kept.remove(id);
      const value = parse(text);
      if (!isFailure) return found[0](value);
      const error = new HubCallError(value.code, value.message, value.details);
      error.stack = found[2];  // the line of the program that made the call
      found[1](error);
    },
  };
})
