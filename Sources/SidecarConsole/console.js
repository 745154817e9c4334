// Views. Each creates its elements once; every message updates them.

let searchTimer = null;
function searchField(view) {
  const field = make("input", { id: "search", type: "search", value: route.query.get("search") ?? "", autocomplete: "off", maxLength: 256 });
  const search = () => {
    clearTimeout(searchTimer);
    searchTimer = setTimeout(() => go(view, field.value ? { search: field.value } : {}, true), 300);
  };
  // Input methods compose a character from several keys: wait for the end of the composition before searching.
  field.addEventListener("input", (event) => { if (event.isComposing) clearTimeout(searchTimer); else search(); });
  field.addEventListener("compositionend", search);
  return field;
}

/** Makes the search field and the paging buttons. `next` returns the query of the next page, if there is one. */
function tools(view, next) {
  const search = route.query.get("search");
  const pageButton = (text, query) => {
    const button = make("button", { type: "button", hidden: true }, text);
    button.addEventListener("click", () => go(view, { ...(search ? { search } : {}), ...query() }));
    return live(button, () => { button.hidden = !query(); });
  };
  return make("div", { className: "tools" },
    make("p", {}, make("label", { htmlFor: "search" }, "Name contains"), searchField(view)),
    pageButton("First page", () => (route.query.get("cursor") || route.query.get("from")) && {}), pageButton("Next page", next));
}

const page = (title, ...children) => main.append(make("h1", {}, title), ...children);

/** Makes a titled table of the sidecar's part, hidden while it is empty. */
function problems(name) {
  const block = make("div", { hidden: true }, make("h3", {}, models[name].title), table(name, () => ""));
  return live(block, () => { block.hidden = !parts.sidecar?.[models[name].rows]?.length; });
}

/** Returns sentences about the problems that have no table. */
function alerts({ redis, services_differing: differing, breakers, breakers_not_closed: notClosed }) {
  const { maxmemory_policy: policy, cluster } = parts.redis ?? {};
  const unlisted = notClosed - breakers.length;
  return [
    !redis.up && `Redis at ${redis.address} is unreachable: ${redis.failure ?? "not connected"}.`,
    policy && policy !== "noeviction"
      && `Redis may evict keys, and an evicted lock is a lost lock: maxmemory-policy is ${policy}, not noeviction.`,
    cluster && cluster.slots_covered < 16384 && `Only ${number(cluster.slots_covered)} of 16,384 hash slots of Redis are served.`,
    differing.length && `Sidecars have different configurations of: ${differing.join(", ")}. Compare interlock config show.`,
    unlisted > 0 && `${count(unlisted, "more breaker")} ${unlisted === 1 ? "is" : "are"} not closed.`,
  ].filter(Boolean);
}

/** Makes the section of the overview that lists problems, or says that there are none. */
function attention() {
  const title = make("h2");
  const list = make("ul");
  const calm = make("p", { className: "note" }, "Redis is connected, all breakers are closed, and no limit refused a call in the last minute.");
  const box = make("section", { id: "attention", hidden: true }, title, list, problems("breakers"), problems("limited"), calm);
  return live(box, () => {
    if (!parts.sidecar) return;
    const sentences = alerts(parts.sidecar);
    const isCalm = !sentences.length && !parts.sidecar.breakers.length && !(parts.sidecar.limited ?? []).length;
    box.hidden = false;
    box.className = isCalm ? "calm" : sentences.length || parts.sidecar.breakers.length ? "urgent" : "notice";
    setText(title, isCalm ? "Nothing needs attention" : "Needs attention");
    calm.hidden = !isCalm;
    list.hidden = !sentences.length;
    sync(list, sentences, (text) => text, () => make("li"), setText);
  });
}

