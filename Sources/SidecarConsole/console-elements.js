"use strict";
// What the page is made of, and the words for what comes; console.js follows.

const $ = (id) => document.getElementById(id);
const main = $("main");
const keysAreRequired = document.documentElement.dataset.keys === "required";
const storedKey = "interlock-key";
/** With no word for so long, the sidecar is away: it says something every two seconds. */
const patience = 6000;

let key = sessionStorage.getItem(storedKey);
let role = "use";
/** The sidecar's clock less this one's, in milliseconds. */
let clockOffset = 0;
/** The parts of the view as they came last. */
let parts = {};
let route = null;
let stream = null;
let isDrawn = false;

// Elements. What is foreign becomes text, never markup.

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

/** Makes `container` show `items`, by their keys: what stays keeps its element, and with it focus and selection. */
function sync(container, items, keyOf, create, update) {
  const known = container.rows_ ?? (container.rows_ = new Map());
  const wanted = new Set(items.map(keyOf));
  for (const [name, element] of known) {
    if (wanted.has(name)) continue;
    element.remove();
    known.delete(name);
  }
  let place = container.firstElementChild;
  for (const item of items) {
    const name = keyOf(item);
    let element = known.get(name);
    if (!element) known.set(name, (element = create(item)));
    if (element === place) place = place.nextElementSibling;
    else container.insertBefore(element, place);
    update(element, item);
  }
}

/** A table whose rows follow what comes. A column is [title, cell(item) → text or node, class]. */
function table(caption, columns, keyOf, none) {
  const body = make("tbody");
  const head = make("tr", {}, columns.map(([title, , kind]) => make("th", { scope: "col", className: kind ?? "" }, title)));
  const empty = make("p", { className: "none" });
  const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption },
    make("table", {}, make("thead", {}, head), body));
  const box = make("div", {}, scroll, empty);
  scroll.hidden = empty.hidden = true;
  /** Without items nothing is known, which is not that there are none. */
  box.show = (items, otherwise = none) => {
    scroll.hidden = !items?.length;
    empty.hidden = !items || items.length > 0;
    setText(empty, empty.hidden ? "" : otherwise);
    if (!items) return;
    sync(body, items, keyOf,
      () => make("tr", {}, columns.map(([, , kind]) => make("td", { className: kind ?? "" }))),
      (row, item) => columns.forEach(([, cell], index) => fill(row.children[index], cell(item))));
  };
  return box;
}

/** A cell's content is replaced only when it is another. */
function fill(cell, content) {
  if (content instanceof Node) {
    if (cell.firstChild && cell.firstChild.isEqualNode(content)) return;
    cell.replaceChildren(content);
  } else {
    setText(cell, content === null || content === undefined ? "" : String(content));
  }
}

function link(text, ...path) {
  return make("a", { href: "#/" + path.map(encodeURIComponent).join("/") }, text);
}

function section(title, ...children) {
  return make("section", {}, make("h2", {}, title), ...children);
}

function cards(titles) {
  const list = make("dl", { className: "cards" });
  const values = titles.map((title) => {
    const value = make("dd");
    list.append(make("div", {}, make("dt", {}, title), value));
    return value;
  });
  list.show = (texts) => texts.forEach((text, index) => fill(values[index], text));
  return list;
}

function facts() {
  const list = make("dl", { className: "facts" });
  list.show = (pairs) => {
    const wanted = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
    sync(list, wanted.flatMap(([name, value]) => [["dt", name, name], ["dd", name, value]]), (item) => item[0] + item[1],
      (item) => make(item[0]), (element, item) => fill(element, item[2]));
  };
  return list;
}

