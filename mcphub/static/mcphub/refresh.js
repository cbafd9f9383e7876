// Keeps the rows of a short list current while its button is pressed in; what is marked stays marked.
const EVERY_MS = 2000;

document.addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector("button[data-refresh]");
  if (!button) return;
  button.hidden = false;
  let timer = 0;

  async function refresh() {
    try {
      const answer = await fetch(location.href, { redirect: "manual" });
      if (!answer.ok) throw new Error("ended");
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const rows = new Map();
      for (const row of page.querySelectorAll("#result_list tbody tr")) {
        rows.set(row.querySelector("input.action-select")?.value ?? row.cells[0].textContent, row);
      }
      for (const row of document.querySelectorAll("#result_list tbody tr")) {
        const fresh = rows.get(row.querySelector("input.action-select")?.value ?? row.cells[0].textContent);
        for (const cell of fresh ? row.querySelectorAll("td[class*='field-']") : []) {
          const now = fresh.querySelector(`td.${[...cell.classList].find((name) => name.startsWith("field-"))}`);
          if (now && now.innerHTML !== cell.innerHTML && !cell.contains(document.activeElement)) cell.replaceChildren(...now.childNodes);
        }
      }
      timer = setTimeout(refresh, EVERY_MS);
    } catch {
      toggle(false);
    }
  }

  function toggle(on) {
    clearTimeout(timer);
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? button.dataset.stop : button.dataset.start;
    if (on) refresh();
  }

  button.addEventListener("click", () => toggle(button.getAttribute("aria-pressed") !== "true"));
});
