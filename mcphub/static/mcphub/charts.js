// Draws what the server describes in `data-chart` by Chart.js, which the theme loads; the table beside tells the same.
// Its form: {"shape": "bar" | "line", "labels": [...], "links": [...], "series": [{"kind", "title", "values", "links"}]}.
(() => {
  const drawn = new Map();
  const dashes = { warn: [5, 3] };

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  // The link of the part that was met, else that of its whole column.
  function linkAt(chart, event) {
    const { links, series } = chart.canvas.hubChart;
    const [part] = chart.getElementsAtEventForMode(event, "nearest", { intersect: true }, false);
    const [column] = chart.getElementsAtEventForMode(event, "index", { intersect: false }, false);
    return (part && series[part.datasetIndex].links?.[part.index]) || (column && links?.[column.index]) || "";
  }

  function options(told) {
    const isBar = told.shape === "bar";
    const numbers = new Intl.NumberFormat(document.documentElement.lang || undefined, { maximumFractionDigits: 1 });
    return {
      animation: false,
      maintainAspectRatio: false,
      interaction: { mode: "index", intersect: false },
      onHover: (event, _, chart) => { chart.canvas.classList.toggle("hub-leads", Boolean(linkAt(chart, event))); },
      onClick: (event, _, chart) => {
        const link = linkAt(chart, event);
        if (!link) return;
        if (event.native.ctrlKey || event.native.metaKey) window.open(link, "_blank", "noopener");
        else location.href = link;
      },
      plugins: {
        legend: { display: false },
        tooltip: {
          displayColors: false,
          callbacks: { label: (item) => `${item.dataset.label ? `${item.dataset.label}: ` : ""}${numbers.format(item.parsed.y)}` },
        },
      },
      scales: {
        x: { stacked: isBar, grid: { display: false }, ticks: { maxRotation: 0, autoSkipPadding: 16 } },
        y: {
          stacked: isBar,
          beginAtZero: true,
          border: { display: false },
          ticks: { maxTicksLimit: 5, precision: isBar ? 0 : undefined, callback: (value) => numbers.format(value) },
        },
      },
    };
  }

  function paint(chart) {
    const { series } = chart.canvas.hubChart;
    const ink = getComputedStyle(chart.canvas.parentElement).color;
    for (const axis of Object.values(chart.options.scales)) axis.ticks.color = ink;
    chart.options.scales.y.grid = { color: colour("hub-line") };
    chart.data.datasets.forEach((dataset, at) => {
      const kind = colour(`hub-${series[at].kind}`);
      Object.assign(dataset, { backgroundColor: kind, hoverBackgroundColor: kind, borderColor: kind, pointBackgroundColor: kind });
    });
    chart.update();  // with "none" the library would keep the colours that its bars share
  }

  // One call among thousands is still seen; a column of none is not drawn at all.
  function draw(canvas) {
    const told = JSON.parse(canvas.dataset.chart);
    canvas.hubChart = told;
    const datasets = told.series.map(({ kind, title, values }) => told.shape === "bar"
      ? { label: title, data: values.map((value) => value || null), minBarLength: 1.5, categoryPercentage: 1, barPercentage: 0.8 }
      : { label: title, data: values, borderWidth: 2, borderDash: dashes[kind] ?? [], pointRadius: values.map((value, at) => (values[at - 1] ?? values[at + 1] ?? null) === null ? 2.5 : 0) });
    const chart = new Chart(canvas, { type: told.shape, data: { labels: told.labels, datasets }, options: options(told) });
    drawn.set(canvas, chart);
    paint(chart);
  }

  function look() {
    for (const [canvas, chart] of drawn) {
      if (canvas.isConnected) continue;
      chart.destroy();
      drawn.delete(canvas);
    }
    for (const canvas of document.querySelectorAll("canvas[data-chart]")) if (!drawn.has(canvas)) draw(canvas);
  }

  function repaint() {
    drawn.forEach(paint);
  }

  document.addEventListener("DOMContentLoaded", () => {
    look();
    new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
    new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["class"] });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTimeout(repaint));
  // Paper is white: a dark page is printed as the light one.
  const page = document.documentElement.classList;
  let wasDark = false;
  const print = (begins) => {
    if (begins) wasDark = page.contains("dark");
    page.toggle("dark", wasDark && !begins);
    drawn.forEach((chart) => { chart.resize(); paint(chart); });
  };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
})();
