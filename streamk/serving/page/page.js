"use strict";

// The points of the job, drawn as they come. A browser that was away asks for those it missed.

const COLOURS = ["#2a78c8", "#c9622b", "#7a7a74", "#3f9a62", "#9066c9", "#b08a1e"];
const names = (text) => text.replaceAll("_", " ");
const number = (value, digits = 3) =>
  value === null || value === undefined ? "–"
    : Math.abs(value) >= 10000
      ? new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value)
      : new Intl.NumberFormat("en", { maximumFractionDigits: digits }).format(value);
const bytes = (value) => `${number(value / 1e6, 0)} MB`;

let points = [];
let last = 0;
let seconds = 0;
let charts = [];

const element = (name, text = "", parent = null) => {
  const made = document.createElement(name);
  made.textContent = text;
  if (parent) parent.append(made);
  return made;
};

function say(kind, text) {
  const state = document.getElementById("state");
  if (state.className !== kind || state.textContent !== text) {
    state.className = kind;
    state.textContent = text;
  }
}

function figures(point) {
  const found = [
    ["events", number(point.events), `${number(point.learned)} learned`],
    ["events a second", number(point.events_per_s, 0), ""],
  ];
  const baselines = Object.entries(point.baselines);
  Object.entries(point.window).forEach(([name, value], i) => {
    const [other, beside] = baselines[0] || [];
    found.push([names(name), number(value), i || !other ? "" : `${names(other)} ${number(beside)}`]);
  });
  if (point.contest) {
    const { champion, models, promotions } = point.contest;
    const last = promotions.at(-1);
    const more = last ? `after ${number(last.events)} labels` : `of ${Object.keys(models).length} models`;
    found.push(["champion", champion, more]);
  }
  found.push(["behind the source", number(point.lag), "events"]);
  found.push(["of no use", number(point.bad), "events"]);
  found.push(["memory", bytes(point.process_bytes), `model ${bytes(point.model_bytes)}`]);
  found.push(["checkpoint", number(point.epoch), ""]);
  const list = document.getElementById("figures");
  list.replaceChildren(...found.map(([name, value, more]) => {
    const box = element("div");
    element("dt", name, box);
    element("small", more, element("dd", value, box));
    return box;
  }));
}

function layout(point) {
  // One chart for each figure of merit, with the baselines where they are of the same kind.
  const [first, ...others] = Object.keys(point.window);
  const made = [];
  if (first) {
    made.push({
      title: `${names(first)}, of the last events`,
      lines: [
        [names(first), (p) => p.window[first]],
        ["all events", (p) => p.whole[first]],
        ...Object.keys(point.baselines).map((name) => [names(name), (p) => p.baselines[name]]),
      ],
    });
  }
  for (const name of others) {
    made.push({
      title: `${names(name)}, of the last events`,
      lines: [[names(name), (p) => p.window[name]], ["all events", (p) => p.whole[name]]],
    });
  }
  if (point.contest) made.push(...contest(point));
  made.push({ title: "events a second", lines: [["events/s", (p) => p.events_per_s]] });
  if (point.lag !== null) {
    made.push({ title: "behind the source, events", lines: [["lag", (p) => p.lag]] });
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

function build(point) {
  const place = document.getElementById("charts");
  place.replaceChildren();
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = ["--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
  charts = layout(point).map(({ title, lines }) => {
    const section = element("section", "", place);
    element("h2", title, section);
    const plot = new uPlot({
      width: section.clientWidth - 26,
      height: 190,
      series: [
        { value: (_, t) => (t === null ? "–" : new Date(t * 1000).toLocaleTimeString()) },
        ...lines.map(([label, , broad], i) => ({
          label,
          stroke: COLOURS[i % COLOURS.length],
          width: broad ?? i === 0 ? 2 : 1,
          points: { show: false },
          value: (_, v) => number(v),
        })),
      ],
      axes: [axis, { ...axis, size: 58, values: (_, all) => all.map((v) => number(v)) }],
    }, [[], ...lines.map(() => [])], section);
    return { plot, lines, section };
  });
}

function draw() {
  if (!points.length) return;
  const point = points.at(-1);
  figures(point);
  const { champion, models } = point.contest ?? {};
  const kinds = [point.window, point.baselines, models ?? {}].map(Object.keys);
  kinds.push(point.lag === null, champion);
  const shape = JSON.stringify(kinds);
  if (shape !== draw.shape) {
    draw.shape = shape;
    build(point);
  }
  const from = seconds ? point.time - seconds : 0;
  const shown = points.filter((p) => p.time >= from);
  const times = shown.map((p) => p.time);
  for (const { plot, lines } of charts) {
    plot.setData([times, ...lines.map(([, of]) => shown.map((p) => of(p) ?? null))]);
  }
  if (point.trouble) say("waits", point.trouble);
  else say("live", "live");
}

let due = false;
function soon() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
}

async function begin() {
  try {
    const answer = await fetch("points");
    if (!answer.ok) throw new Error(answer.status);
    const all = await answer.json();
    points = all.points;
    last = all.number;
    const about = Object.entries(all.about).map(([name, value]) => `${name} ${value}`);
    document.getElementById("about").textContent = about.join(" · ");
    document.title = `${all.about.label ?? "streamk"} · streamk`;
    if (points.length) soon();
    else say("", "nothing has come yet");
    follow();
  } catch {
    say("lost", "no connection, trying again");
    setTimeout(begin, 1000);
  }
}

function follow() {
  const events = new EventSource(`events?after=${last}`);
  events.onmessage = ({ data, lastEventId }) => {
    const next = Number(lastEventId);
    if (next <= last) return;
    last = next;
    points.push(JSON.parse(data));
    if (points.length > 4000) points = points.filter((_, i) => i % 2 || i > 2000);
    soon();
  };
  // The job may have been started again: everything is asked for anew.
  events.onerror = () => {
    events.close();
    say("lost", "no connection, trying again");
    setTimeout(begin, 1000);
  };
}

document.querySelector(".range").addEventListener("click", ({ target }) => {
  if (target.dataset.seconds === undefined) return;
  seconds = Number(target.dataset.seconds);
  for (const button of document.querySelectorAll(".range button")) {
    button.setAttribute("aria-pressed", String(button === target));
  }
  soon();
});
new ResizeObserver(() => {
  for (const { plot, section } of charts) plot.setSize({ width: section.clientWidth - 26, height: 190 });
}).observe(document.getElementById("charts"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  draw.shape = "";
  soon();
});
begin();
