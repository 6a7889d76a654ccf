// The charts: which there are follows from the last point, what they show from all of them.

import { element, names, number } from "./text.js";

const COLOURS = [
  "#2a78c8", "#c9622b", "#7a7a74", "#3f9a62", "#9066c9", "#b08a1e", "#c2447e", "#2f9aa0",
];
const HEIGHT = 190;
const IMPORTANCES = 6;
const slice = document.getElementById("slice");

let charts = [];
let shape = "";
let important = [];

// Names come out of the stream: one may be that of something every object has, as "constructor".
const own = (object, name) => (Object.hasOwn(object ?? {}, name) ? object[name] : null);

// The columns of the largest importance; one that was shown goes only when it is not near them.
function columns(point) {
  const sizes = Object.entries(point.importances).sort((a, b) => b[1] - a[1]);
  const near = sizes.slice(0, 2 * IMPORTANCES).map(([name]) => name);
  const kept = important.filter((name) => near.includes(name));
  const fresh = near.filter((name) => !kept.includes(name));
  important = [...kept, ...fresh].slice(0, IMPORTANCES);
  return important;
}

function merits(point) {
  // One chart for each figure of merit, with the baselines where they are of the same kind.
  const chosen = slice.value;
  return Object.keys(point.window).map((name, i) => {
    const lines = [[names(name), (p) => p.window?.[name]]];
    if (chosen) lines.unshift([chosen, (p) => own(p.slices, chosen)?.window?.[name], true]);
    lines.push(["all events", (p) => p.whole?.[name], false]);
    if (!i) {
      for (const other of Object.keys(point.baselines)) {
        lines.push([names(other), (p) => p.baselines?.[other], false]);
      }
    }
    return { title: `${names(name)}, of the last events`, lines };
  });
}

function contest(point) {
  // A line for each model, the champion's broad.
  const { champion, models } = point.contest;
  return Object.keys(point.window).slice(0, 2).map((name) => ({
    title: `${names(name)} of each model, of the last events`,
    lines: Object.keys(models).map((model) => [
      model === champion ? `${model} (champion)` : model,
      (p) => p.contest?.models[model]?.window[name],
      model === champion,
    ]),
  }));
}

function inside(point) {
  const made = [];
  const experts = Object.keys(point.experts);
  if (experts.length) {
    made.push({
      title: "weight of each expert",
      lines: experts.map((name) => [name, (p) => own(p.experts, name)]),
    });
  }
  const found = columns(point);
  if (found.length) {
    made.push({
      title: "importance of columns: mean absolute effect",
      lines: found.map((name) => [name, (p) => own(p.importances, name)]),
    });
  }
  return made;
}

function layout(point) {
  const made = [...merits(point), ...(point.contest ? contest(point) : []), ...inside(point)];
  made.push({ title: "events a second", lines: [["events/s", (p) => p.events_per_s]] });
  if (point.lag !== null) {
    made.push({ title: "behind the source, events", lines: [["lag", (p) => p.lag]] });
  }
  if (point.seconds !== undefined) {
    made.push({
      title: "time of a request, ms",
      lines: [
        ["median", (p) => p.seconds && p.seconds.median * 1e3],
        ["99%", (p) => p.seconds && p.seconds.p99 * 1e3],
      ],
    });
  }
  if (point.age !== undefined) {
    made.push({ title: "age of the model, s", lines: [["age", (p) => p.age]] });
  }
  made.push({
    title: "memory, MB",
    lines: [
      ["process", (p) => p.process_bytes / 1e6],
      ["model", (p) => p.model_bytes / 1e6],
    ],
  });
  return made;
}

// A line needs two points.
const isFew = (plot, line) => plot.data[line].filter((value) => value !== null).length < 2;

function build(found) {
  const place = document.getElementById("charts");
  place.replaceChildren();
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = ["--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  charts = found.map(({ title, lines }) => {
    const section = element("section", "", place);
    element("h2", title, section);
    const plot = new uPlot({
      width: section.clientWidth - 26,
      height: HEIGHT,
      series: [
        { value: (_, t) => (t === null ? "–" : new Date(t * 1000).toLocaleTimeString()) },
        ...lines.map(([label, , broad], i) => ({
          label,
          stroke: COLOURS[i % COLOURS.length],
          width: broad ?? i === 0 ? 2 : 1,
          spanGaps: true,
          points: { show: isFew },
          value: (_, v) => number(v),
        })),
      ],
      axes: [axis, { ...axis, size: 58, values: (_, all) => all.map((v) => number(v)) }],
    }, [[], ...lines.map(() => [])], section);
    return { plot, lines, section };
  });
}

export function rebuild() {
  shape = "";
}

export function drawCharts(points, seconds) {
  const point = points.at(-1);
  const found = layout(point);
  const now = JSON.stringify(found.map(({ title, lines }) => [title, lines.map(([name]) => name)]));
  if (now !== shape) {
    shape = now;
    build(found);
  }
  const from = seconds ? point.time - seconds : 0;
  const shown = points.filter((p) => p.time >= from);
  const times = shown.map((p) => p.time);
  for (const { plot, lines } of charts) {
    plot.setData([times, ...lines.map(([, of]) => shown.map((p) => of(p) ?? null))]);
  }
}

new ResizeObserver(() => {
  for (const { plot, section } of charts) {
    plot.setSize({ width: section.clientWidth - 26, height: HEIGHT });
  }
}).observe(document.getElementById("charts"));
