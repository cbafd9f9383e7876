// Tells times in UTC, in the reader's own zone or as how long ago. The page says them in UTC; the choice is remembered
// by this browser. The whole moment, with its zone, stays in each title.
const REMEMBERED = "hubTimes";
const STEPS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

document.addEventListener("DOMContentLoaded", () => {
  const choice = document.getElementById("hub-times"); // of lists; other pages tell times as it was chosen there
  const relative = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto" });
  const told = new WeakMap(); // time element -> what the page said
  let mode = localStorage.getItem(REMEMBERED) || "utc";

  function two(number) {
    return String(number).padStart(2, "0");
  }

  function ago(moment) {
    const seconds = Math.round((moment - Date.now()) / 1000);
    const [unit, length] = STEPS.find(([, each]) => Math.abs(seconds) >= each) ?? ["second", 1];
    return relative.format(Math.trunc(seconds / length), unit);
  }

  function local(moment, words) {
    const clock = `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
    const day = `${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
    return /^\d{4}-/.test(words) ? `${moment.getFullYear()}-${day} ${clock}` : `${day} ${clock}`;
  }

  function tell() {
    for (const time of document.querySelectorAll("time.hub-time[datetime]")) {
      if (!told.has(time)) {
        told.set(time, time.textContent);
        time.title ||= time.dateTime;
      }
      const moment = new Date(time.dateTime);
      const words = told.get(time);
      const shown = mode === "relative" ? ago(moment) : mode === "local" ? local(moment, words) : words;
      if (time.textContent !== shown) time.textContent = shown;
    }
  }

  for (const radio of choice?.querySelectorAll("input") ?? []) {
    radio.checked = radio.value === mode;
    radio.addEventListener("change", () => {
      mode = radio.value;
      localStorage.setItem(REMEMBERED, mode);
      tell();
    });
  }
  if (choice) {
    choice.querySelector("[data-zone]").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
    choice.hidden = false;
  }
  tell();
  setInterval(() => mode === "relative" && tell(), 5000);
  let waits = false;
  new MutationObserver(() => { // rows that are followed live
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; tell(); });
  }).observe(document.body, { childList: true, subtree: true });
});
