// The status page: shows the state that the hub sends, and ends what the owner wants ended.
// Purposes, names and origins are other people's words: everything is set as text, never as markup.

const $ = (id) => document.getElementById(id);
const token = document.querySelector("meta[name=token]").content;
const RETRY = 3_000; // between two looks for a hub that does not answer
const SILENCE = 15_000; // the hub sends a state at least every 5 s: after so much silence it hangs
const GONE = "The hub does not answer. What you see is old. This page goes on by itself when the hub is back.";
const STALE = "This page belongs to an earlier run of the hub, or its session is over. Run `consentry open` again.";

let state = null;
let received = 0; // when the state came: ages go on from there
let heard = 0; // when the stream last gave a sign
let stream = null;
let retry = 0;
let lost = ""; // why there is no stream, in words
let sure = 0; // the timer of "Really enable?"
let pressed = 0; // when the big button was last pressed

// Text and lists. Only what differs is touched: focus, selection and screen readers are left alone.

const setText = (node, text) => node.textContent !== text && (node.textContent = text);

function fill(node, fields) {
  for (const [name, value] of Object.entries(fields)) {
    const part = node.querySelector(`[data-f=${name}]`);
    setText(part, String(value ?? ""));
    if (!part.matches("td, th")) part.hidden = part.textContent === "";
  }
}

/** Sets our own words, with `commands` as code. */
function setWords(node, text) {
  if (node.words === text) return;
  node.words = text;
  const code = (textContent) => Object.assign(document.createElement("code"), { textContent });
  node.replaceChildren(...text.split("`").map((part, at) => (at % 2 ? code(part) : part)));
}

