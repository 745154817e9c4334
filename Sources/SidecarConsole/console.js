// Views: each makes its elements once, and shows what has come whenever something has.

const grantColumns = [
  ["Granted", (grant) => moment(grant.granted_ms)],
  ["Lock", (grant) => link(grant.name, "lock", grant.name)],
  ["Holder", (grant) => grant.label],
  ["Fence", (grant) => grant.fence, "number"],
  ["Mode", (grant) => (grant.permits ? `one of ${grant.permits} places` : grant.mode)],
  ["Waited", (grant) => span(grant.waited_ms), "number"],
  ["Held for", (grant) => span((grant.ended_ms ?? now()) - grant.granted_ms), "number"],
  ["End", (grant) => grant.end ?? "in force"],
];
const grantKey = (grant) => `${grant.name} ${grant.fence} ${grant.granted_ms}`;
const eventColumns = [
  ["When", (event) => moment(event.at_ms)],
  ["Event", (event) => event.type],
  ["What", eventWords],
  ["Told by", (event) => event.origin],
];

function holderWords(lock) {
  if (!lock.holders) return lock.waiters ? "passed on just now" : "nobody";
  // Of those that hold it together the label is their group's.
  const label = lock.mode === "exclusive" ? lock.label : lock.leases[0]?.label ?? lock.label;
  return lock.holders > 1 ? `${label ?? ""} and ${lock.holders - 1} more` : label ?? "";
}

let typing = null;
function searchField(view) {
  const field = make("input", { id: "search", type: "search", value: route.query.get("search") ?? "", autocomplete: "off", maxLength: 256 });
  const search = () => {
    clearTimeout(typing);
    typing = setTimeout(() => go(view, field.value ? { search: field.value } : {}, true), 300);
  };
  // Scripts that are composed of several keys: the view is made anew once a word is whole.
  field.addEventListener("input", (event) => { if (event.isComposing) clearTimeout(typing); else search(); });
  field.addEventListener("compositionend", search);
  return field;
}

