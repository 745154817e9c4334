// Views. Each makes its elements once; they update themselves with every message.

let typing = null;
function searchField(view) {
  const field = make("input", { id: "search", type: "search", value: route.query.get("search") ?? "", autocomplete: "off", maxLength: 256 });
  const search = () => {
    clearTimeout(typing);
    typing = setTimeout(() => go(view, field.value ? { search: field.value } : {}, true), 300);
  };
  // Input methods compose a character from several keys: wait for the end of the composition before searching.
  field.addEventListener("input", (event) => { if (event.isComposing) clearTimeout(typing); else search(); });
  field.addEventListener("compositionend", search);
  return field;
}

/** Makes the search field and the paging buttons. `next` returns the query of the next page, if there is one. */
function tools(view, next) {
  const search = route.query.get("search");
  const turn = (text, query) => {
    const button = make("button", { type: "button", hidden: true }, text);
    button.addEventListener("click", () => go(view, { ...(search ? { search } : {}), ...query() }));
    return live(button, () => { button.hidden = !query(); });
  };
  return make("div", { className: "tools" },
    make("p", {}, make("label", { htmlFor: "search" }, "Part of the name"), searchField(view)),
    turn("First page", () => (route.query.get("cursor") || route.query.get("from")) && {}), turn("Next page", next));
}

const page = (title, ...children) => main.append(make("h1", {}, title), ...children);

const views = {
  overview() {
    page("Overview", facts("here", "cards"), section("The last five minutes", plots("rates", 300)), listed("breakers"),
      section("Redis", facts("redis"), table("primaries")), listed("fleet", note(() => age(parts.fleet))));
  },

  locks() {
    const unseen = "go on with the next page.";
    const isPart = () => parts.locks?.complete === false;
    page("Locks", tools("locks", () => (parts.locks?.cursor ?? "0") !== "0" && { cursor: parts.locks.cursor }),
      table("locks", () => (isPart() ? `None so far; the search has not seen all names: ${unseen}` : undefined)),
      note(() => parts.locks && `The list ${age(parts.locks)}; it is read every few seconds. What this sidecar does shows at once, as "here".${
        isPart() ? ` The search has not seen all names: ${unseen}` : ""}`));
  },

  lock() {
    const name = route.name;
    const breaking = make("button", { type: "button", className: "danger", hidden: true }, "Break the lock …");
    breaking.addEventListener("click", () => {
      // If several share the lock, name the oldest: younger ones come and go.
      const fences = parts.lock.leases.map((lease) => lease.fence).filter((fence) => fence > 0 && Number.isSafeInteger(fence));
      if (!parts.lock.leases.length) return tell("Not done: nobody holds it any more.");
      act(`Break the lock ${name}?`,
        `Whoever holds it (${parts.lock.leases.map((lease) => lease.label).join(", ")}) may still be at work. The next grant has a higher fence. This cannot be taken back.`,
        "Break it", "POST", `/v1/locks/${encodeURIComponent(name)}/break`, fences.length ? { fence: Math.min(...fences) } : {}, `The lock ${name} was broken.`);
    });
    const unshown = ({ leases, holders }) => (leases.length && leases.length < holders
      ? ` ${number(leases.length)} of ${number(holders)} are shown, whose leases end first; a turn that is being offered is nobody's lease.` : "");
    page(`Lock ${name}`, facts("lock"), note(() => parts.lock && age(parts.lock) + unshown(parts.lock)),
      make("p", {}, live(breaking, () => { breaking.hidden = role !== "admin" || !parts.lock?.leases.length; })),
      listed("holders"), listed("queue"), listed("lockGrants"));
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
      return domains.length ? `Decided by this sidecar since it began, or since its rules were replaced.${
        missing ? ` ${number(missing)} rules are not shown.` : ""}` : "";
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
      make("p", {}, make("label", { htmlFor: "force-for" }, "For minutes (empty: until taken back)"), minutes),
      make("p", {}, make("label", { htmlFor: "force-reason" }, "Reason"), reason),
      make("button", { className: "danger" }, "Force …")));
    force.addEventListener("submit", (event) => {
      event.preventDefault();
      const end = minutes.value ? ` for ${minutes.value} min` : " until it is taken back";
      act(`Force the breaker of ${name} ${choice.value}?`, `The whole fleet acts on it at once,${end}.`, "Force it", "PUT", path,
        { state: choice.value, reason: reason.value, for_ms: minutes.value ? Math.round(minutes.value * 60000) : null },
        `The breaker of ${name} is forced ${choice.value}.`);
    });
    const back = make("button", { type: "button" }, "Back to automatic …");
    back.addEventListener("click", () => act(`Let the breaker of ${name} go back to automatic?`,
      "It begins closed, for the whole fleet.", "Back to automatic", "PUT", path, { state: "auto" },
      `The breaker of ${name} is automatic again.`));
    const acts = section("Force the breaker", force, make("p", {}, back));
    page(`Service ${name}`, facts("service"), listed("limits", note(() => age(parts.limits))),
      section("The last minute, through this sidecar", plots("minute", 60)),
      live(acts, () => {
        acts.hidden = role !== "admin" || !parts.service?.service;
        back.hidden = !parts.service?.forced && parts.service?.state === "closed";
      }),
      listed("history"));
  },

  grants() {
    page(models.grants.title, table("grants"), note(() => "Kept in this sidecar's memory alone; other sidecars have theirs."));
  },

  events() {
    page(models.events.title, table("events"), note(() => "Hints, which may be missed."));
  },
};

