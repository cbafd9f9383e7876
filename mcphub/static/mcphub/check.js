// Asks the hub, after each pause in writing, what it would say to the form, and says it beside the field. Nothing is
// saved. Without this script the same errors come with saving.
const PAUSE_MS = 350;

document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form[id$='_form']");
  const page = location.pathname.replace(/\/(?:change|add)\/$/, (end) => (end === "/add/" ? "/add/check/" : "/check/"));
  if (!form || page === location.pathname) return;
  const touched = new Set();
  let timer = 0;
  let round = 0;

  function place(name) {
    const input = form.elements.namedItem(name);
    if (!(input instanceof HTMLElement)) return null;
    const id = `check-${name}`;
    let shown = document.getElementById(id);
    if (!shown) {
      shown = document.createElement("p");
      shown.id = id;
      shown.className = "hub-error hub-check-error";
      shown.setAttribute("role", "status");
      (input.closest(".hub-json-editor") || input).after(shown);
      input.setAttribute("aria-describedby", `${input.getAttribute("aria-describedby") || ""} ${id}`.trim());
    }
    return { input, shown };
  }

  function tell(errors) {
    for (const [name, words] of Object.entries(errors)) {
      const found = touched.has(name) || words.length === 0 ? place(name) : null;
      if (!found) continue;
      const text = words.join(" ");
      if (found.shown.textContent !== text) found.shown.textContent = text;
      if (text) found.input.setAttribute("aria-invalid", "true");
      else found.input.removeAttribute("aria-invalid");
    }
  }

  async function ask() {
    const mine = ++round;
    const data = new FormData(form);
    for (const [name, value] of [...data]) if (value instanceof File) data.delete(name);
    try {
      const answer = await fetch(page, { method: "POST", body: data, redirect: "manual" });
      if (!answer.ok || mine !== round) return;
      const { errors, preview } = await answer.json();
      tell(errors);
      const shown = document.getElementById("hub-preview");
      const made = new DOMParser().parseFromString(preview, "text/html").getElementById("hub-preview");
      if (shown && made) shown.replaceChildren(...made.childNodes); // the live region stays, so that it is read out
    } catch {
      // The hub is away: saving will say so.
    }
  }

  form.addEventListener("input", (event) => {
    if (event.target.name) touched.add(event.target.name);
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  });
  form.addEventListener("change", (event) => {
    if (event.target.name) touched.add(event.target.name);
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE_MS);
  });
});
