// Follows the newest page of a session's transcript: asks for what came after the last call that is shown.
const LOOK_MS = 2000;

document.addEventListener("DOMContentLoaded", () => {
  const state = document.getElementById("hub-session-live");
  if (!state) return;
  const words = state.dataset;
  let last = Number(words.last);

  function say(kind, icon, text) {
    state.className = `hub-mark hub-${kind}`;
    if (state.lastElementChild.textContent === text) return;
    state.firstElementChild.textContent = icon;
    state.lastElementChild.textContent = text;
  }

  async function look() {
    try {
      const answer = await fetch(words.rows.replace(/0\/$/, `${last}/`), { redirect: "manual" });
      if (answer.type === "opaqueredirect" || answer.status === 403) {
        say("bad", "error", words.ended);
        return;
      }
      if (!answer.ok) throw new Error("lost");
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const rows = [...page.querySelectorAll("tbody > tr")].map((row) => document.adoptNode(row));
      document.getElementById("hub-session-rows").append(...rows);
      last = Math.max(last, Number(answer.headers.get("X-Last")));
      const more = answer.headers.get("X-More") === "1";
      if (!more && answer.headers.get("X-Ended") === "1") {
        say("off", "do_not_disturb_on", words.over);
        return;
      }
      say("good", "check_circle", words.following);
      setTimeout(look, more ? 0 : LOOK_MS);
    } catch {
      say("bad", "error", words.lost);
      setTimeout(look, LOOK_MS);
    }
  }

  state.hidden = false;
  look();
});