const views = {
  overview() {
    page("Overview", attention(), facts("here", "cards"), section("Last five minutes", plots("rates")),
      section("Redis", facts("redis"), table("primaries")), titledTable("fleet", note(() => age(parts.fleet))));
  },

  locks() {
    const unseen = "continue with the next page.";
    const isPart = () => parts.locks?.complete === false;
    page("Locks", tools("locks", () => (parts.locks?.cursor ?? "0") !== "0" && { cursor: parts.locks.cursor }),
      table("locks", () => (isPart() ? `No matches so far; the search is not complete: ${unseen}` : undefined)),
      note(() => parts.locks && `${age(parts.locks)}. This list is refreshed every few seconds; changes by this sidecar appear immediately, marked "here".${
        isPart() ? ` The search is not complete: ${unseen}` : ""}`));
  },

  lock() {
    const name = route.name;
    const breakButton = make("button", { type: "button", className: "danger", hidden: true }, "Break lock …");
    breakButton.addEventListener("click", () => {
      // If several share the lock, send the oldest fence, because newer leases come and go.
      const fences = parts.lock.leases.map((lease) => lease.fence).filter((fence) => fence > 0 && Number.isSafeInteger(fence));
      if (!parts.lock.leases.length) return showToast("Not done: nobody holds this lock now.");
      act(`Break the lock ${name}?`,
        `The holder (${parts.lock.leases.map((lease) => lease.label).join(", ")}) may still be working. The next grant gets a higher fence. This cannot be undone.`,
        "Break lock", "POST", `/v1/locks/${encodeURIComponent(name)}/break`, fences.length ? { fence: Math.min(...fences) } : {}, `The lock ${name} was broken.`);
    });
    const unshown = ({ leases, holders }) => (leases.length && leases.length < holders
      ? `. Showing ${number(leases.length)} of ${count(holders, "holder")}, those whose leases end first` : "");
    page(`Lock ${name}`, facts("lock"), note(() => parts.lock && age(parts.lock) + unshown(parts.lock)),
      make("p", {}, live(breakButton, () => { breakButton.hidden = role !== "admin" || !parts.lock?.leases.length; })),
      titledTable("holders"), titledTable("queue"), titledTable("lockGrants"));
  },

  services() {
    const end = () => parts.services && parts.services.from + parts.services.services.length;
    page("Services", tools("services", () => end() < parts.services?.total && { from: end() }), table("services"),
      note(() => (parts.services?.total ? `${parts.services.from + 1} to ${end()} of ${number(parts.services.total)}` : "")));
  },

  domains() {
    page(models.domains.title, table("domains"), note(() => {
      const domains = parts.domains?.domains ?? [];
      const missing = domains.reduce((sum, domain) => sum + domain.rules_total - domain.rules.length, 0);
      return domains.length ? `Decisions by this sidecar since it started or since its rules were replaced.${
        missing ? ` ${count(missing, "rule")} not shown.` : ""}` : "";
    }));
  },

  service() {
    const name = route.name;
    const choice = make("select", { id: "force-state" }, ["open", "closed", "disabled"].map((word) => make("option", { value: word }, word)));
    const minutes = make("input", { id: "force-for", type: "number", min: 1, max: 100000, value: 15 });
    const reason = make("input", { id: "force-reason", maxLength: 200, autocomplete: "off" });
    const path = `/v1/services/${encodeURIComponent(name)}/override`;
    const force = make("form", {}, make("div", { className: "tools" },
      make("p", {}, make("label", { htmlFor: "force-state" }, "State"), choice),
      make("p", {}, make("label", { htmlFor: "force-for" }, "Minutes (empty: no end)"), minutes),
      make("p", {}, make("label", { htmlFor: "force-reason" }, "Reason"), reason),
      make("button", { className: "danger" }, "Force …")));
    force.addEventListener("submit", (event) => {
      event.preventDefault();
      const end = minutes.value ? `for ${minutes.value} min` : "until someone changes it back";
      act(`Force the breaker of ${name} ${choice.value}?`, `This affects the whole fleet immediately, ${end}.`, "Force breaker", "PUT", path,
        { state: choice.value, reason: reason.value, for_ms: minutes.value ? Math.round(minutes.value * 60000) : null },
        `The breaker of ${name} is forced ${choice.value}.`);
    });
    const back = make("button", { type: "button" }, "Back to automatic …");
    back.addEventListener("click", () => act(`Return the breaker of ${name} to automatic?`,
      "It starts closed, for the whole fleet.", "Back to automatic", "PUT", path, { state: "auto" },
      `The breaker of ${name} is automatic again.`));
    const forceSection = section("Force the breaker", force, make("p", {}, back));
    page(`Service ${name}`, facts("service"), titledTable("limits", note(() => age(parts.limits))),
      section("Last minute through this sidecar", plots("minute")),
      live(forceSection, () => {
        forceSection.hidden = role !== "admin" || !parts.service?.service;
        back.hidden = !parts.service?.forced && parts.service?.state === "closed";
      }),
      titledTable("history"));
  },

  grants() {
    page(models.grants.title, table("grants"), note(() => "Each sidecar keeps its own grants, in memory."));
  },

  events() {
    page(models.events.title, table("events"), note(() => "Delivery is best effort; events may be missing."));
  },
};

