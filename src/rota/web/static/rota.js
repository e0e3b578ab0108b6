// What the pages do beyond plain HTML: hold live parts still while someone uses them, pause them,
// draw the shares over time. Everything else works without this file.
(() => {
  "use strict";
  let paused = false;
  let plot = null;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A part in which something is pressed or unfolded is not replaced under the user's hands.
  const isInUse = (part) => part.querySelector("details[open], :active, input:focus, select:focus") !== null;

  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    const part = event.target;
    if (part.id === "chart") {
      event.preventDefault();
      if (!paused) draw(part, JSON.parse(event.detail.data));
    } else if (paused || isInUse(part)) {
      event.preventDefault();
    }
  });

  function initPause() {
    const button = document.getElementById("pause-live");
    if (!button) return;
    button.hidden = false;
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      button.textContent = paused ? "Go on with live figures" : "Pause live figures";
    });
  }

  // Each line is drawn on top of the sum of those before it; the largest sum is drawn first.
  function stacked(series) {
    const sums = [];
    series.parts.forEach((part, i) => sums.push(part.map((v, t) => v + (i ? sums[i - 1][t] : 0))));
    return [series.times, ...sums.reverse()];
  }

  const lines = (series) => series.names.map((label, i) => {
    const at = series.names.length - 1 - i;
    const own = "--c" + (at === series.names.length - 1 ? 8 : at);
    return {
      label: series.names[at], stroke: colour(own), fill: colour(own), width: 1,
      points: { show: false },
    };
  });

  function options(holder, series) {
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const clock = (u, ticks) => ticks.map((t) => new Date(1000 * t).toLocaleTimeString([], { hour12: false }));
    return {
      width: holder.clientWidth, height: 200, padding: [8, 8, 0, 0],
      scales: { y: { range: [0, 1] } },
      axes: [{ ...axis, space: 90, size: 28, values: clock }, { ...axis, size: 52, values: (u, ticks) => ticks.map((t) => Math.round(100 * t) + " %") }],
      series: [{}, ...lines(series)],
      legend: { show: false },
    };
  }

  function draw(holder, series) {
    if (!window.uPlot || series.times.length < 2) return;
    holder.hidden = false;
    holder.series = series;
    if (plot) plot.destroy();
    plot = new uPlot(options(holder, series), stacked(series), holder);
    holder.dataset.points = String(series.times.length);
  }

  function initChart() {
    const holder = document.getElementById("chart");
    if (!holder) return;
    if (holder.dataset.series) draw(holder, JSON.parse(holder.dataset.series));
    const again = () => holder.series && draw(holder, holder.series);
    window.addEventListener("resize", again);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  }

  initPause();
  initChart();
})();
