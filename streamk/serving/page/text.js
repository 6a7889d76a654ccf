// Elements, and numbers as text. What comes from a stream is text and nothing else: it is never
// parsed as HTML.

export const names = (text) => text.replaceAll("_", " ");

export const number = (value, digits = 3) =>
  value === null || value === undefined ? "–"
    : Math.abs(value) >= 10000
      ? new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value)
      : new Intl.NumberFormat("en", { maximumFractionDigits: digits }).format(value);

export const bytes = (value) => `${number(value / 1e6, 0)} MB`;

export function element(name, text = "", parent = null) {
  const made = document.createElement(name);
  made.textContent = text;
  if (parent) parent.append(made);
  return made;
}
