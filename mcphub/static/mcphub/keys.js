// Keys of the console: rows and pages of a list, screens, and the list of them all. `/` (search) and Ctrl+K (palette)
// are the theme's own. Nothing happens while something is written, and the focus is the browser's own: Enter opens the
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

  const deeds = {
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
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
});
