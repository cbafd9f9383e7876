// Keys of the console: rows and pages of a list, screens, and the list of them all. `/` (search)
// is the theme's own, Ctrl+K palette.js. Nothing happens while something is written, and the focus is the browser's own: Enter opens the
// link that has it, and assistive technology says it.
const WRITING = "input, textarea, select, [contenteditable], [role=textbox], [role=combobox], .cm-editor";
const PREFIX_MS = 1500;

document.addEventListener("DOMContentLoaded", () => {
  const dialog = document.getElementById("hub-keys");
  if (!dialog) return;
  let prefixed = 0; // until when a screen's letter is waited for

  const links = () => [...document.querySelectorAll("#result_list > tbody")]
    .map((row) => row.querySelector("th a[href], td a[href]"))
    .filter((link) => link && link.offsetParent);

  function step(by) {
    const all = links();
    const here = all.findIndex((link) => link.closest("tbody") === document.activeElement?.closest("#result_list > tbody"));
    const next = here === -1 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(here + by, 0), all.length - 1);
    all[next]?.focus();
  }

  // A deed of the rows that are selected, else of the one that has the focus, or of the row whose page this is. What
  // follows asks before anything happens. `names`: of the deed, as an action and in addresses.
  function decide(key, ...names) {
    const list = document.getElementById("result_list");
    if (!list) {
      names.map((name) => document.querySelector(`a[href$="/${name}/"]`)).find(Boolean)?.click();
      return;
    }
    const row = document.activeElement?.closest("#result_list > tbody");
    if (!list.querySelector("input.action-select:checked")) {
      const link = row?.querySelector(`a[data-deed="${key}"]`);
      const box = row?.querySelector("input.action-select");
      if (link || !box) {
        link?.click();
        return;
      }
      box.click();
    }
    const choice = document.querySelector("select[name=action]");
    const option = [...(choice?.options ?? [])].find((each) => names.includes(each.value));
    if (!option) return;
    choice.value = option.value;
    choice.form.requestSubmit(choice.form.querySelector("button[name=index]"));
  }

  const deeds = {
    a: () => decide("a", "approve", "approve-it", "approve_selected"),
    d: () => decide("d", "deny", "reject-it", "reject_selected"),
    e: () => decide("e", "edit"),
    y: () => document.querySelector("main button[name=confirmed], #main button[name=confirmed]")?.click(),
    X: () => document.getElementById("action-toggle")?.click(),
    x: () => document.activeElement?.closest("#result_list > tbody")?.querySelector("input.action-select")?.click(),
    j: () => step(1),
    k: () => step(-1),
    n: () => document.querySelector("a[rel=next]")?.click(),
    p: () => document.querySelector("a[rel=prev]")?.click(),
    "?": () => dialog.showModal(),
    g: () => { prefixed = Date.now() + PREFIX_MS; },
  };

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Shift") return;
    if (event.target.closest?.(WRITING) || document.querySelector("dialog[open]")) return;
    const waited = Date.now() < prefixed;
    prefixed = 0;
    if (waited) {
      const link = dialog.querySelector(`a[data-key="${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        location.assign(link.href);
      }
      return;
    }
    const deed = Object.hasOwn(deeds, event.key) ? deeds[event.key] : null;
    if (!deed) return;
    event.preventDefault();
    deed();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("a[href='#hub-keys']")) return;
    event.preventDefault();
    dialog.showModal();
  });
  for (const link of document.querySelectorAll("[data-skip]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault(); // a fragment in the address would be taken for a tab of the page
      const wanted = document.querySelector(link.dataset.skip);
      const place = wanted.querySelector(":scope > tbody") ?? wanted;
      place.tabIndex = -1;
      place.focus();
    });
  }
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.activeElement?.closest?.(".hub-menu[open]");
    if (!menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll(".hub-menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
});
