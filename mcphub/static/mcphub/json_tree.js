// Searches and folds the trees of JSON on a page (sessions_app/kit/admin/json_tree.py); they fold without it, too.
document.addEventListener("DOMContentLoaded", () => {
  for (const tree of document.querySelectorAll("[data-tree]")) {
    const search = tree.querySelector("[data-tree-search]");
    const found = tree.querySelector("[data-tree-found]");
    const parts = [...tree.querySelectorAll(".hub-json span")].filter((each) => !each.closest("summary"));
    for (const each of tree.querySelectorAll("[data-tree-search], [data-tree-fold]")) each.hidden = false;

    function find(turn) {
      const word = search.value.trim().toLowerCase();
      const hits = parts.filter((each) => word && each.textContent.toLowerCase().includes(word));
      for (const each of parts) each.classList.toggle("hub-tree-hit", hits.includes(each));
      found.textContent = word ? String(hits.length) : "";
      const at = hits.findIndex((each) => each.classList.contains("hub-tree-here"));
      for (const each of parts) each.classList.remove("hub-tree-here");
      const here = hits[turn ? (at + 1) % hits.length : 0];
      if (!here) return;
      for (let up = here.closest("details"); up; up = up.parentElement.closest("details")) up.open = true;
      here.classList.add("hub-tree-here");
      here.scrollIntoView({ block: "nearest" });
    }

    search.addEventListener("input", () => find(false));
    search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // the tree may stand within a form
      find(true);
    });
    tree.addEventListener("click", (event) => {
      const button = event.target.closest("[data-tree-fold]");
      if (!button) return;
      for (const each of tree.querySelectorAll("details")) each.open = !button.dataset.treeFold;
    });
  }
});
