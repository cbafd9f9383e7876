// Follows the list of calls. Events tell only that there is more, and up to which sequence; the rows between the last
// one shown and that are fetched, so that none is missed and none comes twice, whatever breaks in between.
const FETCH_MS = 400;
const AGAIN_MS = 3000;
const STATES = {
  connecting: ["wait", "schedule"], following: ["good", "check_circle"], paused: ["warn", "warning"],
  pointer: ["warn", "warning"], focus: ["warn", "warning"], selection: ["warn", "warning"],
  lost: ["bad", "error"], ended: ["bad", "error"],
};

function follow(bar) {
  const part = (name) => bar.querySelector(`[data-live="${name}"]`);
  const words = bar.dataset;
  const most = Number(words.most);
  const form = document.getElementById("changelist-form");
  const table = () => document.getElementById("result_list");
  const pauses = new Set(); // of paused, pointer, focus, selection
  let source = null;
  let on = false;
  let connection = "connecting";
  let cursor = 0; // shown up to this sequence
  let told = 0; // there is more up to this one
  let waiting = 0; // calls told of since the last fetch
  let isFetching = false;
  let timer = 0;
  let round = 0; // answers to an earlier round of following are dropped

  function say() {
    const state = connection !== "following" ? connection : [...pauses].pop() || "following";
    const [kind, icon] = STATES[state];
    const shown = part("state");
    shown.hidden = !on && state !== "ended";
    shown.className = `hub-mark hub-${kind}`;
    if (shown.lastElementChild.textContent !== words[state]) {
      shown.firstElementChild.textContent = icon;
      shown.lastElementChild.textContent = words[state];
    }
    part("toggle").setAttribute("aria-pressed", String(on));
    part("toggle").textContent = on ? words.stop : words.follow;
    part("pause").hidden = !on;
    part("pause").textContent = pauses.has("paused") ? words.resume : words.pause;
    part("new").hidden = !on || waiting === 0 || pauses.size === 0;
    part("new").textContent = words.new.replace("{count}", String(waiting));
  }

  function later(deed, delay) {
    clearTimeout(timer);
    timer = setTimeout(deed, delay);
  }

  async function fetchRows(after, upto) {
    const answer = await fetch(`${words.base}${after}/${upto}/${location.search}`, { redirect: "manual" });
    if (answer.type === "opaqueredirect" || answer.status === 403) throw new Error("ended");
    if (!answer.ok) throw new Error("lost");
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    return { page, upto: Number(answer.headers.get("X-Upto")), more: answer.headers.get("X-More") === "1" };
  }

  function fail(error) {
    if (error.message === "ended") {
      stop();
      connection = "ended";
    } else {
      connection = "lost";
      source?.close();
      later(connect, AGAIN_MS);
    }
    say();
  }

  function replace(page) {
    for (const child of [...form.children]) if (!child.matches("input")) child.remove();
    form.append(...[...page.body.children].map((child) => document.adoptNode(child)));
    watch();
  }

  async function connect() {
    const mine = ++round;
    connection = "connecting";
    say();
    try {
      // The first time the list begins anew, at a sequence below which every call is visible.
      const got = await fetchRows(cursor, cursor);
      if (mine !== round || !on) return;
      if (cursor === 0) {
        replace(got.page);
        cursor = told = got.upto;
      }
    } catch (error) {
      if (mine === round && on) fail(error);
      return;
    }
    source?.close();
    source = new EventSource(`${words.base}${Math.max(cursor, told)}/${location.search}`);
    source.addEventListener("open", () => { connection = "following"; say(); flush(); });
    source.addEventListener("invocation", (event) => {
      const sequence = Number(event.lastEventId);
      if (sequence <= told) return;
      told = sequence;
      waiting += 1;
      if (pauses.size === 0 && !isFetching) later(flush, FETCH_MS);
      say();
    });
    source.addEventListener("error", (event) => {
      if (event.target !== source || !on) return;
      connection = "lost";
      say();
      if (source.readyState === EventSource.CLOSED) later(connect, AGAIN_MS);
    });
  }

  async function flush(force = false) {
    if (!on || isFetching || told <= cursor || (pauses.size > 0 && force !== true)) return;
    const mine = round;
    const counted = waiting;
    isFetching = true;
    waiting = 0;
    try {
      const got = await fetchRows(cursor, told);
      if (mine !== round || !on) {
        waiting += counted;
        return;
      }
      const fresh = [...got.page.querySelectorAll("#result_list > tbody")];
      if (!table()) replace(got.page);
      else table().querySelector("thead").after(...fresh.map((row) => document.adoptNode(row)));
      cursor = got.upto;
      const rows = [...table()?.querySelectorAll(":scope > tbody") ?? []];
      for (const row of rows.slice(most)) row.remove();
      if (got.more || rows.length > most) {
        part("dropped").textContent = words.dropped;
        part("dropped").hidden = false;
      }
    } catch (error) {
      waiting += counted;
      if (mine === round && on) fail(error);
    } finally {
      isFetching = false;
      say();
      if (on && connection === "following" && told > cursor && pauses.size === 0) later(flush, FETCH_MS);
    }
  }

  function pause(reason, is) {
    if (pauses.has(reason) === is) return;
    if (is) pauses.add(reason);
    else pauses.delete(reason);
    say();
    flush();
  }

  function stop() {
    on = false;
    round += 1;
    clearTimeout(timer);
    source?.close();
    source = null;
    pauses.clear();
    cursor = told = waiting = 0;
    say();
  }

  function watch() {
    const list = table();
    if (!list || list.dataset.watched) return;
    list.dataset.watched = "yes";
    list.addEventListener("pointerenter", () => on && pause("pointer", true));
    list.addEventListener("pointerleave", () => pause("pointer", false));
    list.addEventListener("focusin", () => on && pause("focus", true));
    list.addEventListener("focusout", (event) => !list.contains(event.relatedTarget) && pause("focus", false));
  }

  document.addEventListener("selectionchange", () => {
    const selection = getSelection();
    const list = table();
    pause("selection", on && Boolean(list) && !selection.isCollapsed && selection.containsNode(list, true));
  });
  part("toggle").addEventListener("click", () => {
    if (on) {
      stop();
      return;
    }
    on = true;
    watch();
    connect();
  });
  part("pause").addEventListener("click", () => pause("paused", !pauses.has("paused")));
  part("new").addEventListener("click", () => flush(true));
  addEventListener("pagehide", () => source?.close());
  bar.hidden = false;
}

document.addEventListener("DOMContentLoaded", () => {
  const bar = document.getElementById("hub-live");
  if (bar) follow(bar);
});
