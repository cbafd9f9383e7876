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
}

document.addEventListener("DOMContentLoaded", () => {
  mend();
  let waits = false;
  new MutationObserver(() => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; mend(); });
  }).observe(document.body, { childList: true, subtree: true });
});
