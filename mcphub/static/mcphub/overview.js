// Keeps the overview current while it is seen. What is opened, or has the focus, is not taken from under the reader.
const OVERVIEW_EVERY_MS = 30000;
const OVERVIEW_RESTS = "hubOverviewRests";

document.addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector("[data-refresh-overview]");
  if (!button) return;
  const shown = document.getElementById("hub-overview");
  const window_ = document.querySelector(".hub-window > span");
  let timer = 0;

  async function refresh() {
    if (document.hidden || document.querySelector("dialog[open]") || shown.contains(document.activeElement)) return again();
    try {
      const answer = await fetch(location.href, { redirect: "manual" });
      if (!answer.ok) throw new Error("refused");
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("hub-overview");
      const opened = [...shown.querySelectorAll("details")].map((each) => each.open);
      [...fresh.querySelectorAll("details")].forEach((each, at) => { each.open = opened[at] ?? false; });
      shown.replaceChildren(...fresh.childNodes);
      window_.textContent = page.querySelector(".hub-window > span").textContent;
    } catch {
      // The hub is away, or the login ended; the next one may succeed.
    }
    again();
  }

  function again() {
    clearTimeout(timer);
    timer = setTimeout(refresh, OVERVIEW_EVERY_MS);
  }

  function set(rests) {
    localStorage.setItem(OVERVIEW_RESTS, rests ? "1" : "");
    button.setAttribute("aria-pressed", String(!rests));
    button.textContent = rests ? button.dataset.start : button.dataset.stop;
    if (rests) clearTimeout(timer);
    else again();
  }

  button.hidden = false;
  button.addEventListener("click", () => set(button.getAttribute("aria-pressed") === "true"));
  document.addEventListener("visibilitychange", () => !document.hidden && button.getAttribute("aria-pressed") === "true" && refresh());
  set(localStorage.getItem(OVERVIEW_RESTS) === "1");
});
