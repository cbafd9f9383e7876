// Fetches what a list finds over time, and its counts by value while their panel is open; remembers whether it is.
document.addEventListener("DOMContentLoaded", () => {
  const chart = document.getElementById("hub-histogram");
  if (!chart) return;
  const panel = document.getElementById("hub-facets");
  const place = panel.querySelector("[data-facets]");
  const remembered = "hubFacetsOpen";
  const isWide = () => chart.parentElement.clientWidth >= 68 * parseFloat(getComputedStyle(document.documentElement).fontSize);

  function show(where, part) {
    where.replaceChildren(...[...part.childNodes].map((child) => document.adoptNode(child)));
  }

  async function fill() {
    const source = panel.open ? chart.dataset.with : chart.dataset.src;
    try {
      const answer = await fetch(source + location.search, { redirect: "manual" });
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      show(chart, page.querySelector("[data-part=histogram]"));
      chart.hidden = !chart.children.length;
      if (panel.open) show(place, page.querySelector("[data-part=facets]"));
    } catch {
      const words = document.createElement("p");
      words.className = "hub-error";
      words.textContent = chart.dataset.failed;
      place.replaceChildren(words);
    }
  }

  chart.hidden = panel.hidden = false; // its place is kept, so that no row moves away under a pointer
  const kept = localStorage.getItem(remembered);
  const opens = kept === null ? isWide() : Boolean(kept);
  if (opens) panel.open = true;
  let isFirst = opens; // the panel that is opened here tells of itself by a toggle event
  panel.addEventListener("toggle", () => {
    if (!isFirst) localStorage.setItem(remembered, panel.open ? "1" : "");
    isFirst = false;
    if (panel.open) fill();
  });
  if (!opens) fill();
  place.addEventListener("click", async (event) => {
    if (!event.target.closest("[data-facets-again]")) return;
    await fill();
    place.querySelector("[data-facets-again]")?.focus();
  });
});
