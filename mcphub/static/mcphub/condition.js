// Offers what a condition may read, below the field in which it is written: Tab or a click takes the first word that
// begins as the one before the caret does, the arrows choose, Escape closes. Without this script the field is plain.
document.addEventListener("DOMContentLoaded", () => {
  for (const area of document.querySelectorAll("textarea[data-completions]")) offer(area);
});

function offer(area) {
  const words = area.dataset.completions.split(" ");
  const list = document.createElement("div");
  list.className = "hub-completions";
  list.id = `${area.id}_completions`;
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", area.labels[0] ? area.labels[0].textContent.trim() : "");
  list.hidden = true;
  area.after(list);
  area.setAttribute("aria-controls", list.id);
  area.setAttribute("aria-autocomplete", "list");
  let chosen = 0;

  const begun = () => /[A-Za-z_][\w.]*$/.exec(area.value.slice(0, area.selectionStart))?.[0] ?? "";

  function close() {
    list.hidden = true;
    area.removeAttribute("aria-activedescendant");
  }

  function show() {
    const word = begun();
    const after = word.split(".").pop();
    const found = word
      ? words.filter((each) => each !== word && (each.startsWith(word) || (word.includes(".") && after && !each.includes(".") && each.endsWith("(") && each.startsWith(after))))
      : [];
    list.replaceChildren();
    if (!found.length) return close();
    chosen = 0;
    found.slice(0, 8).forEach((each, index) => {
      const option = document.createElement("button");
      option.type = "button";
      option.id = `${list.id}_${index}`;
      option.tabIndex = -1;
      option.className = "hub-range";
      option.setAttribute("role", "option");
      option.textContent = each;
      option.addEventListener("mousedown", (event) => {
        event.preventDefault();
        take(each);
      });
      list.append(option);
    });
    list.hidden = false;
    mark();
  }

  function mark() {
    [...list.children].forEach((option, index) => option.setAttribute("aria-selected", String(index === chosen)));
    area.setAttribute("aria-activedescendant", `${list.id}_${chosen}`);
  }

  function take(word) {
    const had = begun();
    const tail = word.startsWith(had) ? word.slice(had.length) : word.slice(had.split(".").pop().length);
    area.setRangeText(tail, area.selectionStart, area.selectionEnd, "end");
    close();
    area.dispatchEvent(new Event("input", { bubbles: true }));
    close();
  }

  area.addEventListener("input", show);
  area.addEventListener("blur", close);
  area.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    const count = list.children.length;
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") chosen = (chosen + 1) % count;
    else if (event.key === "ArrowUp") chosen = (chosen + count - 1) % count;
    else if (event.key === "Tab" && !event.shiftKey) take(list.children[chosen].textContent);
    else return;
    event.preventDefault();
    if (!list.hidden) mark();
  });
}