// Navigation: the URL's fragment names the view.

function readRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", name = ""] = path.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const known = Object.hasOwn(views, view) ? view : "overview";
  return { view: known, name, query: new URLSearchParams(query) };
}

/** @param isSame whether the view stays the same, so the browser's history needs no entry. */
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
  clearTimeout(typing);
  const before = route;
  route = readRoute();
  const isSearch = before && before.view === route.view && (route.view === "locks" || route.view === "services")
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
  } else if (before) {
    main.focus();
  }
  follow();
}

function plan() {
  if (isDrawn) return;
  isDrawn = true;
  requestAnimationFrame(() => { isDrawn = false; for (const update of updates) update(); });
}

// The stream: server-sent events read with fetch, which can send a key and report why it was rejected.

function queryOfRoute() {
  const known = { locks: ["search", "cursor"], services: ["search", "from"] }[route.view] ?? [];
  const fields = [["view", route.view], ["name", ["lock", "service"].includes(route.view) ? route.name : ""],
    ...known.map((name) => [name, route.query.get(name)])];
  return fields.filter(([, value]) => value).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

async function follow() {
  stream?.abort();
  // A hidden page needs no updates, and browsers allow few connections per host.
  if (document.hidden) return;
  const own = new AbortController();
  stream = own;
  let pause = 250;
  while (!own.signal.aborted) {
    if (keysAreRequired && !key) return login("");
    const began = Date.now();
    try {
      const problem = await read(own);
      if (own.signal.aborted) return;
      if (problem?.status === 401) return login(key ? "This key is not known here." : "");
      if (problem && problem.status < 500) return refused(problem);
      away(problem ? problem.detail : "This sidecar has gone down.");
    } catch {
      if (own.signal.aborted) return;
      away("This sidecar does not answer.");
    }
    if (Date.now() - began > patience) pause = 250;
    await new Promise((resume) => setTimeout(resume, pause));
    pause = Math.min(pause * 2, 4000);
  }
}

/** Reads until the stream ends. Returns the problem if the sidecar rejects the request. */
async function read(own) {
  const attempt = new AbortController();
  const stop = () => attempt.abort();
  own.signal.addEventListener("abort", stop, { once: true });
  let watchdog = setTimeout(stop, patience);
  try {
    const response = await fetch(`/v1/live?${queryOfRoute()}`, {
      headers: headers({ Accept: "text/event-stream" }), signal: attempt.signal, cache: "no-store", credentials: "omit",
    });
    if (!response.ok) {
      const problem = await response.json().catch(() => null);
      // An intermediary may answer with something that is not JSON.
      return { detail: `The sidecar answers ${response.status}.`, ...problem, status: response.status };
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || own.signal.aborted) return null;
      clearTimeout(watchdog);
      watchdog = setTimeout(stop, patience);
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
    own.signal.removeEventListener("abort", stop);
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
    if (type === "sidecar") told(part);
  }
  plan();
}

function told(sidecar) {
  main.classList.remove("stale");
  $("link").className = sidecar.redis.up ? "dot up" : "dot away";
  setText($("link-text"), sidecar.redis.up
    ? `live, sidecar ${sidecar.id}${sidecar.redis.scope === "host" ? ", private Redis: this host only" : ""}` : "Redis is away");
  trouble(sidecar.redis.up ? ""
    : `This sidecar cannot reach its Redis at ${sidecar.redis.address}: ${sidecar.redis.failure ?? "not connected"}. What is shown of it is as old as it says.`);
}

/** Marks the page as possibly out of date. */
function unknown(why) {
  main.classList.add("stale");
  $("link").className = "dot away";
  setText($("link-text"), why);
}

function away(why) {
  unknown("not connected");
  trouble(`${why} What is shown is what it said last; trying again.`);
}

/** Reports a request that would fail again, so it is not retried. */
function refused(problem) {
  unknown("nothing to show");
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
  if (/[^\x21-\x7e]/.test(key)) return login("This key is not known here.");
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

let forgetting = null;
function tell(text) {
  setText($("told"), text);
  clearTimeout(forgetting);
  forgetting = setTimeout(() => setText($("told"), ""), 8000);
}

async function act(title, text, yes, method, path, body, done) {
  if (!(await ask(title, text, yes))) return;
  try {
    const response = await fetch(path, {
      method, headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body), cache: "no-store", credentials: "omit",
      signal: AbortSignal.timeout(15000),
    });
    const problem = response.ok ? null : await response.json().catch(() => ({}));
    tell(problem ? `Not done: ${problem.detail ?? `the sidecar answers ${response.status}`}` : done);
  } catch {
    tell("Not known whether it was done: the sidecar did not answer. Look before you try again.");
  }
}

// Durations and ages are shown as they pass, between messages.
setInterval(() => { if (!document.hidden) plan(); }, 250);
document.addEventListener("visibilitychange", () => {
  follow();
  if (document.hidden) unknown("connecting");
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", enter);
$("leave").hidden = !key;
enter();
