// Puts the JSON editor over each text area that asks for it. The text stays as it was written: only the text
// mode is offered, because the tree would reorder numeric names and rewrite numbers.
const KEPT = new Set(["jse-undo", "jse-redo", "jse-search"]);

// The theme hides the page until it is ready; an editor that is mounted before measures its lines wrongly.
function whenShown(then, frames = 300) {
  if (frames > 0 && document.documentElement.hasAttribute("x-cloak")) {
    requestAnimationFrame(() => whenShown(then, frames - 1));
  } else {
    then();
  }
}

// The editor hands its text over 300 ms after the last key, too late for who saves at once. So it is asked when
// the form is sent; where it cannot be asked, sending waits.
const HANDED_OVER_MS = 600;
let touchedAt = -Infinity;

function askAll(form) {
  let answered = true;
  for (const holder of form.querySelectorAll(".hub-json-editor:has(.hub-json-mount)")) {
    const text = holder.querySelector(".cm-content")?.cmView?.view?.state?.doc?.toString();
    if (text === undefined) answered = false;
    else holder.querySelector("textarea").value = text;
  }
  return answered;
}

document.addEventListener("submit", (event) => {
  const left = touchedAt + HANDED_OVER_MS - performance.now();
  if (askAll(event.target) || left <= 0) return;
  event.preventDefault();
  const { target, submitter } = event;
  setTimeout(() => target.requestSubmit(submitter), left);
}, true);

// The editor takes the focus when its error message goes, wherever the person is writing by then. It gets it only
// by a click, by its label, or by the Tab key.
let invited = false;
function invite() {
  invited = true;
  setTimeout(() => { invited = false; }, 50);
}
// Tab leads on: the editor would indent by it, and nobody without a mouse would get out again.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Tab") return;
  invite();
  if (event.target.closest(".cm-editor")) event.stopPropagation();
}, true);

// The content security policy admits no style element that a script writes. The editor's become style sheets of the
// document, which a script may make; an inert element stands where the editor puts its own.
const createElement = document.createElement;
document.createElement = function (name, ...rest) {
  if (name !== "style") return createElement.call(document, name, ...rest);
  const place = createElement.call(document, "template");
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  let written = "";
  Object.defineProperty(place, "textContent", {
    get: () => written,
    set: (text) => { written = text; sheet.replaceSync(text); },
  });
  return place;
};

function mount(holder) {
  const textarea = holder.querySelector("textarea");
  import(holder.dataset.source)
    .then(({ JSONEditor }) => {
      const target = document.createElement("div");
      target.className = "hub-json-mount";
      const lines = textarea.value.split("\n").length;
      target.style.height = `${Math.min(Math.max(lines * 18 + 70, 130), 420)}px`;
      holder.prepend(target);
      const label = document.querySelector(`label[for="${textarea.id}"]`);
      const editor = new JSONEditor({
        target,
        props: {
          mode: "text",
          content: { text: textarea.value },
          readOnly: textarea.readOnly,
          statusBar: false,
          askToFormat: false,
          indentation: 2,
          onChange: (content) => {
            textarea.value = content.text ?? JSON.stringify(content.json, null, 2);
            textarea.dispatchEvent(new Event("input", { bubbles: true }));
          },
          onRenderMenu: (items) => items.filter((item) => KEPT.has(item.className)),
        },
      });
      const name = label ? label.textContent.trim() : textarea.name;
      const nameIt = () => {
        for (const box of target.querySelectorAll('[contenteditable="true"]')) {
          box.setAttribute("aria-label", name);
          if (textarea.getAttribute("aria-describedby")) {
            box.setAttribute("aria-describedby", textarea.getAttribute("aria-describedby"));
          }
        }
      };
      new MutationObserver(nameIt).observe(target, { childList: true, subtree: true });
      nameIt();
      label?.addEventListener("click", () => {
        invite();
        editor.focus();
      });
      target.addEventListener("pointerdown", invite, true);
      target.addEventListener("focusin", (event) => {
        const from = event.relatedTarget;
        if (!invited && from && !target.contains(from)) from.focus();
      });
      for (const kind of ["input", "beforeinput", "keydown", "paste", "cut", "drop", "click"]) {
        target.addEventListener(kind, () => { touchedAt = performance.now(); }, true);
      }
      holder.addEventListener("hub-json-set", (event) => editor.set({ text: event.detail }));
      textarea.hidden = true;
      document.fonts.ready.then(() => editor.refresh());
      holder.closest("details")?.addEventListener("toggle", () => editor.refresh());
    })
    .catch(() => {
      textarea.hidden = false;
    });
}

whenShown(() => document.querySelectorAll(".hub-json-editor").forEach(mount));
