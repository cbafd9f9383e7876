// The page that connects a client: choosing one, putting a key into its text, and what arrives meanwhile.
const SILENT_MS = 6000;
const PATIENCE_MS = 30000;
const MOST = 50;
const KINDS = { call: ["good", "check_circle"], failed: ["bad", "error"], session: ["wait", "cable"], refused: ["warn", "warning"] };

function choose(key) {
  for (const link of document.querySelectorAll("a[data-client]")) {
    if (link.dataset.client === key) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const section of document.querySelectorAll("[data-snippet]")) section.hidden = section.dataset.snippet !== key;
  for (const part of document.querySelectorAll("[data-signing-in]")) part.hidden = part.dataset.signingIn !== key;
  for (const field of document.querySelectorAll("input[name=client]")) field.value = key;
  for (const link of document.querySelectorAll("a[data-leave]")) link.href = link.href.replace(/client=[^&]*/, `client=${key}`);
}

function choosing() {
  for (const link of document.querySelectorAll("a[data-client]")) {
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      choose(link.dataset.client);
      const address = new URL(location.href);
      address.searchParams.set("client", link.dataset.client);
      history.replaceState(history.state, "", address);
    });
  }
}

// One stop of Tab for all clients, as in every toolbar: the arrow keys go from one to the next.
function stepping() {
  const links = [...document.querySelectorAll("a[data-client]")];
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  const stopAt = (here) => { for (const link of links) link.tabIndex = link === here ? 0 : -1; };
  stopAt(links.find((link) => link.hasAttribute("aria-current")) ?? links[0]);
  for (const link of links) {
    link.addEventListener("focus", () => stopAt(link));
    link.addEventListener("keydown", (event) => {
      const by = steps[event.key];
      if (!by || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      links[(links.indexOf(link) + by + links.length) % links.length].focus();
    });
  }
}

function pasting() {
  const place = document.querySelector("[data-connect=paste]");
  if (!place) return;
  const words = place.dataset;
  const blocks = [...document.querySelectorAll("[data-snippet] pre")].map((block) => [block, block.textContent]);
  const field = place.querySelector("input");
  place.hidden = false;
  field.addEventListener("input", () => {
    const key = field.value.trim();
    const fits = /^[A-Za-z0-9._~+/=-]*$/.test(key);
    field.setAttribute("aria-invalid", String(!fits));
    document.getElementById("hub-paste-error").textContent = fits ? "" : words.notkey;
    for (const [block, text] of blocks) block.textContent = text.replaceAll(words.placeholder, fits && key ? key : words.placeholder);
  });
}

function watching(panel) {
  const part = (name) => panel.querySelector(`[data-connect="${name}"]`);
  const words = panel.dataset;
  const select = document.getElementById("hub-watched");
  const seen = new Map();
  let source = null;
  let best = "waiting"; // the best that has happened
  let silence = 0;

  function say(kind, icon, text) {
    const state = part("state");
    state.className = `hub-mark hub-${kind}`;
    if (state.lastElementChild.textContent === text) return;
    state.firstElementChild.textContent = icon;
    state.lastElementChild.textContent = text;
  }

  function sayBest() {
    if (best === "call") say("good", "check_circle", words.arrived);
    else if (best === "failed") say("warn", "warning", words.failed);
    else if (best === "session") say("wait", "cable", words.open);
    else say("wait", "schedule", words.waiting);
  }

  function line(key, kind, title, facts, link, name) {
    const [colour, icon] = KINDS[kind];
    const row = document.createElement("li");
    const mark = document.createElement("span");
    mark.className = `hub-mark hub-${colour}`;
    const sign = document.createElement("span");
    sign.className = "material-symbols-outlined";
    sign.setAttribute("aria-hidden", "true");
    sign.textContent = icon;
    mark.append(sign, title);
    row.append(mark, ` ${facts.filter(Boolean).join(" · ")} `);
    if (link) {
      const anchor = document.createElement("a");
      anchor.className = "hub-link";
      anchor.href = link;
      anchor.target = "_blank"; // a key may stand on this page for the only time
      anchor.rel = "noopener";
      anchor.textContent = name;
      row.append(anchor);
    }
    seen.get(key)?.remove();
    seen.set(key, row);
    part("list").prepend(row);
    while (part("list").children.length > MOST) part("list").lastElementChild.remove();
  }

  function reached(what) {
    const order = ["waiting", "session", "failed", "call"];
    if (order.indexOf(what) > order.indexOf(best)) best = what;
    sayBest();
  }

  const told = {
    invocation(call, key) {
      const kind = call.ok ? "call" : "failed";
      line(key, kind, call.ok ? words.call : words.failed, [call.at, call.tool, call.code, call.client, call.caller, call.took], call.link, words.record);
      reached(kind);
    },
    session(session) {
      line(session.key, "session", words.session, [session.at, session.client, session.transport, session.version, session.caller], session.link, words.page);
      reached("session");
    },
    refusal(refusal) {
      const many = refusal.count > 1 ? `× ${refusal.count}` : "";
      line(refusal.key, "refused", `${words.refused}: ${refusal.status}`, [refusal.at, refusal.path, refusal.address, refusal.agent, many, refusal.advice]);
    },
  };

  function open() {
    source?.close();
    clearTimeout(silence);
    say("wait", "schedule", words.connecting);
    const query = new URLSearchParams({ since: words.since, key: select ? select.value : "" });
    source = new EventSource(`${words.base}?${query}`);
    silence = setTimeout(() => say("warn", "warning", words.silent), SILENT_MS);
    source.addEventListener("open", () => { clearTimeout(silence); sayBest(); });
    source.addEventListener("error", (event) => {
      if (event.target !== source) return;
      say("bad", "error", words.lost);
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 3000);
    });
    for (const [kind, tell] of Object.entries(told)) {
      source.addEventListener(kind, (event) => tell(JSON.parse(event.data), `c${event.lastEventId}`));
    }
  }

  select?.addEventListener("change", () => {
    best = "waiting";
    seen.clear();
    part("list").replaceChildren();
    open();
  });
  addEventListener("pagehide", () => source?.close());
  setTimeout(() => { if (best === "waiting") part("checklist").open = true; }, PATIENCE_MS);
  panel.hidden = false;
  open();
}

document.addEventListener("DOMContentLoaded", () => {
  const panel = document.getElementById("hub-connect");
  choosing();
  stepping();
  pasting();
  if (panel) watching(panel);
});