// Navigation: the URL's fragment names the view.

function readRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", name = ""] = path.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const known = Object.hasOwn(views, view) ? view : "overview";
  return { view: known, name, query: new URLSearchParams(query) };
}

/** @param isSame whether the view stays the same, so that the browser's history needs no new entry. */
function go(view, query, isSame = false) {
  const text = new URLSearchParams(query).toString();
  const hash = `#/${view}${text ? `?${text}` : ""}`;
  if (!isSame) location.hash = hash;
  else {
    history.replaceState(null, "", hash);
    enter();
  }
}

function enter() {
  // The fragment of the skip link is not a view.
  if (route && location.hash && !location.hash.startsWith("#/")) return;
  clearTimeout(searchTimer);
  const previous = route;
  route = readRoute();
  const isSearch = previous && previous.view === route.view && (route.view === "locks" || route.view === "services")
    && document.activeElement?.id === "search";
  const { selectionStart, selectionEnd } = isSearch ? document.activeElement : {};
  parts = { sidecar: parts.sidecar };
  updates = [];
  main.replaceChildren();
  views[route.view]();
  for (const anchor of document.querySelectorAll("nav a")) {
    const target = anchor.getAttribute("href").slice(2) || "overview";
    const isHere = target === route.view || target === `${route.view}s`;
    if (isHere) anchor.setAttribute("aria-current", "page"); else anchor.removeAttribute("aria-current");
  }
  document.title = `${main.querySelector("h1").textContent} – Interlock`;
  if (isSearch) {
    const field = $("search");
    field.focus();
    field.setSelectionRange(selectionStart, selectionEnd);
  } else if (previous) {
    main.focus();
  }
  follow();
}

function scheduleDraw() {
  if (isDrawScheduled) return;
  isDrawScheduled = true;
  requestAnimationFrame(() => { isDrawScheduled = false; for (const update of updates) update(); });
}

// The stream of server-sent events, read with fetch, because EventSource can neither send a key nor report a rejection.

function routeQuery() {
  const known = { locks: ["search", "cursor"], services: ["search", "from"] }[route.view] ?? [];
  const fields = [["view", route.view], ["name", ["lock", "service"].includes(route.view) ? route.name : ""],
    ...known.map((name) => [name, route.query.get(name)])];
  return fields.filter(([, value]) => value).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

async function follow() {
  stream?.abort();
  // A hidden page needs no updates, and browsers allow few connections per host.
  if (document.hidden) return;
  const controller = new AbortController();
  stream = controller;
  let pause = 250;
  while (!controller.signal.aborted) {
    if (keysAreRequired && !key) return login("");
    const began = Date.now();
    try {
      const problem = await read(controller);
      if (controller.signal.aborted) return;
      if (problem?.status === 401) return login(key ? "Invalid API key." : "");
      if (problem && problem.status < 500) return refused(problem);
      disconnected(problem ? problem.detail : "The sidecar has shut down.");
    } catch {
      if (controller.signal.aborted) return;
      disconnected("The sidecar does not respond.");
    }
    if (Date.now() - began > silenceLimit) pause = 250;
    await new Promise((resume) => setTimeout(resume, pause));
    pause = Math.min(pause * 2, 4000);
  }
}

/** Reads the stream until it ends. Returns a problem if the sidecar rejects the request, otherwise null. */
async function read(controller) {
  const attempt = new AbortController();
  const stop = () => attempt.abort();
  controller.signal.addEventListener("abort", stop, { once: true });
  let watchdog = setTimeout(stop, silenceLimit);
  try {
    const response = await fetch(`/v1/live?${routeQuery()}`, {
      headers: headers({ Accept: "text/event-stream" }), signal: attempt.signal, cache: "no-store", credentials: "omit",
    });
    if (!response.ok) {
      const problem = await response.json().catch(() => null);
      // A proxy in between may answer with something other than JSON.
      return { detail: `The sidecar responded with status ${response.status}.`, ...problem, status: response.status };
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || controller.signal.aborted) return null;
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, silenceLimit);
      text += value;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        received(text.slice(0, end));
        text = text.slice(end + 2);
      }
    }
  } finally {
    // An unread response would stay open.
    stop();
    clearTimeout(watchdog);
    controller.signal.removeEventListener("abort", stop);
  }
}