const views = {
  overview() {
    const numbers = cards(["Locks held here", "Waiting for locks here", "Calls under way", "Calls waiting", "Sidecars", "Services"]);
    const plots = [
      plot(300, "Locks", "granted", "held by another"), plot(300, "Limits", "taken", "limited"),
      plot(300, "Permits", "granted", "refused"), plot(300, "Redis commands", "sent"),
    ];
    const redis = facts();
    const primaries = table("The cluster's primaries", [
      ["Primary", (primary) => primary.address], ["Slots", (primary) => primary.slots, "number"],
      ["Connected", (primary) => (primary.connected ? "yes" : "no")],
    ], (primary) => primary.address, "");
    const breakers = table("Breakers that are not closed", [
      ["Service", (breaker) => link(breaker.service, "service", breaker.service)],
      ["Breaker", (breaker) => state(breaker.state)], ["Why", breakerWhy],
    ], (breaker) => breaker.service, "All are closed.");
    const fleetAge = make("p", { className: "note" });
    const fleet = table("The sidecars of this fleet", [
      ["Sidecar", (sidecar) => (sidecar.id === parts.sidecar?.id ? `${sidecar.id} (this one)` : sidecar.id)],
      ["Host", (sidecar) => sidecar.host], ["Version", (sidecar) => sidecar.version],
      ["Up for", (sidecar) => (sidecar.started_ms ? span(now() - sidecar.started_ms) : "")],
      ["Configured differently", (sidecar) => sidecar.differs.join(", ")],
    ], (sidecar) => sidecar.id, "None has been heard of.");
    main.append(make("h1", {}, "Overview"), numbers, section("The last five minutes", make("div", { className: "plots" }, plots)),
      section("Breakers that are not closed", breakers), section("Redis", redis, primaries), section("Fleet", fleet, fleetAge));
    return () => {
      const { sidecar, redis: server, rates, fleet: members } = parts;
      if (sidecar) {
        numbers.show([sidecar.locks_held, sidecar.locks_waiting, sidecar.permits_under_way, sidecar.calls_waiting,
          sidecar.fleet, sidecar.services].map(number));
        breakers.show(sidecar.breakers);
      }
      if (rates) {
        const series = rates.series;
        plots[0].show(series.locks_granted, series.locks_held);
        plots[1].show(series.calls_taken, series.calls_limited);
        plots[2].show(series.permits_granted, series.permits_refused);
        plots[3].show(series.redis_commands);
      }
      if (server) {
        const primary = server.primary;
        redis.show([
          ["Address", server.address], ["Shared with", sharing[server.scope]], ["Connected", server.up ? "yes" : "no"], ["Trouble", server.failure],
          ["Version", server.version], ["Topology", server.topology],
          ["Primary", primary && `${primary.address ?? "not known"} (${primary.name}), ${primary.sentinels_answering} of ${primary.sentinels} Sentinels answer`],
          ["Slots served", server.cluster && `${number(server.cluster.slots_covered)} of 16,384`],
          ["Switches", (primary ?? server.cluster)?.switches], ["Replicas", server.replicas],
          ["maxmemory-policy", server.maxmemory_policy],
        ]);
        primaries.hidden = !server.cluster;
        primaries.show(server.cluster?.primaries ?? []);
      }
      if (members) {
        fleet.show(members.at_ms === null ? null : members.sidecars);
        setText(fleetAge, age(members));
      }
    };
  },

  locks() {
    const search = searchField("locks");
    const list = table("Locks", [
      ["Lock", (lock) => link(lock.name, "lock", lock.name)],
      ["Holder", holderWords],
      ["Fence", (lock) => lock.fence ?? "", "number"],
      ["Remaining", (lock) => (lock.holders ? left(lock.ttl_ms, lock.at_ms) : ""), "number"],
      ["Mode", mode],
      ["Waiting", (lock) => (lock.waiters ? number(lock.waiters) : ""), "number"],
      ["Read", (lock) => `${lock.here ? "here, " : ""}${span(now() - lock.at_ms)} ago`],
    ], (lock) => lock.name, "No lock is held under such a name.");
    const note = make("p", { className: "note" });
    const next = make("button", { type: "button", hidden: true }, "Next page");
    const first = make("button", { type: "button", hidden: !route.query.get("cursor") }, "First page");
    const word = () => (route.query.get("search") ? { search: route.query.get("search") } : {});
    next.addEventListener("click", () => go("locks", { ...word(), cursor: parts.locks.cursor }));
    first.addEventListener("click", () => go("locks", word()));
    main.append(make("h1", {}, "Locks"),
      make("div", { className: "tools" }, make("p", {}, make("label", { htmlFor: "search" }, "Part of the name"), search), first, next),
      list, note);
    return () => {
      const page = parts.locks;
      if (!page) return;
      list.show(page.at_ms === null ? null : page.locks,
        page.complete ? undefined : "None so far; the search has not seen all names: go on with the next page.");
      next.hidden = page.cursor === "0";
      setText(note, `The list ${age(page)}; it is read every few seconds. What this sidecar does shows at once, as "here".`
        + (page.complete ? "" : " The search has not seen all names: go on with the next page."));
    };
  },

  lock() {
    const name = route.name;
    const about = facts();
    const holders = table("Holders", [
      ["Holder", (lease) => lease.label], ["Fence", (lease) => lease.fence ?? "", "number"],
      ["Remaining", (lease) => left(lease.ttl_ms, parts.lock.at_ms), "number"],
    ], (lease) => `${lease.label} ${lease.fence}`, "Nobody holds it.");
    const queue = table("Who waits where", [
      ["Turn", (waiter) => waiter.turn, "number"], ["Sidecar", (waiter) => waiter.sidecar],
      ["Waiting there", (waiter) => waiter.waiters ?? "not told", "number"],
    ], (waiter) => waiter.sidecar, "Nobody waits for it.");
    const grants = table("The last grants", grantColumns.filter(([title]) => title !== "Lock"), grantKey,
      "None among the last 100 grants of this sidecar.");
    const note = make("p", { className: "note" });
    const breaking = make("button", { type: "button", className: "danger", hidden: true }, "Break the lock …");
    breaking.addEventListener("click", () => {
      // Of those that hold it together the eldest: younger ones come and go.
      const fences = parts.lock.leases.map((lease) => lease.fence).filter((fence) => fence > 0 && Number.isSafeInteger(fence));
      if (!parts.lock.leases.length) return tell("Not done: nobody holds it any more.");
      act(`Break the lock ${name}?`,
        `Whoever holds it (${parts.lock.leases.map((lease) => lease.label).join(", ")}) may still be at work. The next grant has a higher fence. This cannot be taken back.`,
        "Break it", "POST", `/v1/locks/${encodeURIComponent(name)}/break`, fences.length ? { fence: Math.min(...fences) } : {}, `The lock ${name} was broken.`);
    });
    main.append(make("h1", {}, `Lock ${name}`), about, note, make("p", {}, breaking),
      section("Holders", holders), section("Who waits where", queue),
      section("The last grants through this sidecar", grants));
    return () => {
      const lock = parts.lock;
      if (lock) {
        const leases = lock.leases ?? [];
        const waiting = lock.queue ?? [];
        const isKnown = lock.at_ms !== null;
        about.show(!isKnown ? [["Held", "not known"]] : [
          ["Held", lock.holders ? mode(lock) : "no"], ["Holders", lock.holders > 1 ? number(lock.holders) : ""], ["Fence", lock.fence],
          ["Remaining", lock.holders ? left(lock.ttl_ms, lock.at_ms) : ""],
          ["Waiting", number(Math.max(lock.waiters ?? 0, waiting.reduce((sum, { waiters }) => sum + (waiters ?? 1), 0)))],
        ]);
        holders.show(isKnown ? leases : null);
        queue.show(isKnown ? waiting.map((waiter, index) => ({ ...waiter, turn: index + 1 })) : null);
        setText(note, age(lock) + (leases.length && leases.length < lock.holders
          ? ` ${number(leases.length)} of ${number(lock.holders)} are shown, whose leases end first; a turn that is being offered is nobody's lease.` : ""));
        breaking.hidden = role !== "admin" || leases.length === 0;
      }
      if (parts.grants) grants.show(parts.grants.grants);
    };
  },

  services() {
    const search = searchField("services");
    const list = table("Services", [
      ["Service", (service) => link(service.service, "service", service.service)],
      ["Breaker", (service) => state(service.state)],
      ["Why", breakerWhy],
      ["Failing", (service) => share(service.failure_rate), "number"],
      ["Slow", (service) => share(service.slow_rate), "number"],
      ["Under way", (service) => service.under_way, "number"],
      ["Waiting", (service) => service.waiting, "number"],
      ["Taken in a minute", (service) => number(service.minute.calls_taken), "number"],
      ["Limited in a minute", (service) => number(service.minute.calls_limited), "number"],
      ["Probe", (service) => probeWords(service.probe)],
    ], (service) => service.service, "No service is configured under such a name.");
    const note = make("p", { className: "note" });
    const next = make("button", { type: "button", hidden: true }, "Next page");
    const word = () => (route.query.get("search") ? { search: route.query.get("search") } : {});
    next.addEventListener("click", () => go("services", { ...word(), from: parts.services.from + parts.services.services.length }));
    main.append(make("h1", {}, "Services"),
      make("div", { className: "tools" }, make("p", {}, make("label", { htmlFor: "search" }, "Part of the name"), search), next), list, note);
    return () => {
      const page = parts.services;
      if (!page) return;
      list.show(page.services);
      const end = page.from + page.services.length;
      next.hidden = end >= page.total;
      setText(note, page.total ? `${page.from + 1} to ${end} of ${number(page.total)}` : "");
    };
  },

  domains() {
    const list = table("The rules of the domains", [
      ["Domain", (row) => row.domain],
      ["Rule", (row) => row.rule + (row.name ? ` (${row.name})` : "")],
      ["Limit", (row) => (row.limit === null ? "unlimited" : row.limit === 0 ? "nothing passes" : `${number(row.limit)} in ${span(row.window_ms)}`)],
      ["Kind", (row) => [row.algorithm, row.shadow ? "shadow" : ""].filter(Boolean).join(", ")],
      ["Passed", (row) => number(row.ok), "number"],
      ["Refused", (row) => number(row.over_limit), "number"],
      ["A shadow would have refused", (row) => number(row.shadow_refusals), "number"],
    ], (row) => `${row.domain} ${row.rule}`, "No domain is configured: see rate_limits.");
    const note = make("p", { className: "note" });
    main.append(make("h1", {}, "Domains of Envoy’s rate limit service"), list, note);
    return () => {
      if (!parts.domains) return;
      const domains = parts.domains.domains;
      list.show(domains.flatMap((domain) => domain.rules.map((rule) => (
        { ...rule, domain: domain.domain, shadow: rule.shadow || domain.shadow }))));
      const missing = domains.reduce((sum, domain) => sum + domain.rules_total - domain.rules.length, 0);
      setText(note, domains.length ? `Decided by this sidecar since it began, or since its rules were replaced.${
        missing ? ` ${number(missing)} rules are not shown.` : ""}` : "");
    };
  },

  service() {
    const name = route.name;
    const about = facts();
    const used = new Map();
    const limits = table("Limits", [
      ["Limit", (limit) => limit.name + (limit.shadow ? " (shadow)" : "") + (limit.per_subject ? " (each subject)" : "")],
      ["Used now", (limit) => (limit.used === null ? `each subject ${number(limit.limit)}`
        : make("span", {}, make("meter", { min: 0, max: limit.limit, value: limit.used, "aria-label": `used of ${limit.name}` }),
          ` ${number(limit.used)} of ${number(limit.limit)}`))],
      ["Window", (limit) => span(limit.window_ms)],
      ["Most in the last minute shown", (limit) => (limit.used === null ? ""
        : number(Math.max(...(used.get(limit.name) ?? [[0, 0]]).map(([, value]) => value)))), "number"],
      ["Refused here", (limit) => number(limit.refused), "number"],
      ["Room again in", (limit) => (limit.limited && limit.retry_after_ms >= 0 ? left(limit.retry_after_ms, parts.limits.at_ms) : ""), "number"],
    ], (limit) => limit.name, "It has no limits.");
    const limitsAge = make("p", { className: "note" });
    const plots = [plot(60, "Limits", "taken", "limited"), plot(60, "Permits", "granted", "refused"), plot(60, "Outcomes", "good", "failed")];
    const timeline = make("ol", { className: "timeline", reversed: true });
    const none = make("p", { className: "none" }, "It has not changed since this sidecar started.");
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
    acts.hidden = true;
    main.append(make("h1", {}, `Service ${name}`), about, section("Limits", limits, limitsAge),
      section("The last minute, through this sidecar", make("div", { className: "plots" }, plots)), acts,
      section("What the breaker has been through", timeline, none));
    return () => {
      const { service, limits: standing, minute } = parts;
      if (service && !service.service) {
        about.show([["Breaker", "This service is no longer configured."]]);
        acts.hidden = true;
      } else if (service) {
        about.show([
          ["Breaker", state(service.state)], ["Why", breakerWhy(service)],
          ["Since", service.since_ms ? `${moment(service.since_ms)}, for ${span(now() - service.since_ms)}` : ""],
          ["Failing", `${share(service.failure_rate)} of ${number(service.calls)} calls`], ["Slow", share(service.slow_rate)],
          ["Trips", number(service.trips)], ["Calls under way here", service.under_way],
          ["Places here", service.places ?? "no bound"], ["Calls waiting here", service.waiting],
          ["Probe", probeWords(service.probe)],
        ]);
        acts.hidden = role !== "admin";
        back.hidden = !service.forced && service.state === "closed";
        none.hidden = service.history.length > 0;
        sync(timeline, service.history, (change) => `${change.at_ms} ${change.generation} ${change.state}`, () => make("li"),
          (item, change) => fill(item, make("span", {}, `${moment(change.at_ms)} `, state(change.state),
            breakerWhy(change) ? ` ${breakerWhy(change)}` : "",
            change.failure_rate > 0 || change.slow_rate > 0 ? `; ${share(change.failure_rate)} failing, ${share(change.slow_rate)} slow` : "")));
      }
      if (standing) {
        const shown = (standing.limits ?? []).map((limit) => ({ ...limit, used: Math.max(0, limit.limit - limit.remaining) }));
        for (const limit of shown) {
          const seen = (used.get(limit.name) ?? []).filter(([at]) => at > now() - 60000 && at !== standing.at_ms);
          used.set(limit.name, [...seen, [standing.at_ms, limit.used]]);
        }
        const refused = new Map((service?.limits ?? []).map((limit) => [limit.name, limit.refused]));
        // What one subject has used is read for no one; which limit refuses is known of those, too.
        const others = (service?.limits ?? []).filter((limit) => limit.per_subject).map((limit) => ({ ...limit, used: null }));
        limits.show(standing.at_ms === null ? null
          : [...shown.map((limit) => ({ ...limit, refused: refused.get(limit.name) ?? 0 })), ...others]);
        setText(limitsAge, age(standing));
      }
      if (minute) {
        plots[0].show(minute.series.calls_taken, minute.series.calls_limited);
        plots[1].show(minute.series.permits_granted, minute.series.permits_refused);
        plots[2].show(minute.series.outcomes_good, minute.series.outcomes_failed);
      }
    };
  },

  grants() {
    const list = table("The last grants", grantColumns, grantKey, "This sidecar has granted no lock yet.");
    main.append(make("h1", {}, "The last 100 grants of this sidecar"), list,
      make("p", { className: "note" }, "Kept in this sidecar's memory alone; other sidecars have theirs."));
    return () => { if (parts.grants) list.show(parts.grants.grants); };
  },

  events() {
    const list = table("Events", eventColumns, (event) => event.key, "None since this sidecar started.");
    main.append(make("h1", {}, "Events"), list,
      make("p", { className: "note" }, "The newest that this sidecar has heard since it started; hints, which may be missed."));
    return () => {
      if (!parts.events) return;
      list.show(parts.events.events.map((event, index) => ({ ...event, key: parts.events.last - index })));
    };
  },
};

