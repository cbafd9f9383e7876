// Shows the arguments of a tool as a table beside the JSON Schema that has them; an edit of one changes the other.
// What the table has no column for stays in the schema as it is. Without this script there is the schema alone.
const TYPES = ["string", "number", "integer", "boolean", "array", "object"];

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function show(textarea) {
  const words = JSON.parse(textarea.dataset.arguments);
  const holder = textarea.closest(".hub-json-editor");
  const rows = element("tbody");
  const head = element("tr", {}, ...[words.name, words.type, words.required, words.description, ""].map(
    (word) => element("th", { scope: "col", textContent: word })));
  const add = element("button", { type: "button", className: "hub-range", textContent: words.add });
  const table = element("div", { className: "hub-arguments" },
    element("table", { className: "hub-table" }, element("thead", {}, head), rows), add);
  holder.parentElement.insertBefore(table, holder);
  holder.parentElement.classList.add("hub-schema");

  function read() {
    try {
      const schema = JSON.parse(textarea.value.trim() || "{}");
      return schema && typeof schema === "object" && !Array.isArray(schema) ? schema : null;
    } catch {
      return null;
    }
  }

  function write(schema) {
    textarea.value = JSON.stringify(schema, null, 2);
    holder.dispatchEvent(new CustomEvent("hub-json-set", { detail: textarea.value }));
    textarea.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function edit(change) {
    const schema = { type: "object", ...read() };
    const members = Object.entries(schema.properties ?? {});
    const required = new Set(schema.required ?? []);
    change(members, required);
    schema.properties = Object.fromEntries(members);
    const left = members.map(([name]) => name).filter((name) => required.has(name));
    if (left.length) schema.required = left;
    else delete schema.required;
    write(schema);
  }

  function row([name, member], at, required) {
    const known = member && typeof member === "object" ? member : {};
    const named = (word) => `${word}: ${name || at + 1}`;
    const title = element("input", { className: "hub-input hub-mono", value: name, ariaLabel: named(words.name) });
    title.addEventListener("change", () => edit((members, wanted) => {
      if (wanted.delete(name)) wanted.add(title.value);
      members[at][0] = title.value;
    }));
    const type = element("select", { className: "hub-input", ariaLabel: named(words.type) });
    const shown = TYPES.includes(known.type) ? TYPES : ["", ...TYPES];
    type.append(...shown.map((each) => element("option", { value: each, textContent: each || words.other })));
    type.value = TYPES.includes(known.type) ? known.type : "";
    type.addEventListener("change", () => edit((members) => {
      const { type: _left, ...rest } = known;
      members[at][1] = type.value ? { type: type.value, ...rest } : rest;
    }));
    const must = element("input", { type: "checkbox", checked: required.has(name), ariaLabel: named(words.required) });
    must.addEventListener("change", () => edit((_members, wanted) => {
      if (must.checked) wanted.add(name);
      else wanted.delete(name);
    }));
    const about = element("input", { className: "hub-input", value: known.description ?? "", ariaLabel: named(words.description) });
    about.addEventListener("change", () => edit((members) => {
      const { description: _left, ...rest } = known;
      members[at][1] = about.value ? { ...rest, description: about.value } : rest;
    }));
    const remove = element("button", { type: "button", className: "hub-link", textContent: words.remove, ariaLabel: named(words.remove) });
    remove.addEventListener("click", () => edit((members) => members.splice(at, 1)));
    return element("tr", {}, ...[title, type, must, about, remove].map((each) => element("td", {}, each)));
  }

  function draw() {
    const schema = read();
    table.hidden = schema === null;
    if (schema === null) return;
    const required = new Set(Array.isArray(schema.required) ? schema.required : []);
    rows.replaceChildren(...Object.entries(schema.properties ?? {}).map((each, at) => row(each, at, required)));
  }

  add.addEventListener("click", () => {
    edit((members) => {
      let number = members.length + 1;
      while (members.some(([name]) => name === `argument_${number}`)) number += 1;
      members.push([`argument_${number}`, { type: "string" }]);
    });
    rows.lastElementChild?.querySelector("input")?.select();
  });
  textarea.addEventListener("input", draw);
  draw();
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("textarea[data-arguments]").forEach(show));
