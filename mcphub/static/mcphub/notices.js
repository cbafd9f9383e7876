// Badge and toasts of notices. A stream only says that there is something new; count and words are then asked for, so
// nothing is lost while no stream is open. A page holds one only while it is seen: browsers open few to one server.
const FIRST_AGAIN_MS = 2000;
const MOST_AGAIN_MS = 60000;
const TOAST_MS = 12000;
const MOST_NUMBER = 99;

document.addEventListener("DOMContentLoaded", () => {
  const badge = document.querySelector("[data-notices]");
  if (!badge) return;
  const toasts = document.querySelector("[data-toasts]");
  const count = badge.querySelector("[data-notices-count]");
  const number = badge.querySelector("[data-notices-number]");
  document.body.append(toasts); // above what scrolls
  let source = null;
  let timer = 0;
  let again = FIRST_AGAIN_MS;
  let newest = null;
  let isAsking = false;
  let isStale = false;
  let isOpen = false;

  function show(told) {
    const toast = document.createElement("div");
    toast.className = `hub-toast${told.alarm ? " hub-toast-alarm" : ""}`;
    const link = document.createElement("a");
    link.href = told.link;
    const title = document.createElement("strong");
    title.textContent = told.title;
    const words = document.createElement("span");
    words.textContent = told.words;
    link.append(title, words);
    const close = document.createElement("button");
    close.type = "button";
    close.setAttribute("aria-label", badge.dataset.close);
    close.textContent = "×";
    close.addEventListener("click", () => toast.remove());
    toast.append(link, close);
    toasts.append(toast);
    while (toasts.children.length > 3) toasts.firstElementChild.remove();
    if (told.alarm) return; // stays until somebody closes it
    const go = () => (toast.matches(":hover, :focus-within") ? setTimeout(go, TOAST_MS) : toast.remove());
    setTimeout(go, TOAST_MS);
  }

  async function ask() {
    if (isAsking) {
      isStale = true;
      return;
    }
    isAsking = true;
    try {
      const after = newest === null ? "" : `?after=${newest}`;
      const answer = await fetch(badge.dataset.state + after, { redirect: "manual" });
      if (!answer.ok) return;
      const state = await answer.json();
      count.hidden = state.unread === 0;
      number.textContent = state.unread > MOST_NUMBER ? `${MOST_NUMBER}+` : String(state.unread);
      newest = Math.max(newest ?? 0, state.newest);
      if (isOpen) badge.dataset.live = "open"; // from here on a toast shows what is told: `newest` is known
      state.toasts.forEach(show);
    } catch {
      // The hub is away; the stream comes back, and asks.
    } finally {
      isAsking = false;
      if (isStale) {
        isStale = false;
        ask();
      }
    }
  }

  function open() {
    clearTimeout(timer);
    if (source || document.hidden) return;
    source = new EventSource(badge.dataset.stream);
    source.addEventListener("stream-open", () => {
      again = FIRST_AGAIN_MS;
      isOpen = true;
      ask();
    });
    source.addEventListener("notice", ask);
    source.addEventListener("error", close);
    source.addEventListener("stream-error", close);
  }

  function close() {
    isOpen = false;
    delete badge.dataset.live;
    source?.close();
    source = null;
    if (document.hidden) return;
    if (newest === null) ask(); // there may be no place for a stream, and the count is wanted all the same
    timer = setTimeout(open, again * (0.75 + Math.random() / 2));
    again = Math.min(MOST_AGAIN_MS, again * 2);
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
});
