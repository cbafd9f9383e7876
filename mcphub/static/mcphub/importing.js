// The import of an API: says that a description is being read, and how many of the chosen operations are checked and written.
// Without this script the same forms are sent, and the browser waits.
const EVERY_MS = 700;

function rest(form, on) {
  form.setAttribute("aria-busy", String(on));
  for (const button of form.querySelectorAll("button")) button.disabled = on;
}

function reading(form) {
  form.addEventListener("submit", () => {
    setTimeout(() => rest(form, true)); // a disabled button would not be sent
    form.querySelector("[data-busy-words]").textContent = form.dataset.busy;
  });
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    rest(form, false);
    form.querySelector("[data-busy-words]").textContent = "";
  });
}

function importing(form) {
  const state = form.querySelector("[data-importing-state]");
  const bar = state.querySelector("progress");
  const said = state.querySelector("[role=status]");
  const words = form.dataset;
  let timer = 0;

  function show({ step, done, total }) {
    if (!total) return;
    bar.max = total;
    bar.value = done;
    said.textContent = words[step].replace("{done}", done).replace("{total}", total);
  }

  async function ask() {
    try {
      const answer = await fetch(`${form.action}?progress=1`, { redirect: "manual" });
      if (answer.ok && timer) show(await answer.json());
    } catch {
      // The import itself says whether the hub is away.
    }
    if (timer) timer = setTimeout(ask, EVERY_MS);
  }

  async function send(data) {
    rest(form, true);
    state.hidden = false;
    bar.removeAttribute("value");
    said.textContent = words.starting;
    timer = setTimeout(ask, EVERY_MS);
    try {
      const answer = await fetch(form.action, { method: "POST", body: data, headers: { Accept: "application/json" } });
      const { next } = await answer.json();
      location.assign(next);
    } catch {
      said.textContent = words.failed;
      bar.hidden = true;
      rest(form, false);
    } finally {
      clearTimeout(timer);
      timer = 0;
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const data = new FormData(form);
    if (event.submitter?.name) data.append(event.submitter.name, event.submitter.value);
    bar.hidden = false;
    send(data);
  });
}

// Ticks operations by what they do, and counts them.
function ticking(form) {
  const bar = form.querySelector("[data-ticking]");
  const said = bar.querySelector("[role=status]");
  const boxes = [...form.querySelectorAll("[name=operation]:enabled")];
  const count = () => {
    said.textContent = said.dataset.words.replace("{count}", boxes.filter((box) => box.checked).length);
  };
  bar.hidden = false;
  bar.addEventListener("click", (event) => {
    const chosen = event.target.dataset.tick;
    if (!chosen) return;
    for (const box of boxes) box.checked = chosen === "all" || box.dataset.effects === chosen;
    count();
  });
  form.addEventListener("change", count);
  count();
}

document.addEventListener("DOMContentLoaded", () => {
  const first = document.querySelector("form[data-busy]");
  const second = document.querySelector("form[data-importing]");
  if (first) reading(first);
  if (second) importing(second);
  if (second) ticking(second);
});