const svg = (tag, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

/** Two lines over the last `seconds`, the newest at the right. */
function plot(seconds, title, first, second) {
  const lines = [svg("polyline", { class: "first" }), svg("polyline", { class: "second" })];
  const picture = svg("svg", { viewBox: "0 0 300 60", preserveAspectRatio: "none", role: "img" }, ...lines);
  const words = [make("span", { className: "key-first" }), make("span", { className: "key-second" })];
  const figure = make("figure", {}, make("figcaption", {}, make("span", {}, title), ...words), picture);
  figure.show = (one, other = []) => {
    const highest = Math.max(1, ...one, ...other);
    [one, other].forEach((values, index) => {
      const step = 300 / (seconds - 1);
      const points = values.map((value, place) =>
        `${(300 - (values.length - 1 - place) * step).toFixed(1)},${(58 - (56 * value) / highest).toFixed(1)}`);
      lines[index].setAttribute("points", points.join(" "));
      const name = [first, second][index];
      setText(words[index], name ? `${name} ${number(values.at(-1) ?? 0)}/s` : "");
    });
    picture.setAttribute("aria-label",
      `${title} in the last ${one.length} seconds, at most ${Math.max(0, ...one, ...other)} a second; now ${words.map((word) => word.textContent).join(", ")}`);
  };
  return figure;
}

// Words for what comes.

const number = (value) => Number(value).toLocaleString("en");
const share = (value) => `${Math.round(Math.min(Math.max(value, 0), 1) * 100)}%`;
const now = () => performance.now() + clockOffset;

function span(milliseconds) {
  const value = Math.max(0, milliseconds);
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60000) return `${(Math.floor(value / 100) / 10).toFixed(1)} s`;
  if (value < 3600000) return `${Math.floor(value / 60000)} min ${Math.floor((value % 60000) / 1000)} s`;
  if (value < 86400000) return `${Math.floor(value / 3600000)} h ${Math.floor((value % 3600000) / 60000)} min`;
  return `${Math.floor(value / 86400000)} d ${Math.floor((value % 86400000) / 3600000)} h`;
}

function moment(milliseconds) {
  if (!milliseconds) return "";
  // What comes from elsewhere may be a moment that no calendar has.
  const date = new Date(Math.min(Math.max(Number(milliseconds) || 0, 0), 253402300799999));
  const text = date.toISOString();
  return Math.abs(now() - milliseconds) < 43200000 ? `${text.slice(11, 23)}Z` : `${text.slice(0, 19).replace("T", " ")}Z`;
}

/** What is left of a time that was `milliseconds` when it was read. */
const left = (milliseconds, readAt) => (milliseconds === null || milliseconds === undefined ? ""
  : milliseconds < 0 ? "without end" : span(milliseconds - (now() - readAt)));

const stateKinds = { closed: "good", open: "bad", half_open: "warn", disabled: "warn" };
const state = (word) => make("span", { className: `word ${stateKinds[word] ?? ""}` }, word);

function mode(lock) {
  if (!lock.mode) return "";
  return lock.permits ? `${lock.holders} of ${lock.permits} places` : lock.mode;
}


function age(part) {
  if (!part) return "";
  if (part.at_ms === null) return `not known yet${part.failure ? `: ${part.failure}` : ""}`;
  const words = `as of ${span(now() - part.at_ms)} ago`;
  return part.failure ? `${words}; not read again: ${part.failure}` : words;
}

function probeWords(probe) {
  if (!probe) return "";
  if (!probe.finding) return `none yet (${probe.prober})`;
  return `${probe.finding}${probe.reason ? `: ${probe.reason}` : ""}, ${span(now() - probe.at_ms)} ago`;
}

/** In the order of `interlock breaker` and `interlock top`. */
function breakerWhy(breaker) {
  const words = [];
  if (breaker.forced) words.push(`forced ${breaker.forced}`);
  else if (breaker.cause) words.push(breaker.cause);
  if (breaker.own_cause) words.push(`this sidecar alone: ${breaker.own_cause}`);
  if (breaker.reason) words.push(breaker.reason);
  const end = breaker.forced ? breaker.forced_until_ms : breaker.until_ms;
  if (end > 0) words.push(`until ${moment(end)}`);
  if (breaker.by) words.push(`by ${breaker.by}`);
  return words.join(", ");
}

function eventWords(event) {
  switch (event.type) {
    case "breaker": return `${event.service}: ${event.state}${breakerWhy(event) ? ` (${breakerWhy(event)})` : ""}`;
    case "lock.broken": return `${event.lock}${event.by ? `, by ${event.by}` : ""}`;
    case "limit.near": case "limit.reached": case "limit.shadow":
      return `${event.limit} of ${event.service}${event.subject ? ` for ${event.subject}` : ""}: ${number(event.used)} of ${number(event.capacity)}`;
    default: return event.origin;
  }
}
