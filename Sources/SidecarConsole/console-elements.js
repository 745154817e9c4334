"use strict";
// Builds the page's elements and formats values. console.js is appended.

const $ = (id) => document.getElementById(id);
const main = $("main");
const keysAreRequired = document.documentElement.dataset.keys === "required";
const storedKey = "interlock-key";
/** The models that the sidecar declares in ViewModel.swift: tables and lists of facts by name, diagrams by part. */
const models = {{models}};
const diagrams = {{diagrams}};
/** The silence after which the sidecar counts as unreachable, in milliseconds. It sends something every two seconds. */
const silenceLimit = 6000;

let key = sessionStorage.getItem(storedKey);
let role = "use";
/** The sidecar's clock minus this page's, in milliseconds. */
let clockOffset = 0;
/** The last received parts of the view, by name. */
let parts = {};
let route = null;
let stream = null;
let isDrawScheduled = false;

// Elements. Data from the sidecar becomes text, never markup.

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "role") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The functions that update the elements with live data. */
let updates = [];
function live(element, update) {
  updates.push(update);
  return element;
}

/** Makes `container` show `items`. An item that is still shown keeps its element, and so the focus and the selection. */
function sync(container, items, keyOf, create, update) {
  const known = container.rows_ ?? (container.rows_ = new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [name, element] of known) {
    if (wanted.has(name)) continue;
    element.remove();
    known.delete(name);
  }
  let nextElement = container.firstElementChild;
  for (const [index, item] of items.entries()) {
    const name = keyOf(item);
    let element = known.get(name);
    if (!element) known.set(name, (element = create(item)));
    if (element === nextElement) nextElement = nextElement.nextElementSibling;
    else container.insertBefore(element, nextElement);
    update(element, item, index);
  }
}

/** Returns the value at a path of names joined by dots. */
const at = (value, path) => value[path] ?? path.split(".").reduce((part, name) => part?.[name], value);

/** Makes a table of a model. `otherwise` may return a text that replaces the model's own for a table without rows. */
function table(name, otherwise = () => undefined) {
  const { title, part, rows, key, columns, empty: none } = models[name];
  const body = make("tbody", { role: "rowgroup" });
  const kind = ({ isNumber }) => ({ className: isNumber ? "number" : "" });
  // On a narrow screen the style turns rows into blocks; their roles still make them a table.
  const head = make("tr", { role: "row" }, columns.map((column) =>
    make("th", { scope: "col", role: "columnheader", ...kind(column) }, column.title)));
  const empty = make("p", { className: "none", hidden: true });
  const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": title, hidden: true },
    make("table", { role: "table" }, make("thead", { role: "rowgroup" }, head), body));
  let shown = null;
  return live(make("div", {}, scroll, empty), () => {
    const from = parts[part];
    if (!from) return;
    // If the part did not change, only the cells that depend on the time are rendered again.
    const isStale = columns.map((column) => from !== shown || column.ticks);
    shown = from;
    // If the rows were never read, the table is not empty but unknown.
    const items = from.at_ms === null ? null : rows.split(".").reduce((all, step) => all.flatMap((item) => item[step] ?? []), [from]);
    scroll.hidden = !items?.length;
    setText(empty, items?.length === 0 ? otherwise() ?? none : "");
    empty.hidden = !empty.textContent;
    if (items) sync(body, items, (row) => key.map((path) => at(row, path)).join(" "),
      () => make("tr", { role: "row" }, columns.map((column) => make("td", { role: "cell", "data-label": column.title, ...kind(column) }))),
      (line, row, index) => columns.forEach((column, columnIndex) => {
        if (isStale[columnIndex]) fill(line.children[columnIndex], cell(column, row, from, index, line));
      }));
  });
}

/** Returns the value of a column in a row of a part, as text or as an element. `line` is the row's element. */
function cell({ kind, path, other, empty }, row, part, index, line) {
  const value = at(row, path);
  const second = other ? at(row, other) : null;
  if (kind === "position") return index + 1;
  if (kind === "ago") return [value, second && relative(second)].filter(Boolean).join(", ");
  if (value === null || value === undefined || value === "") return empty;
  switch (kind) {
    case "number": return number(value);
    case "rate": return `${Math.round(Math.min(Math.max(value, 0), 1) * 100)}%`;
    case "flag": return value ? "yes" : "no";
    case "list": return value.join(", ");
    case "state": return make("span", { className: `word ${value}` }, value);
    case "lock": case "service": return make("a", { href: `#/${kind}/${encodeURIComponent(value)}` }, value);
    case "moment": return moment(Number(value));
    case "span": return span(value);
    case "since": return value ? span((second ?? now()) - value) : "";
    case "left": return value < 0 ? "no expiry" : value ? span(value - (now() - (row.at_ms ?? part.at_ms))) : "";
    case "meter": return second === undefined ? value
      : make("span", {}, make("meter", { min: 0, max: row.limit, value: second, "aria-label": value }), ` ${value}`);
    case "peak":
      line.seen_ = [...(line.seen_ ?? []).filter(([time]) => time > now() - 60000 && time !== part.at_ms), [part.at_ms, value]];
      return number(Math.max(...line.seen_.map(([, used]) => used)));
    default: return String(value);
  }
}