function headers(others) {
  return key ? { ...others, "X-Api-Key": key } : others;
}

function received(message) {
  let type = "";
  let data = "";
  for (const line of message.split("\n")) {
    if (line.startsWith("event: ")) type = line.slice(7);
    if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (!type) return;
  const part = JSON.parse(data);
  if (type === "hello") {
    role = part.role;
    clockOffset = part.now_ms - performance.now();
    setText($("who"), part.caller === "anonymous" ? "" : `as ${part.caller} (${part.role})`);
  } else {
    parts[type] = part;
    if (type === "sidecar") showConnection(part);
  }
  scheduleDraw();
}

function showConnection(sidecar) {
  main.classList.remove("stale");
  $("link").className = sidecar.redis.up ? "dot up" : "dot down";
  setText($("link-text"), sidecar.redis.up
    ? `live, sidecar ${sidecar.id}${sidecar.redis.scope === "host" ? ", private Redis: this host only" : ""}` : "Redis is unreachable");
  trouble(sidecar.redis.up ? ""
    : `This sidecar cannot reach Redis at ${sidecar.redis.address}: ${sidecar.redis.failure ?? "not connected"}. Data from Redis may be out of date.`);
}

/** Marks the page as possibly out of date. */
function markStale(why) {
  main.classList.add("stale");
  $("link").className = "dot down";
  setText($("link-text"), why);
}

function disconnected(why) {
  markStale("not connected");
  trouble(`${why} Showing its last known state; trying again.`);
}

/** Reports a request that is not retried, because it would fail again. */
function refused(problem) {
  markStale("no data");
  trouble(problem.detail);
}

function trouble(text) {
  setText($("trouble"), text);
  $("trouble").hidden = !text;
}

// The key and the actions.

function login(text) {
  key = null;
  sessionStorage.removeItem(storedKey);
  $("leave").hidden = true;
  if (text) setText($("login-text"), text);
  if (!$("login").open) $("login").showModal();
}

$("login").addEventListener("cancel", (event) => event.preventDefault());
// Browsers close a dialog on the second cancel, even if both are prevented.
$("login").addEventListener("close", () => { if (keysAreRequired && !key) login(""); });
$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("key").value.trim();
  $("key").value = "";
  // A header field cannot carry other characters.
  if (/[^\x21-\x7e]/.test(key)) return login("Invalid API key.");
  if (!key) return;
  sessionStorage.setItem(storedKey, key);
  $("leave").hidden = false;
  $("login").close();
  follow();
});
$("leave").addEventListener("click", () => {
  key = null;
  parts = {};
  enter();
});

function ask(title, text, yes) {
  const dialog = $("ask");
  setText($("ask-title"), title);
  setText($("ask-text"), text);
  setText($("ask-yes"), yes);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

let toastTimer = null;
function showToast(text) {
  setText($("toast"), text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => setText($("toast"), ""), 8000);
}

async function act(title, text, yes, method, path, body, done) {
  if (!(await ask(title, text, yes))) return;
  try {
    const response = await fetch(path, {
      method, headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body), cache: "no-store", credentials: "omit",
      signal: AbortSignal.timeout(15000),
    });
    const problem = response.ok ? null : await response.json().catch(() => ({}));
    showToast(problem ? `Not done: ${problem.detail ?? `the sidecar responded with status ${response.status}`}` : done);
  } catch {
    showToast("The sidecar did not respond, so this may or may not have been done. Check before you try again.");
  }
}

// Durations and ages also change between messages.
setInterval(() => { if (!document.hidden) scheduleDraw(); }, 250);
document.addEventListener("visibilitychange", () => {
  follow();
  if (document.hidden) markStale("connecting");
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", enter);
$("leave").hidden = !key;
enter();
