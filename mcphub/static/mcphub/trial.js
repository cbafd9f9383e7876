// Tests connections and shows what happens while it happens: the step, the seconds, what the program writes and loads.
// Without this script the form is sent, and its page comes when the test has ended.
document.addEventListener("DOMContentLoaded", () => {
  const words = document.getElementById("hub-trial")?.dataset;
  const form = document.querySelector("form[data-trial], form[data-trials]");
  if (!words || !form) return;

  function element(name, className, text = "") {
    const made = document.createElement(name);
    made.className = className;
    made.textContent = text;
    return made;
  }

  function panel(place) {
    const stage = element("p", "");
    stage.setAttribute("role", "status");
    const figures = element("p", "hub-subtle");
    const label = element("p", "hub-subtle", words.stderr);
    const lines = element("pre", "hub-json");
    lines.tabIndex = 0;
    label.hidden = lines.hidden = true;
    place.replaceChildren(stage, figures, label, lines);
    place.hidden = false;
    return (told) => {
      if (stage.textContent !== words[told.stage]) stage.textContent = words[told.stage]; // read out once
      figures.textContent = `${told.seconds} ${words.seconds}${told.loaded ? ` · ${told.loaded} ${words.loaded}` : ""}`;
      if (lines.textContent === told.stderr) return;
      label.hidden = lines.hidden = !told.stderr;
      lines.textContent = told.stderr;
      lines.scrollTop = lines.scrollHeight;
    };
  }

  function events(text) {
    return text.split("\n\n").filter(Boolean).map((block) => {
      const found = /^event: (\w+)\ndata: (.*)$/.exec(block);
      return found && { name: found[1], told: JSON.parse(found[2]) };
    }).filter(Boolean);
  }

  async function run(address, place, more = {}) {
    const show = panel(place);
    const body = new FormData();
    body.set("csrfmiddlewaretoken", form.elements.namedItem("csrfmiddlewaretoken").value);
    for (const [name, value] of Object.entries(more)) body.set(name, value);
    show({ seconds: 0, stage: "address", stderr: "", loaded: "" });
    let lost = words.lost;
    try {
      const answer = await fetch(address, { method: "POST", body, headers: { Accept: "text/event-stream" }, redirect: "error" });
      if (!answer.ok) {
        lost = answer.status === 503 ? await answer.text() : words.lost;
        throw new Error(lost);
      }
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let left = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        left += value;
        const end = left.lastIndexOf("\n\n") + 2;
        if (end < 2) continue;
        for (const { name, told } of events(left.slice(0, end))) {
          if (name === "done") {
            const made = new DOMParser().parseFromString(told.html, "text/html");
            place.replaceChildren(...made.body.childNodes);
            return told.is_good;
          }
          show(told);
        }
        left = left.slice(end);
      }
    } catch {
      // The reason stands in `lost`.
    }
    const alarm = element("p", "hub-error", lost);
    alarm.setAttribute("role", "alert");
    place.replaceChildren(alarm);
    return false;
  }

  async function refresh() {
    const answer = await fetch(location.href, { redirect: "error" });
    if (!answer.ok) return;
    const made = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-fresh]")) {
      const fresh = made.getElementById(part.id);
      if (fresh) part.replaceChildren(...fresh.childNodes);
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    form.setAttribute("aria-busy", "true");
    try {
      if (form.dataset.trial) {
        await run(form.dataset.trial, document.getElementById(form.dataset.shown));
      } else {
        const wanted = event.submitter?.value;
        const places = [...form.querySelectorAll("[data-trial-at]")];
        const chosen = places.filter((place) => wanted === "all" || place.dataset.pk === wanted);
        const running = chosen.slice(0, Number(form.dataset.trials)).map((place) => run(place.dataset.trialAt, place, { keep: "1" }));
        await Promise.all(running);
        await refresh();
      }
    } finally {
      form.removeAttribute("aria-busy");
    }
  });
  if ("begun" in form.dataset) form.querySelector("[name=test][value=all]")?.click();
});
