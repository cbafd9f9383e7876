// Fetches the counts of the list of calls once its reader opens the panel, and remembers that it was open.
document.addEventListener("DOMContentLoaded", () => {
  const panel = document.getElementById("hub-facets");
  if (!panel) return;
  const place = panel.querySelector("[data-facets]");
  const remembered = "hubFacetsOpen";

  async function fill() {
    try {
      const answer = await fetch(panel.dataset.src + location.search, { redirect: "manual" });
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      place.replaceChildren(...[...page.body.childNodes].map((child) => document.adoptNode(child)));
    } catch {
      const words = document.createElement("p");
      words.className = "hub-error";
      words.textContent = panel.dataset.failed;
      place.replaceChildren(words);
    }
  }

  panel.addEventListener("toggle", () => {
    localStorage.setItem(remembered, panel.open ? "1" : "");
    if (panel.open) fill();
  });
  place.addEventListener("click", async (event) => {
    if (!event.target.closest("[data-facets-again]")) return;
    await fill();
    place.querySelector("[data-facets-again]")?.focus();
  });
  panel.hidden = false;
  if (localStorage.getItem(remembered)) panel.open = true; // tells of itself by a toggle event
});
