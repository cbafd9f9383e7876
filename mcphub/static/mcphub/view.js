// The host of a tool's view (MCP Apps, 2026-01-26): answers the page in the frame, which has no origin and reaches nothing
// by itself. Each message of it is checked here, and what it asks for goes to the hub, or to the person.
const VERSION = "2026-01-26";
const MOST_WAITING = 8;
const MOST_IN_TEN_SECONDS = 200;
const MOST_SAID = 50;
const HEIGHT = { least: 80, most: 1200 };

function host(place) {
  const call = JSON.parse(document.getElementById("hub-view-call").textContent);
  const frame = place.querySelector("iframe");
  const said = place.querySelector(".hub-view-said");
  const asks = place.querySelector(".hub-view-asks");
  const words = place.dataset;
  const questions = [];
  let waiting = 0;
  let heard = 0;
  let isShown = false;

  // A page without an origin has no address for messages but "*". The frame leads nowhere else: see the page's policy.
  const send = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const fail = (id, text, code = -32000) => send({ id, error: { code, message: text } });

  function say(title, text) {
    const line = document.createElement("li");
    line.textContent = `${title}: ${String(text).slice(0, 2000)}`;
    said.append(line);
    while (said.children.length > MOST_SAID) said.firstElementChild.remove();
  }

  function put() {
    const [question] = questions;
    asks.hidden = !question;
    if (!question) return;
    asks.querySelector("p").textContent = question.title;
    asks.querySelector("pre").textContent = question.text;
    asks.querySelector("[data-answer=no]").focus();
  }

  function ask(title, text) {
    return new Promise((resolve) => {
      questions.push({ title, text, resolve });
      if (questions.length === 1) put();
    });
  }

  for (const button of asks.querySelectorAll("[data-answer]")) {
    button.addEventListener("click", () => {
      questions.shift()?.resolve(button.dataset.answer === "yes");
      put();
    });
  }

  async function hub(message, agreed) {
    const answer = await fetch(call.asked, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRFToken": document.querySelector("[name=csrfmiddlewaretoken]").value },
      body: JSON.stringify({ method: message.method, params: message.params ?? {}, agreed }),
    });
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  }

  async function forward(message) {
    if (waiting >= MOST_WAITING) return fail(message.id, "Too many requests at once. Wait for an answer.");
    waiting += 1;
    try {
      let answer = await hub(message, false);
      if (answer.asks) {
        const agreed = await ask(words.call, `${answer.asks.tool}\n${answer.asks.arguments}`);
        answer = agreed ? await hub(message, true) : { error: { code: -32000, message: words.refused } };
      }
      send({ id: message.id, ...answer });
    } catch {
      say(message.method, words.failed);
      fail(message.id, words.failed);
    } finally {
      waiting -= 1;
    }
  }

  async function open(message) {
    let address;
    try {
      address = new URL(message.params?.url);
    } catch {
      return fail(message.id, "Invalid URL");
    }
    if (!["http:", "https:"].includes(address.protocol)) return fail(message.id, "Invalid URL");
    if (!(await ask(words.open, address.href))) return fail(message.id, words.refused);
    window.open(address.href, "_blank", "noopener,noreferrer");
    send({ id: message.id, result: {} });
  }

  const textOf = (content) => [content ?? []].flat().map((block) => block?.text ?? JSON.stringify(block)).join("\n");

  const requests = {
    "ui/initialize": (message) => send({ id: message.id, result: {
      protocolVersion: VERSION,
      hostInfo: { name: "mcphub", version: "1" },
      hostCapabilities: { openLinks: {}, serverTools: {}, serverResources: {}, logging: {} },
      hostContext: {
        toolInfo: { tool: call.tool },
        theme: document.documentElement.classList.contains("dark") ? "dark" : "light",
        displayMode: "inline",
        availableDisplayModes: ["inline"],
        containerDimensions: { maxHeight: HEIGHT.most, maxWidth: frame.clientWidth },
        locale: call.language,
        timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        userAgent: "MCP Hub",
        platform: "web",
      },
    } }),
    "ping": (message) => send({ id: message.id, result: {} }),
    "tools/call": forward,
    "resources/read": forward,
    "ui/open-link": open,
    "ui/request-display-mode": (message) => send({ id: message.id, result: { mode: "inline" } }),
    "ui/message": (message) => {
      say(words.message, textOf(message.params?.content));
      send({ id: message.id, result: {} });
    },
    "ui/update-model-context": (message) => {
      say(words.context, textOf(message.params?.content) || JSON.stringify(message.params?.structuredContent ?? {}));
      send({ id: message.id, result: {} });
    },
  };

  const notifications = {
    "ui/notifications/initialized": () => {
      if (isShown) return;
      isShown = true;
      send({ method: "ui/notifications/tool-input", params: { arguments: call.arguments } });
      send({ method: "ui/notifications/tool-result", params: call.result });
    },
    "ui/notifications/size-changed": (message) => {
      const height = Number(message.params?.height);
      if (height > 0) frame.style.height = `${Math.min(Math.max(height, HEIGHT.least), HEIGHT.most)}px`;
    },
    "notifications/message": (message) => say(words.log, textOf([message.params?.data].map((data) => ({ text: typeof data === "string" ? data : JSON.stringify(data) })))),
  };

  window.addEventListener("message", (event) => {
    if (event.source !== frame.contentWindow || event.origin !== "null") return;
    const message = event.data;
    if (typeof message !== "object" || message === null || message.jsonrpc !== "2.0" || typeof message.method !== "string") return;
    heard += 1;
    if (heard === MOST_IN_TEN_SECONDS + 1) say("!", words.flood);
    if (heard > MOST_IN_TEN_SECONDS) return;
    if (!("id" in message)) {
      if (Object.hasOwn(notifications, message.method)) notifications[message.method](message);
    } else if (typeof message.id !== "string" && typeof message.id !== "number") {
      return;
    } else if (Object.hasOwn(requests, message.method)) requests[message.method](message);
    else fail(message.id, "The console does not do this.", -32601);
  });
  setInterval(() => { if (heard <= MOST_IN_TEN_SECONDS) heard = 0; }, 10_000);

  frame.src = call.page; // once everything listens
}

for (const place of document.querySelectorAll("#hub-view")) host(place);
