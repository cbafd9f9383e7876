// The palette: Ctrl+K, or its button in the side bar. What is found comes from the hub, in groups; arrows choose, Enter
// opens, with Ctrl in another tab. The focus stays in the field; the chosen entry is told by aria-activedescendant.
const ASK_AFTER_MS = 120;

document.addEventListener("DOMContentLoaded", () => {
  const dialog = document.getElementById("hub-palette");
  if (!dialog) return;
  const field = dialog.querySelector("[role=combobox]");
  const list = dialog.querySelector("[role=listbox]");
  const said = dialog.querySelector("[data-palette-said]");
  let timer = 0;
  let asked = null; // the request under way
  let shownFor = null; // the words whose answer is shown
  let isOpening = false; // Enter came before the answer did

  const options = () => [...list.querySelectorAll("[role=option]")];
  const chosen = () => list.querySelector("[aria-selected=true]");

  function choose(option) {
    chosen()?.setAttribute("aria-selected", "false");
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) field.setAttribute("aria-activedescendant", option.id);
    else field.removeAttribute("aria-activedescendant");
  }

  function words(tag, text, className) {
    const part = document.createElement(tag);
    part.textContent = text;
    if (className) part.className = className;
    return part;
  }

  function optionOf(item, number) {
    const option = document.createElement("a");
    option.href = item.link;
    option.id = `hub-palette-${number}`;
    option.tabIndex = -1;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    const icon = words("span", item.icon, "material-symbols-outlined");
    icon.setAttribute("aria-hidden", "true");
    option.append(icon, words("span", item.title, "hub-palette-title"), words("span", item.about, "hub-subtle"));
    option.addEventListener("mousemove", () => choose(option));
    option.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey) return;
      dialog.close();
    });
    return option;
  }

  function show(answer, sought) {
    shownFor = sought;
    let number = 0;
    list.replaceChildren(...answer.groups.map((group, place) => {
      const part = document.createElement("div");
      part.setAttribute("role", "group");
      part.setAttribute("aria-labelledby", `hub-palette-group-${place}`);
      const title = words("span", group.title, "hub-palette-group");
      title.id = `hub-palette-group-${place}`;
      part.append(title, ...group.items.map((item) => optionOf(item, number++)));
      return part;
    }));
    list.hidden = number === 0;
    field.setAttribute("aria-expanded", String(number > 0));
    said.textContent = answer.note || (number === 0 ? dialog.dataset.nothing : "");
    choose(options()[0]);
    if (isOpening) chosen()?.click();
    isOpening = false;
  }

  async function ask() {
    asked?.abort();
    const mine = asked = new AbortController();
    const sought = field.value;
    try {
      const where = `${dialog.dataset.source}?${new URLSearchParams({ q: sought })}`;
      const answer = await fetch(where, { signal: mine.signal, redirect: "manual" });
      if (!answer.ok) throw new Error("refused");
      const found = await answer.json();
      if (mine === asked) show(found, sought);
    } catch (error) {
      if (error.name === "AbortError" || mine !== asked) return;
      show({ groups: [], note: dialog.dataset.away }, sought);
    }
  }

  function open() {
    if (dialog.open) return;
    for (const other of document.querySelectorAll("dialog[open]")) other.close();
    dialog.showModal();
    field.select();
    ask();
  }

  const steps = {
    ArrowDown: (at, all) => (at + 1) % all.length,
    ArrowUp: (at, all) => (at <= 0 ? all.length : at) - 1,
    PageDown: (at, all) => Math.min(at + 8, all.length - 1),
    PageUp: (at) => Math.max(at - 8, 0),
  };

  field.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "Enter") {
      event.preventDefault();
      if (shownFor !== field.value) {
        clearTimeout(timer);
        isOpening = true;
        ask();
        return;
      }
      const option = chosen();
      if (option && (event.ctrlKey || event.metaKey)) window.open(option.href, "_blank", "noopener");
      else option?.click();
      return;
    }
    const step = Object.hasOwn(steps, event.key) ? steps[event.key] : null;
    const all = options();
    if (!step || !all.length) return;
    event.preventDefault();
    choose(all[step(all.indexOf(chosen()), all)]);
  });
  field.addEventListener("input", () => {
    isOpening = false;
    clearTimeout(timer);
    timer = setTimeout(ask, ASK_AFTER_MS);
  });
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    asked?.abort();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-palette-close]")) dialog.close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("[data-palette-open]")) open();
  });
});
