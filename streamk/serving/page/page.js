// The points of a job or server, drawn as they come. A browser that was away asks for those it
// missed.

import { drawCharts, rebuild } from "./charts.js";
import { addRows, clearRows, offerSlices, select, showKinds } from "./tables.js";
import { bytes, element, names, number } from "./text.js";

let points = [];
let last = 0;
let version = 0;
let seconds = 0;

function say(kind, text) {
  const state = document.getElementById("state");
  if (state.className !== kind || state.textContent !== text) {
    state.className = kind;
    state.textContent = text;
  }
}

function figures(point) {
  const serves = point.age !== undefined;
  const found = [
    [serves ? "events predicted" : "events", number(point.events), `${number(point.learned)} learned`],
    ["events a second", number(point.events_per_s, 0), ""],
  ];
  const baselines = Object.entries(point.baselines);
  Object.entries(point.window).forEach(([name, value], i) => {
    const [other, beside] = baselines[0] || [];
    found.push([names(name), number(value), i || !other ? "" : `${names(other)} ${number(beside)}`]);
  });
  if (point.contest) {
    const { champion, models, promotions } = point.contest;
    const change = promotions.at(-1);
    const more = change
      ? `after ${number(change.events)} labels` : `of ${Object.keys(models).length} models`;
    found.push(["champion", champion, more]);
  }
  if (serves) {
    const { median, p99 } = point.seconds ?? {};
    const slow = p99 === undefined ? "" : `99% ${number(p99 * 1e3, 1)} ms`;
    found.push(["time of a request", median === undefined ? "–" : `${number(median * 1e3, 1)} ms`, slow]);
    found.push(["age of the model", `${number(point.age, 0)} s`, ""]);
  } else {
    found.push(["behind the source", number(point.lag), "events"]);
  }
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

function draw() {
  if (!points.length) return;
  const point = points.at(-1);
  figures(point);
  showKinds(point.bad_kinds);
  offerSlices(Object.keys(point.slices ?? {}));
  drawCharts(points, seconds);
  if (point.trouble) say("waits", point.trouble);
  else say("live", "live");
}

let due = false;
function soon() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => { due = false; draw(); });
}

function lost(reason = "no connection") {
  say("lost", `${reason}, trying again`);
  setTimeout(begin, 1000);
}

async function begin() {
  try {
    const answer = await fetch("points");
    const all = await answer.json();
    if (!answer.ok) {
      lost(all.error);
      return;
    }
    ({ points, version, number: last } = all);
    const about = Object.entries(all.about).map(([name, value]) => `${name} ${value}`);
    document.getElementById("about").textContent = about.join(" · ");
    document.title = `${all.about.label ?? "streamk"} · streamk`;
    clearRows();
    addRows(all);
    if (points.length) soon();
    else say("", "nothing has come yet");
    follow();
  } catch {
    lost();
  }
}

function follow() {
  const events = new EventSource(`events?after=${last}&rows=${version}`);
  events.onmessage = ({ data, lastEventId }) => {
    const next = Number(lastEventId);
    if (next <= last) return;
    last = next;
    points.push(JSON.parse(data));
    if (points.length > 4000) points = points.filter((_, i) => i % 2 || i > 2000);
    soon();
  };
  events.addEventListener("rows", ({ data }) => addRows(JSON.parse(data)));
  // The job may have been started again: everything is asked for anew.
  events.onerror = () => {
    events.close();
    lost();
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
document.getElementById("slice").addEventListener("change", () => {
  select();
  soon();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  rebuild();
  soon();
});
begin();