// Where one is: the fragment names the view.

function readRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", name = ""] = path.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  const known = Object.hasOwn(views, view) ? view : "overview";
  return { view: known, name, query: new URLSearchParams(query) };
}

/** @param isSame the view that is shown goes on: there is nothing to go back to. */
function go(view, query, isSame = false) {
  const text = new URLSearchParams(query).toString();
  const hash = `#/${view}${text ? `?${text}` : ""}`;
  if (!isSame) location.hash = hash;
  else {
    history.replaceState(null, "", hash);
    enter();
  }
}

let draw = () => {};
function enter() {
  // The fragment of the skip link is no view.
  if (route && location.hash && !location.hash.startsWith("#/")) return;
  clearTimeout(typing);
  const before = route;
  route = readRoute();
  const isSearch = before && before.view === route.view && (route.view === "locks" || route.view === "services")
    && document.activeElement?.id === "search";
  const { selectionStart, selectionEnd } = isSearch ? document.activeElement : {};
  parts = { sidecar: parts.sidecar };
  main.replaceChildren();
  draw = views[route.view]();
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
  requestAnimationFrame(() => { isDrawn = false; draw(); });
}

// The stream: server-sent events by fetch, which can show a key and be told why it is refused.

function queryOfRoute() {
  const known = { locks: ["search", "cursor"], services: ["search", "from"] }[route.view] ?? [];
  const fields = [["view", route.view], ["name", ["lock", "service"].includes(route.view) ? route.name : ""],
    ...known.map((name) => [name, route.query.get(name)])];
  return fields.filter(([, value]) => value).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

async function follow() {
  stream?.abort();
  // Nobody looks at it, and a browser has few connections to one host.
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

/** Reads until the stream ends. Returns the problem that is answered in its place. */
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
      // What stands between may answer in its own words.
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
    // What is not read to its end goes on otherwise.
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

/** Which hosts can share a Redis, by its scope. */
const sharing = {
  host: "nobody: private Redis: this host only",
  loopback: "this host only, unless other hosts reach it by another address than this loopback address",
  network: "every host that names it",
};

function told(sidecar) {
  main.classList.remove("stale");
  $("link").className = sidecar.redis.up ? "dot up" : "dot away";
  setText($("link-text"), sidecar.redis.up
    ? `live, sidecar ${sidecar.id}${sidecar.redis.scope === "host" ? ", private Redis: this host only" : ""}` : "Redis is away");
  trouble(sidecar.redis.up ? ""
    : `This sidecar cannot reach its Redis at ${sidecar.redis.address}: ${sidecar.redis.failure ?? "not connected"}. What is shown of it is as old as it says.`);
}

/** What is shown may be as it is no more. */
function unknown(why) {
  main.classList.add("stale");
  $("link").className = "dot away";
  setText($("link-text"), why);
}

function away(why) {
  unknown("not connected");
  trouble(`${why} What is shown is what it said last; trying again.`);
}

/** What is asked for is not there, now and later. */
function refused(problem) {
  unknown("nothing to show");
  trouble(problem.detail);
}

function trouble(text) {
  setText($("trouble"), text);
  $("trouble").hidden = !text;
}

// A key, and what asks once.

function login(text) {
  key = null;
  sessionStorage.removeItem(storedKey);
  $("leave").hidden = true;
  if (text) setText($("login-text"), text);
  if (!$("login").open) $("login").showModal();
}

$("login").addEventListener("cancel", (event) => event.preventDefault());
// A browser closes a dialog all the same when it is told to twice.
$("login").addEventListener("close", () => { if (keysAreRequired && !key) login(""); });
$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = $("key").value.trim();
  $("key").value = "";
  // No field of a request can carry others.
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

// Times run on between what comes.
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
