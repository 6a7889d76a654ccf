// The tables of predictions and of events that cannot be used, and what of them is shown.

import { element, number } from "./text.js";

const MOST = 50;

const shown = (value) =>
  typeof value === "number" ? number(value, 4)
    : value === null || value === undefined ? "–" : String(value);

function where(row, cell) {
  const place = row.partition === undefined ? "" : `${row.partition} · ${row.offset}`;
  cell.textContent = place;
  for (const more of [row.key && `key ${row.key}`, row.slice && `slice ${row.slice}`]) {
    if (more) element("small", more, cell);
  }
}

function prediction(row, cell) {
  const best = row.probabilities?.[typeof row.prediction === "string"
    ? row.prediction : JSON.stringify(row.prediction)];
  cell.textContent = shown(row.prediction) + (best === undefined ? "" : ` ${number(best)}`);
  if (row.interval) element("small", row.interval.map(shown).join(" to "), cell);
  if (row.prediction_set) {
    const more = row.prediction_set_size - row.prediction_set.length;
    const set = row.prediction_set.map(shown).join(", ");
    element("small", `set ${set}${more > 0 ? ` and ${more} more` : ""}`, cell);
  }
}

function label(row, cell) {
  cell.textContent = shown(row.label);
  if (row.label === null || typeof row.prediction === "number" && row.probabilities === undefined) {
    return;
  }
  const right = row.label === row.prediction;
  cell.className = right ? "right" : "wrong";
  element("small", right ? "right" : "wrong", cell);
}

function reasons(row, cell) {
  if (!row.reasons) {
    cell.textContent = "–";
    return;
  }
  for (const { column, value, effect } of row.reasons) {
    const part = element("span", `${column} = ${shown(value)} `, cell);
    part.className = "reason";
    const size = number(Math.abs(effect));
    const sign = size === "0" ? "" : effect < 0 ? "−" : "+";
    element("b", sign + size, part).className = { "−": "against", "+": "for" }[sign] ?? "";
  }
}

function event(row, cell) {
  const text = row.value === undefined ? "–" : row.value;
  element("code", text, cell);
  if (row.size) element("small", `the beginning of ${number(row.size, 0)} bytes`, cell);
  if (row.encoding === "base64") element("small", "base64", cell);
}

const reason = (row, cell) => { cell.textContent = row.reason; };

class Table {
  constructor(id, writers) {
    this.section = document.getElementById(id);
    this.frame = this.section.querySelector(".scroll");
    this.body = this.section.querySelector("tbody");
    const titles = [...this.section.querySelectorAll("th")].map((cell) => cell.textContent);
    this.columns = writers.map((write, i) => [write, titles[i]]);
    this.rows = [];
  }

  clear() {
    this.rows = [];
    this.body.replaceChildren();
  }

  // Rows stay as they are once they stand there, so that their text can be selected, but for those
  // whose label has come.
  add(found) {
    for (const row of [...found].reverse()) {
      const known = this.rows.find(({ row: { number } }) => number === row.number);
      if (known?.row.version === row.version) continue;
      if (!known && row.number < this.rows[0]?.row.number) continue;
      const line = this.line(row);
      const made = { row, line, text: line.textContent.toLowerCase() };
      if (known) {
        known.line.replaceWith(line);
        Object.assign(known, made);
      } else {
        this.body.prepend(line);
        this.rows.unshift(made);
      }
    }
    for (const { line } of this.rows.splice(MOST)) line.remove();
    this.section.hidden = this.frame.hidden = !this.rows.length;
  }

  line(row) {
    const line = document.createElement("tr");
    for (const [write, title] of this.columns) {
      const cell = element("td", "", line);
      cell.dataset.title = title;
      write(row, cell);
    }
    return line;
  }

  show(matches) {
    let n = 0;
    for (const each of this.rows) {
      each.line.hidden = !matches(each);
      n += !each.line.hidden;
    }
    return n;
  }
}

const predictions = new Table("predictions", [where, prediction, label, reasons]);
const bad = new Table("bad", [where, reason, event]);
const filter = document.getElementById("filter");
const slice = document.getElementById("slice");

// Every word of the filter must stand in a row, in any order.
export function select() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const has = ({ text }) => words.every((word) => text.includes(word));
  const inSlice = ({ row }) => !slice.value || row.slice === slice.value;
  const n = predictions.show((each) => has(each) && inSlice(each)) + bad.show(has);
  const all = predictions.rows.length + bad.rows.length;
  document.getElementById("filtering").hidden = !all;
  const rows = all === 1 ? "row" : "rows";
  const counts = n < all ? `${n} of ${all} ${rows}` : `${all} ${rows}`;
  const matches = document.getElementById("matches");
  if (matches.textContent !== counts) matches.textContent = counts;
}

export function addRows(found) {
  predictions.add(found.predictions);
  bad.add(found.bad);
  select();
}

export function clearRows() {
  predictions.clear();
  bad.clear();
}

export function showKinds(kinds) {
  const parts = Object.entries(kinds ?? {}).map(([kind, n]) => element("li", `${kind}: ${number(n, 0)}`));
  document.getElementById("kinds").replaceChildren(...parts);
  if (parts.length) document.getElementById("bad").hidden = false;
}

// The values of the column that --slice names, as the points have them.
export function offerSlices(found) {
  const have = [...slice.options].slice(1).map((option) => option.value);
  if (have.join("\0") === found.join("\0") && slice.options.length) return;
  const chosen = slice.value;
  slice.replaceChildren(new Option("all", ""), ...found.map((name) => new Option(name, name)));
  slice.value = found.includes(chosen) ? chosen : "";
  document.getElementById("slicing").hidden = !found.length;
}

filter.addEventListener("input", select);