/** Makes the children of `parent` the `items`. A node stays for as long as its item's key is there. */
function keyed(parent, items, key, template, update) {
  const old = parent.nodes ?? new Map();
  parent.nodes = new Map();
  for (const item of items) {
    const name = key(item);
    const node = old.get(name) ?? $(template).content.firstElementChild.cloneNode(true);
    old.delete(name);
    parent.nodes.set(name, node);
    update(node, item);
    node.item = item;
  }
  for (const node of old.values()) {
    // If what had the focus is gone, go on at the heading rather than at the top of the page.
    const focused = node.contains(document.activeElement);
    node.remove();
    if (focused) parent.closest("section")?.querySelector("[tabindex]").focus();
  }
  let place = parent.firstElementChild;
  for (const node of parent.nodes.values()) {
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  const hint = $(`no-${parent.id}`);
  if (!hint) return;
  hint.hidden = items.length > 0;
  (parent.closest(".scroll") ?? parent.closest("table") ?? parent).hidden = items.length === 0;
}

const count = (n, one) => `${n} ${one}${n === 1 ? "" : "s"}`;
const plain = (code) => String(code ?? "").replaceAll("_", " ");

function span(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  return s < 3600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

// The state.

const WARNINGS = { loose: "Looser than the default", config: "Settings", audit: "Audit", link: "Browser link", pending: "Waits for you" };
const ASKS = {
  control: "An agent asks for a grant", site: "An agent asks to use a site", tool: "An agent asks to use a tool",
  settings: "Less strict settings wait for your answer",
};
const UNASKED = { timeout_allow: "Nobody answered", no_consent: "Started without a dialog" };
const INSTALLS = { development: "loaded unpacked", admin: "installed by policy", normal: "from the store", sideload: "installed by a program" };
const TRANSPORTS = { native: "Native messaging", web_socket: "WebSocket" };

function mood() {
  if (lost || !state) return ["away", lost ? "No answer" : "Connecting"];
  if (state.disabled) return ["red", "Disabled"];
  if (state.dialog) return ["amber", "Someone is asking"];
  if (!state.grants.length) return ["good", "On"];
  return [state.grants.some((grant) => grant.running) ? "busy" : "good", "Agent working"];
}

function renderHead() {
  const [tone, words] = mood();
  $("pill").dataset.tone = tone;
  setText($("pill"), words);
  // A hidden page has no stream, so its title must not claim anything.
  document.title = `${document.hidden ? "Consentry" : words} · ${state?.machine ?? "this machine"}`;
  $("main").classList.toggle("stale", lost !== "");
  setWords($("lost"), lost);
  $("lost").hidden = !lost;
  const [label, look] = !state?.disabled ? ["Disable everything", "stop"] : sure ? ["Really enable?", "primary"] : ["Enable", "plain"];
  setText($("switch"), label);
  $("switch").className = look;
}

/** What carries ages: after every event and every second. */
function renderLive() {
  const on = (performance.now() - received) / 1000;
  const { dialog, questions_waiting: waiting } = state;
  $("asking").hidden = !dialog;
  if (dialog) {
    const left = Math.ceil(dialog.seconds_left - on);
    fill($("asking"), {
      title: `${ASKS[dialog.kind] ?? "Someone is asking"}.`, left: left > 0 ? `${left} s left` : "", purpose: dialog.purpose,
      who: [dialog.client, dialog.path && `path ${dialog.path}`].filter(Boolean).join(" · "),
      waiting: waiting ? `${count(waiting, "more question")} will follow.` : "",
    });
  }
  keyed($("grants"), state.grants, (grant) => grant.label, "grant", (node, grant) => {
    const left = Math.max(0, grant.left - on);
    fill(node, {
      path: grant.path, client: grant.client, label: grant.label, purpose: grant.purpose, unasked: UNASKED[grant.decision],
      caller: grant.caller && `Calls itself “${grant.caller}”. Nobody verified that.`,
      left: `${span(left)} left`, age: `began ${span(grant.age + on)} ago`, calls: count(grant.calls, "call"),
      running: grant.running ? `${count(grant.running, "call")} running` : "", tool: grant.last_tool && `last tool ${grant.last_tool}`,
      idle: grant.calls && !grant.running ? `used ${span(grant.idle + on)} ago` : "",
      sites: grant.sites.length ? `Sites: ${grant.sites.join(", ")}` : "",
    });
    const bar = node.querySelector("progress");
    bar.max = grant.age + grant.left || 1;
    bar.value = left;
    bar.classList.toggle("soon", left < 120);
    node.querySelector("[data-do=log]").ariaLabel = `${grant.label}: log of this grant`;
    node.querySelector("[data-do=kill]").ariaLabel = `Kill grant ${grant.label}`;
    keyed(node.querySelector(".tabs"), grant.tabs, (tab) => tab.tab, "tab", fill);
  });
  keyed($("browsers"), state.browsers, (row) => row.profile, "browser", (node, row) => {
    const version = [row.version, INSTALLS[row.install] ?? row.install].filter(Boolean).join(", ");
    const transport = TRANSPORTS[row.transport] ?? plain(row.transport);
    fill(node, { browser: row.browser, profile: row.name || row.profile, version, transport, age: span(row.seconds + on), tabs: row.tabs });
    node.querySelector("[data-f=profile]").title = row.profile;
  });
}

function render() {
  renderHead();
  setText($("machine"), state.machine);
  setText($("version"), `Consentry ${state.version}`);
  setText($("paths"), state.paths.length ? `Enabled paths: ${state.paths.join(", ")}` : "No path is enabled.");
  setText($("no-grants"), `No agent is at work.${state.disabled ? "" : " When one asks, a dialog appears on this screen."}`);
  $("disabled").hidden = !state.disabled;
  if (!state.grants.length && document.activeElement === $("kill-all")) $("grants-title").focus();
  $("kill-all").hidden = !state.grants.length;
  $("attention").hidden = state.warnings.length === 0;
  keyed($("warnings"), state.warnings, (warning) => warning.kind + warning.text, "warning", (node, { kind, text }) => {
    node.dataset.tone = ["link", "pending"].includes(kind) ? "amber" : "red";
    fill(node, { kind: WARNINGS[kind] ?? plain(kind) });
    setWords(node.querySelector("[data-text]"), text);
  });
  renderLive();
  keyed($("sites"), state.sites, (row) => JSON.stringify(row), "site", (node, row) => {
    const profile = state.browsers.find((browser) => browser.profile === row.profile)?.name || row.profile;
    fill(node, { site: row.site, path: row.path, client: row.client, profile });
    node.querySelector("button").ariaLabel = `Forget ${row.site} for ${row.client}, path ${row.path}, profile ${profile}`;
  });
  renderAudit();
  if ($("log").open && state.audit.some((line) => line.fields.grant === $("log").label && line.n > $("log").newest)) loadLog();
}

// The audit.

const COLUMNS = ["path", "key", "grant", "tool", "purpose", "outcome", "code", "reason", "did", "question", "args", "about"];
const FINE = ["ok", "allowed", "asked", "confirmed"];
const UNSURE = ["timeout_allow", "unverified", "no_effect"];
const TIME = new Intl.DateTimeFormat([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });

function flat(value) {
  if (Array.isArray(value)) return value.map(flat).join(", ");
  if (value === null || typeof value !== "object") return String(value);
  const said = Object.entries(value).filter(([, part]) => part !== null && part.length !== 0);
  return said.map(([name, part]) => `${plain(name)}: ${flat(part)}`).join(" · ");
}

/** An audit line in the words of the table. An outcome names only its call, so it borrows from that. */
function describe({ at, kind, fields: f }, lines) {
  const call = lines.find((line) => line.n === f.of)?.fields;
  const others = Object.entries(f).filter(([name]) => !COLUMNS.includes(name));
  return {
    time: TIME.format(new Date(at)), kind: plain(kind), grant: f.grant ?? call?.grant, client: f.key ?? call?.key, path: f.path ?? call?.path,
    what: (f.purpose && `“${f.purpose}”`) || plain(f.did) || (f.question && `question: ${f.question}`) || f.tool || call?.tool
      || (kind === "decision" ? "grant" : ""),
    rest: flat({ ...f.about, ...f.args, ...Object.fromEntries(others) }), result: plain(f.outcome ?? f.code ?? f.reason),
  };
}

function fillLines(body, lines, wanted = () => true) {
  const rows = lines.map((line) => ({ line, words: describe(line, lines) })).filter(wanted).reverse();
  keyed(body, rows, ({ line }) => line.n, "line", (node, { line, words }) => {
    if (node.item) return; // a line never changes
    fill(node, words);
    const code = line.fields.outcome ?? line.fields.code;
    node.dataset.tone = !code || FINE.includes(code) ? "" : UNSURE.includes(code) ? "amber" : "red";
    Object.assign(node.querySelector("time"), { dateTime: line.at, title: line.at });
    node.querySelector("button").ariaLabel = `${words.grant}: log of this grant`;
  });
  return rows.length;
}

function renderAudit() {
  const wanted = $("filter").value.trim().toLowerCase();
  const kind = $("kind").value;
  const shown = fillLines($("audit"), state.audit, ({ line, words }) =>
    (!kind || line.kind === kind) && Object.values(words).join(" ").toLowerCase().includes(wanted));
  setText($("count"), shown < state.audit.length ? `${shown} of ${count(state.audit.length, "line")}` : "");
  setText($("no-audit"), state.audit.length ? "No line matches the filter." : "Nothing is written yet.");
}

// The log of one grant.

async function loadLog() {
  const log = $("log");
  const answer = await ask(`/grants/${encodeURIComponent(log.label)}/log.json`);
  if (!answer) return log.close();
  const lines = await answer.json();
  log.newest = lines.at(-1)?.n ?? 0;
  const first = (name) => lines.find((line) => line.fields[name])?.fields[name];
  const live = state.grants.find((grant) => grant.label === log.label);
  const end = lines.findLast((line) => line.kind === "end")?.fields;
  const calls = lines.filter((line) => line.kind === "call");
  const tools = Object.entries(Object.groupBy(calls, (line) => line.fields.tool)).map(([tool, all]) => `${all.length} × ${tool}`);
  const places = lines.flatMap(({ fields: f }) => [...(f.sites ?? []), f.about?.site, f.target, f.args?.tab && `tab ${f.args.tab}`]);
  fill(log, {
    title: `Grant ${log.label}`, purpose: live?.purpose ?? first("purpose"), path: first("path"), client: first("key"),
    state: live ? "live" : end ? `ended after ${span(end.seconds)}: ${plain(end.reason)}` : "not live",
    places: [...new Set([...places, ...(live?.tabs ?? []).map((tab) => tab.origin)])].filter(Boolean).join(", "),
    calls: [calls.length, ...tools].join(" · "),
  });
  fillLines($("log-lines"), lines);
  if (!log.open) log.showModal();
}

// What the owner does.

function say(words, failed = false) {
  clearTimeout(say.timer);
  setWords($("notice").firstElementChild, words);
  $("notice").className = failed ? "red" : "";
  $("notice").hidden = !words;
  // A failure stays until it is dismissed or something else is done.
  if (!failed) say.timer = setTimeout(say, 6_000, "");
}

/** Asks the hub; without a body it reads. Says what went wrong, and gives nothing then. */
async function ask(path, body) {
  const headers = { "content-type": "application/json", "x-consentry-token": token };
  const write = body && { method: "POST", body: JSON.stringify(body), headers };
  let wrong = path === "/disable" ? " To disable everything without it, run `touch ~/.consentry/DISABLED`." : "";
  try {
    const answer = await fetch(path, { ...write, signal: AbortSignal.timeout(10_000) });
    if (answer.ok) return answer;
    const { error } = await answer.json().catch(() => ({}));
    if (error) return void say(`${error[0].toUpperCase()}${error.slice(1)}.`, true);
    wrong = [401, 403].includes(answer.status) ? STALE : `The hub refused this (${answer.status}).`;
  } catch {
    wrong = `The hub did not answer${body ? ": it is not certain that this was done" : ""}.${wrong}`;
  }
  say(wrong, true);
  link();
}

const post = async (path, body, done) => (await ask(path, body)) && say(done);

const actions = {
  killAll: () => post("/kill", {}, "All grants are ended."),
  kill: ({ label }) => post("/kill", { label }, `Grant ${label} is ended.`),
  forget: ({ site, path, client, profile }) => post("/forget", { site, path, client, profile }, `${site} is forgotten.`),
  flip() {
    const quick = performance.now() - pressed < 700;
    pressed = performance.now();
    if (!state?.disabled) return post("/disable", {}, "Everything is disabled.");
    // Whoever presses "Disable everything" again and again must not enable it so.
    if (quick) return;
    clearTimeout(sure);
    const again = sure !== 0;
    sure = again ? 0 : setTimeout(() => { sure = 0; renderHead(); }, 6_000);
    renderHead();
    return again ? post("/enable", {}, "Agents may ask again.") : say("Press the button again to enable.");
  },
  log(item) {
    $("log").label = item.label ?? item.words.grant;
    return loadLog();
  },
  closeLog: () => $("log").close(),
  dismiss: () => say(""),
};

document.addEventListener("click", async ({ target, detail }) => {
  const button = target.closest("[data-do]");
  // The second click of a double click may meet another grant, which has moved up meanwhile.
  if (!button || button.ariaBusy === "true" || detail > 1) return;
  let holder = button;
  while (holder && !holder.item) holder = holder.parentElement;
  // Busy rather than disabled: a disabled button would lose the focus.
  button.ariaBusy = "true";
  await actions[button.dataset.do](holder?.item);
  button.ariaBusy = null;
});
// A key that is held down would press the big button again and again.
document.addEventListener("keydown", (event) => {
  if (event.repeat && event.key !== "Tab" && event.target.closest("button")) event.preventDefault();
});
$("filter").addEventListener("input", () => state && renderAudit());
$("kind").addEventListener("change", () => state && renderAudit());

// The connection.

/** Looks for the hub, then opens the stream: an EventSource does not tell why it fails, and gives up when it is refused. */
async function link() {
  unlink();
  if (document.hidden) return;
  try {
    const page = await fetch("/", { signal: AbortSignal.timeout(RETRY) });
    // A hub that was restarted takes writes only with its own token, which is in its own page.
    if (page.ok && !(await page.text()).includes(token)) return location.reload();
    lost = page.ok ? lost : [401, 403].includes(page.status) ? STALE : GONE;
    if (page.ok) return listen();
  } catch {
    lost = GONE;
  }
  renderHead();
  unlink(RETRY);
}

function unlink(again) {
  clearTimeout(retry);
  stream?.close();
  stream = null;
  if (again) retry = setTimeout(link, again);
}

function listen() {
  unlink();
  heard = performance.now();
  stream = new EventSource("/events");
  stream.onerror = () => unlink(500);
  stream.onmessage = (event) => {
    lost = "";
    state = JSON.parse(event.data);
    received = heard = performance.now();
    render();
  };
}

// A browser opens six connections to one place: pages in the background must not hold them.
document.addEventListener("visibilitychange", () => {
  renderHead();
  link();
});
setInterval(() => {
  if (stream && performance.now() - heard > SILENCE) link();
  else if (stream && state) renderLive();
}, 1_000);
link();
