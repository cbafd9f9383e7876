// Names for what the theme's widgets leave without one, so that assistive technology can say what they are.

function labelOf(field) {
  const label = field && field.id && document.querySelector(`label[for="${CSS.escape(field.id)}"]`);
  return label ? label.textContent.trim().replace(/:$/, "") : "";
}

function mend() {
  for (const widget of document.querySelectorAll(".select2-container:not([data-named])")) {
    const name = labelOf(widget.previousElementSibling);
    if (!name) continue;
    widget.dataset.named = "";
    for (const part of widget.querySelectorAll(".select2-search__field, [role=combobox], [role=textbox]")) {
      part.setAttribute("aria-label", name);
      part.removeAttribute("aria-labelledby");
    }
  }
  for (const hint of document.querySelectorAll(".help-tooltip[aria-label]:not([role])")) hint.setAttribute("role", "img");
  // The theme's icons are words in a font of their own: "key API keys". Where one is all that a control says, it stays.
  for (const icon of document.querySelectorAll(".material-symbols-outlined:not([aria-hidden])")) {
    const control = icon.closest("a, button, summary, h1, [role=button]");
    if (control?.textContent.trim() !== icon.textContent.trim()) icon.setAttribute("aria-hidden", "true");
  }
  // Links that lead nowhere, and only have a script: Filters, the choice of a theme.
  for (const link of document.querySelectorAll("a.cursor-pointer:not([href], [role])")) {
    link.setAttribute("role", "button");
    link.tabIndex = 0;
    link.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      link.click();
    });
  }
  for (const region of document.querySelectorAll('.cm-scroller[tabindex="-1"]')) region.tabIndex = 0;
  // On a phone a row of a table is a card, whose values bear the names of their columns.
  for (const table of document.querySelectorAll(".hub-scroll > .hub-table:not(.hub-page-table, [data-cards])")) {
    table.dataset.cards = "";
    const names = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent.trim());
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    if (names.length < 2 || rows.some((row) => row.cells.length !== names.length)) continue;
    for (const row of rows) {
      [...row.cells].forEach((cell, at) => {
        if (!cell.childElementCount && !cell.textContent.trim()) cell.dataset.blank = "";
        else if (names[at]) cell.dataset.label = names[at];
      });
    }
    table.classList.add("hub-page-table");
  }
  // What scrolls sideways and holds nothing to stop at could not be scrolled by the keyboard.
  for (const region of document.querySelectorAll(".hub-scroll:not([tabindex])")) {
    if (region.scrollWidth <= region.clientWidth) continue;
    if (region.querySelector("a[href], button, input, select, textarea, summary, [tabindex='0']")) continue;
    region.tabIndex = 0;
    const name = region.closest("section[aria-labelledby]")?.getAttribute("aria-labelledby");
    if (!name) continue;
    region.setAttribute("role", "region");
    region.setAttribute("aria-labelledby", name);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  mend();
  let waits = false;
  const mendSoon = () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; mend(); });
  };
  new MutationObserver(mendSoon).observe(document.body, { childList: true, subtree: true });
  addEventListener("resize", mendSoon);
  document.addEventListener("toggle", mendSoon, true);
});