/** Replaces a cell's content if it differs. */
function fill(cell, content) {
  if (content instanceof Node) {
    if (cell.firstChild && cell.firstChild.isEqualNode(content)) return;
    cell.replaceChildren(content);
  } else {
    setText(cell, content === null || content === undefined ? "" : String(content));
  }
}

function section(title, ...children) {
  return make("section", {}, make("h2", {}, title), ...children);
}

/** Makes a table with its title. */
const titledTable = (name, ...children) => section(models[name].title, table(name), ...children);

function note(text) {
  const element = make("p", { className: "note" });
  return live(element, () => setText(element, text() ?? ""));
}

/** Makes a list of a model's facts, and omits those without a value. */
function facts(name, className = "facts") {
  const { part, key, columns, empty } = models[name];
  const list = make("dl", { className });
  return live(list, () => {
    const from = parts[part];
    if (!from) return;
    const only = from.at_ms === null ? "unknown" : key.some((path) => !at(from, path)) ? empty : null;
    const known = columns.map((column, index) => ({ title: column.title, text: only === null ? cell(column, from, from) : index ? "" : only }));
    sync(list, known.filter(({ text }) => text !== ""), ({ title }) => title,
      ({ title }) => make("div", {}, make("dt", {}, title), make("dd")), (pair, { text }) => fill(pair.lastChild, text));
  });
}

const svg = (tag, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

/** Makes the diagrams of a part. The newest value is on the right, and the oldest known one on the left. */
function plots(part) {
  return make("div", { className: "plots" }, diagrams[part].map((plot) => diagram(part, plot)));
}

function diagram(part, { title, columns }) {
  const lines = columns.map((_, index) => svg("polyline", { class: ["first", "second"][index] }));
  const picture = svg("svg", { viewBox: "0 0 300 60", preserveAspectRatio: "none", role: "img" }, ...lines);
  const words = columns.map((_, index) => make("span", { className: ["key-first", "key-second"][index] }));
  const start = make("span");
  const peak = make("span");
  const axis = make("div", { className: "axis" }, start, peak, make("span", {}, "now"));
  return live(make("figure", {}, make("figcaption", {}, make("span", {}, title), ...words), picture, axis), () => {
    if (!parts[part]) return;
    const all = columns.map(({ path }) => at(parts[part], path));
    const highest = Math.max(0, ...all.flat());
    all.forEach((values, index) => {
      const step = 300 / Math.max(1, values.length - 1);
      const points = values.map((value, index) =>
        `${(300 - (values.length - 1 - index) * step).toFixed(1)},${(58 - (56 * value) / Math.max(1, highest)).toFixed(1)}`);
      lines[index].setAttribute("points", points.join(" "));
      setText(words[index], `${columns[index].title} ${number(values.at(-1) ?? 0)}/s`);
    });
    setText(start, all[0].length > 1 ? relative(now() - all[0].length * parts[part].interval_ms) : "");
    setText(peak, `peak ${number(highest)}/s`);
    picture.setAttribute("aria-label", `${title} in the last ${count(all[0].length, "second")}, peak ${highest} per second; now ${
      words.map((word) => word.textContent).join(", ")}`);
  });
}

// Formats.

const number = new Intl.NumberFormat("en").format;
const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
const now = () => performance.now() + clockOffset;

function span(milliseconds) {
  const value = Math.max(0, milliseconds);
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 10000) return `${(Math.floor(value / 100) / 10).toFixed(1)} s`;
  if (value < 60000) return `${Math.floor(value / 1000)} s`;
  if (value < 3600000) return `${Math.floor(value / 60000)} min ${Math.floor((value % 60000) / 1000)} s`;
  if (value < 86400000) return `${Math.floor(value / 3600000)} h ${Math.floor((value % 3600000) / 60000)} min`;
  return `${Math.floor(value / 86400000)} d ${Math.floor((value % 86400000) / 3600000)} h`;
}

/** Returns a time relative to now: "just now", "3 min ago", "in 28 s". */
function relative(milliseconds) {
  const distance = Math.abs(now() - milliseconds);
  if (distance < 1000) return "just now";
  const text = distance < 60000 ? `${Math.floor(distance / 1000)} s`
    : distance < 3600000 ? `${Math.round(distance / 60000)} min` : span(distance);
  return milliseconds > now() ? `in ${text}` : `${text} ago`;
}

/** Makes an element for a time: relative to now within a day, with the exact time as its tooltip, else the date. */
function moment(milliseconds) {
  if (!milliseconds) return "";
  // A value from other software may be outside the range of a date.
  const exact = new Date(Math.min(Math.max(milliseconds, 0), 253402300799999)).toISOString();
  const isNear = Math.abs(now() - milliseconds) < 86400000;
  return make("time", { dateTime: exact, title: exact }, isNear ? relative(milliseconds) : `${exact.slice(0, 19).replace("T", " ")}Z`);
}

function age(part) {
  if (!part) return "";
  if (part.at_ms === null) return `Not yet known${part.failure ? `: ${part.failure}` : ""}`;
  const words = `Updated ${relative(part.at_ms)}`;
  return part.failure ? `${words}; refresh failed: ${part.failure}` : words;
}
