// Completes keys and values in the line that finds rows of a list. The hub says what may stand where the caret is.
document.addEventListener("DOMContentLoaded", () => {
  const box = document.getElementById("searchbar");
  const list = document.getElementById("hub-offered");
  if (!box?.dataset.complete || !list) return;
  let asked = 0;
  let timer = 0;

  // The token that the caret is in, from its begin to the caret: blanks within quotes belong to it.
  function token() {
    const before = box.value.slice(0, box.selectionStart);
    let begin = 0;
    let quoted = false;
    for (let at = 0; at < before.length; at++) {
      if (before[at] === '"' && before[at - 1] !== "\\") quoted = !quoted;
      if (before[at] === " " && !quoted) begin = at + 1;
    }
    return { begin, text: before.slice(begin) };
  }

  function close() {
    list.hidden = true;
    list.replaceChildren();
    box.setAttribute("aria-expanded", "false");
    box.removeAttribute("aria-activedescendant");
  }

  function mark(option) {
    for (const each of list.children) each.setAttribute("aria-selected", String(each === option));
    if (!option) return box.removeAttribute("aria-activedescendant");
    box.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  function take(option) {
    const { begin } = token();
    const rest = box.value.slice(box.selectionStart).replace(/^\S*/, "");
    const goesOn = option.dataset.on === "true";
    const head = box.value.slice(0, begin) + option.dataset.text + (goesOn || rest.startsWith(" ") ? "" : " ");
    box.value = head + rest;
    box.setSelectionRange(head.length, head.length);
    box.focus();
    if (goesOn) ask();
    else close();
  }

  async function ask() {
    const number = ++asked;
    const { text } = token();
    let offered = [];
    try {
      const answer = await fetch(`${box.dataset.complete}?${new URLSearchParams({ text })}`, { redirect: "manual" });
      if (answer.ok) ({ offered } = await answer.json());
    } catch {
      // without an answer nothing is offered
    }
    if (number !== asked || document.activeElement !== box) return;
    const options = offered.map(({ text: words, words: said, on }, at) => {
      const option = document.createElement("li");
      option.role = "option";
      option.id = `hub-offered-${at}`;
      option.setAttribute("aria-selected", "false");
      Object.assign(option.dataset, { text: words, on: String(on) });
      for (const [part, className] of [[words, "hub-mono"], [said, ""]]) {
        const span = document.createElement("span");
        span.className = className;
        span.textContent = part;
        option.append(span);
      }
      return option;
    });
    list.replaceChildren(...options);
    list.hidden = !options.length;
    box.setAttribute("aria-expanded", String(Boolean(options.length)));
    box.removeAttribute("aria-activedescendant");
  }

  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, 120);
  });
  box.addEventListener("click", () => list.hidden && ask());
  box.addEventListener("blur", () => setTimeout(close, 150));
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // the focus stays in the line
    const option = event.target.closest("[role=option]");
    if (option) take(option);
  });
  box.addEventListener("keydown", (event) => {
    const options = [...list.children];
    const at = options.findIndex((each) => each.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) return ask();
      const step = event.key === "ArrowDown" ? 1 : -1;
      mark(options[(at + step + options.length + (at < 0 && step < 0 ? 1 : 0)) % options.length]);
    } else if ((event.key === "Enter" || event.key === "Tab") && at >= 0 && !list.hidden) {
      event.preventDefault();
      take(options[at]);
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
  });
});
