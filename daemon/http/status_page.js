// SPDX-License-Identifier: BSD-3-Clause
// The status page of farcached and farnode: numbers of /status.json as rates over ten seconds, charts of /history.json.
"use strict";
const byId = (id) => document.getElementById(id);
const every = 2000, first = 500, windowMs = 10000, patienceMs = 5000;
const samples = [];
let paused = false, timer = 0, answered = null;

const short = (n) => {
  if (!isFinite(n)) return "–";
  for (const [unit, by, least] of [["G", 1e9, 1e9], ["M", 1e6, 1e6], ["k", 1e3, 1e4]])
    if (n >= least) return (n / by).toPrecision(3) + " " + unit;
  return n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n.toPrecision(2);
};
const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return (i && n < 100 ? n.toPrecision(3) : Math.round(n)) + " " + units[i];
};
const micro = (us) => us === null ? "–" : us < 1000 ? Math.round(us) + " µs"
  : us < 1e6 ? (us / 1000).toPrecision(3) + " ms" : (us / 1e6).toPrecision(3) + " s";
const percent = (part, whole) => {
  if (!(whole > 0)) return "–";
  const share = 100 * part / whole;
  return (share > 0 && share < 0.1 ? "< 0.1" : share.toFixed(1)) + " %";
};
const span = (s) => s < 120 ? s + " s" : s < 7200 ? Math.floor(s / 60) + " min"
  : s < 172800 ? Math.floor(s / 3600) + " h" : Math.floor(s / 86400) + " days";
const words = (name) => name.replace(/_/g, " ").replace("one sided", "one-sided").replace("two sided", "two-sided");
const sum = (list) => list.reduce((a, b) => a + b, 0);
const rise = (now, old) => Math.max(0, now - old);
const clock = (date) => date.toLocaleTimeString("en-GB");

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}
// A cell is a text, or { parts, className }. Labels are those of the columns, for narrow screens.
function fill(id, rows, labels, empty) {
  const made = rows.map((cells) => {
    const row = make("tr");
    row.setAttribute("role", "row");
    cells.forEach((cell, i) => {
      const element = make(i ? "td" : "th");
      element.setAttribute("role", i ? "cell" : "rowheader");
      if (!i) element.scope = "row";
      else element.dataset.label = labels[i];
      if (cell instanceof Object) { element.append(...cell.parts); element.className = cell.className || ""; }
      else element.textContent = cell;
      row.append(element);
    });
    return row;
  });
  if (!made.length) {
    const cell = make("td", empty, "soft text"), row = make("tr");
    cell.colSpan = labels.length;
    row.append(cell);
    made.push(row);
  }
  byId(id).replaceChildren(...made);
}
function head(id, labels, classes) {
  byId(id).replaceChildren(...labels.map((label) => {
    const cell = make("th", label, classes[label] || "");
    cell.scope = "col";
    return cell;
  }));
}
function bar(value, most, text, label) {
  const box = make("div", undefined, "bar"), use = make("progress");
  use.max = most || 1;
  use.value = Math.min(value, use.max);
  use.setAttribute("aria-label", label);
  box.append(use, make("span", text));
  return box;
}

// Within a power of two taken as evenly spread.
function quantile(counts, bounds, share) {
  const total = sum(counts);
  if (!total) return null;
  let below = 0;
  for (let i = 0; i < counts.length; i++) {
    if (counts[i] && below + counts[i] >= share * total) {
      const from = i ? bounds[i - 1] : 0, to = bounds[Math.min(i, bounds.length - 1)];
      return from + Math.max(0, to - from) * (share * total - below) / counts[i];
    }
    below += counts[i];
  }
  return null;
}

// ---- what is shown of two samples -------------------------------------------------------------------

// Requests that no node answered, among all; a multi-get has several.
function unanswered(now, old) {
  if (now.get_unavailable === undefined) return { count: 0, share: "–" };
  const of = (name) => rise(now[name], old[name]);
  const count = of("get_unavailable") + of("mutations_unavailable");
  return { count, share: percent(count, Math.max(of("requests"), of("gets") + of("sets"), count)) };
}

// Why the source of the list of nodes, or the registration of this node, limits the service.
function membership(now) {
  const source = now.discovery;
  if (now.serving === 0 && now.etcd_silent === 1) return ["etcd does not answer, requests are refused"];
  if (now.serving === 0) return ["not registered in etcd, requests are refused"];
  if (now.right_left_ms === 0) return ["etcd does not answer, memory is not read one-sided"];
  if (!source || source.up) return [];
  return ["discovery is down, no list of nodes from " + source.source +
    (source.answer_age_s === null ? "" : " for " + span(source.answer_age_s)) +
    (source.last_error ? " (" + source.last_error + ")" : "") + ", the last list stays in use"];
}

// The state in one sentence: [class, word, reasons].
function judge(now, old) {
  if (!now.ready) return ["bad", "down", [now.not_ready_reason]];
  const reasons = now.nodes.filter((node) => node.state === "down")
    .map((node) => "node " + node.name + " is down" + (node.down_reason ? " (" + node.down_reason + ")" : ""));
  for (const node of now.nodes) {
    if (node.state !== "up") continue;
    if (node.links_up < node.links)
      reasons.push("node " + node.name + " has " + node.links_up + " of " + node.links + " connections");
    if (node.memory === null) reasons.push("node " + node.name + " is silent");
  }
  const lost = unanswered(now, old);
  if (lost.count) reasons.push(lost.share + " of requests unanswered");
  if (now.accepting_connections === false) reasons.push("no new connections are accepted");
  reasons.push(...membership(now));
  return reasons.length ? ["wait", "degraded", reasons] : ["good", "ready", []];
}

function showHead(now, old) {
  const [look, word, reasons] = judge(now, old);
  const place = (now.name ? now.name + " on " : "") + now.host + (now.port ? ":" + now.port : "");
  byId("state").textContent = word + (reasons.length ? ": " + reasons.join("; ") : "");
  byId("state").className = "state " + look;
  byId("title").textContent = now.program + " " + place;
  document.title = word + " - " + now.program + " " + place + ", pid " + now.pid;
  byId("about").textContent = "pid " + now.pid + ", version " + now.version + ", up " + span(now.uptime_s) +
    (now.workers ? ", " + now.workers + (now.workers === 1 ? " worker" : " workers") : "");
}

// The paths that GETs can have with these nodes.
function waysOf(now) {
  return new Set(now.nodes.flatMap((node) => node.ways.split(", ")));
}

function showTiles(now, old, seconds, latencies) {
  const of = (name) => rise(now[name], old[name]), per = (name) => of(name) / seconds;
  const path = (name) => rise(now.gets_by_path[name] || 0, old.gets_by_path[name] || 0);
  const onesided = path("one_sided") + path("index"), ways = waysOf(now);
  const memories = now.nodes.map((node) => node.memory).filter((memory) => memory);
  const held = (name) => sum(memories.map((memory) => memory[name]));
  const evicted = sum(now.nodes.map((node) => {
    const before = old.nodes.find((one) => one.name === node.name);
    return node.memory && before && before.memory ? rise(node.memory.evictions, before.memory.evictions) : 0;
  }));
  const all = latencies.reduce((sums, row) => row.counts.map((n, i) => n + (sums[i] || 0)), []);
  const tiles = [
    ["Requests/s", short(per("requests")), short(per("gets")) + " GETs, " + short(per("sets")) + " SETs"],
    ["Hit ratio", percent(of("get_hits"), of("gets")), short(rise(of("gets"), of("get_hits")) / seconds) + " misses/s"],
    !memories.length ? ["Memory", "–", "no node told"]
      : ["Memory", bytes(held("bytes")), "of " + bytes(held("memory_limit_bytes")) + ", " + short(held("items")) + " items"],
    ["Evictions/s", short(evicted / seconds), short(held("evictions")) + " since the start"],
  ];
  if (ways.has("one_sided") || ways.has("index"))
    tiles.splice(2, 0, ["GETs one-sided", percent(onesided, onesided + path("two_sided")), short(onesided / seconds) + "/s"]);
  if (now.latency)
    tiles.splice(tiles.length - 2, 0, ["p99", micro(quantile(all, now.latency_bounds_us, 0.99)), "receipt to reply"]);
  byId("tiles").replaceChildren(...tiles.map(([name, value, remark]) => {
    const tile = make("div", undefined, "tile"), cell = make("dd", value);
    cell.append(make("small", remark));
    tile.append(make("dt", name), cell);
    return tile;
  }));
  const more = [["Connections", now.connections + " of " + now.connections_limit]];
  if (now.received_bytes !== undefined && isFinite(seconds))
    more.push(["In", bytes(per("received_bytes")) + "/s"], ["Out", bytes(per("sent_bytes")) + "/s"]);
  if (ways.has("one_sided") && now.pointer_hits !== undefined)
    more.push(["Pointer hits", percent(of("pointer_hits"), of("pointer_hits") + of("pointer_misses") + of("pointer_expired"))]);
  if (ways.has("two_sided") && now.get_unavailable !== undefined) more.push(["Unanswered", unanswered(now, old).share]);
  if (now.slow_requests) more.push(["Slow requests", short(now.slow_requests)]);
  byId("more").replaceChildren(...more.map(([name, value]) => {
    const pair = make("div");
    pair.append(make("dt", name), make("dd", value));
    return pair;
  }));
}

// Counts of the last ten seconds by operation and path.
function recentLatencies(now, old) {
  return (now.latency || []).map((row) => {
    const before = (old.latency || []).find((one) => one.op === row.op && one.path === row.path) || { counts: [] };
    return { ...row, counts: row.counts.map((n, k) => rise(n, before.counts[k] || 0)) };
  });
}

const labelsOfPaths = { local: "mapped memory", one_sided: "one-sided", index: "index", two_sided: "two-sided" };
function showPaths(now, old, seconds, latencies) {
  const ways = waysOf(now), own = now.nodes.length === 1 && now.nodes[0].links === undefined;
  const embedded = own && now.program === "farcached";
  const measured = latencies.some((row) => row.count);
  let rows = latencies.map((row) => ({ ...row, n: sum(row.counts) }));
  if (!measured) {
    rows = Object.keys(now.gets_by_path)
      .map((path) => ({ op: "get", path, n: rise(now.gets_by_path[path], old.gets_by_path[path]) }));
    if (embedded) rows = [{ op: "get", path: "local", n: rise(now.gets, old.gets) }];
    rows.push({ op: "set", path: embedded ? "local" : "two_sided", n: rise(now.sets, old.sets) });
  }
  rows = rows.filter((row) => row.op !== "get" ? ways.has(row.path) : ways.has(row.path) || row.n);
  const all = sum(rows.map((row) => row.n));
  const labels = ["Path", "/s", "share"].concat(now.latency ? ["p50", "p99", "p99.9"] : []);
  head("paths-head", labels, { share: "share" });
  fill("paths", rows.map((row) => {
    const name = row.op.toUpperCase() + (embedded || row.op !== "get" ? "" : " " + labelsOfPaths[row.path]);
    const of = (share) => row.counts ? micro(quantile(row.counts, now.latency_bounds_us, share)) : "–";
    const cells = [name, short(row.n / seconds),
      { parts: [bar(row.n, all, percent(row.n, all), "share of " + name)], className: "share" }];
    return now.latency ? cells.concat([0.5, 0.99, 0.999].map(of)) : cells;
  }), labels, "none");
}

function memoryCell(node) {
  const memory = node.memory;
  if (!memory) return { parts: ["not told"], className: "memory soft" };
  const text = bytes(memory.bytes) + " of " + bytes(memory.memory_limit_bytes);
  return { parts: [bar(memory.bytes, memory.memory_limit_bytes, text, "memory of " + node.name)], className: "memory" };
}

function stateCell(node) {
  const parts = [make("span", node.state, node.state === "up" ? "good" : node.state === "down" ? "bad" : "wait")];
  if (node.state === "up" && node.links_up < node.links) parts.push(" " + node.links_up + " of " + node.links + " links");
  if (node.state === "down" && node.down_reason) parts.push(make("div", node.down_reason, "soft"));
  const box = make("div");
  box.append(...parts);
  return { parts: [box], className: "text" };
}

function nodeRow(node, old, seconds) {
  const before = old.nodes.find((one) => one.name === node.name) || node;
  const again = before.memory && node.memory && node.uptime_s >= before.uptime_s ? before : node;  // restarted: no difference
  const of = (name) => rise(node[name], again[name]);
  const memory = node.memory;
  const gone = node.state === "down" || !memory;
  const onesided = rise(node.gets_one_sided, before.gets_one_sided);
  const name = make("div", node.name);
  name.append(make("div", node.address, "soft"));
  return [{ parts: [name], className: "text" }, stateCell(node),
    node.state === "down" ? "–" : short(rise(node.requests, before.requests) / seconds),
    gone ? "–" : percent(of("get_hits"), of("gets")),
    node.ways.includes("one_sided") || node.ways.includes("index")
      ? percent(onesided, onesided + rise(node.gets_two_sided, before.gets_two_sided)) : null,
    memoryCell(node), memory ? short(memory.items) : "–",
    memory ? short(rise(memory.evictions, again.memory.evictions) / seconds) : "–",
    memory ? bytes(memory.lease_bytes) : "–", gone || node.uptime_s === null ? "–" : span(node.uptime_s)];
}

function showNodes(now, old, seconds) {
  let labels = ["Node", "State", "Requests/s", "Hits", "One-sided", "Memory", "Items", "Evictions/s", "Leased", "Up"];
  let rows = now.nodes.map((node) => nodeRow(node, old, seconds));
  const shown = labels.map((_, i) => i !== 4 || rows.some((row) => row[4] !== null));
  const leases = now.nodes.some((node) => node.ways.includes("one_sided"));
  const keep = (row) => row.filter((_, i) => shown[i] && (labels[i] !== "Leased" || leases))
    .map((cell) => cell === null ? "–" : cell);
  rows = rows.map(keep);
  labels = keep(labels);
  head("nodes-head", labels, { State: "text", Memory: "memory" });
  byId("h-nodes").textContent = now.nodes.length === 1 ? "Node" : "Nodes";
  byId("nodes-caption").textContent = now.nodes.some((node) => node.links !== undefined)
    ? "Requests of this farcached; hits also of GETs that others sent to the node; memory as the node reports it"
    : "Rates of the last ten seconds";
  fill("nodes", rows, labels, "no nodes");
}

function showReasons(now, old, seconds) {
  const before = (name, i) => (((old[name] || [])[i]) || { count: 0 }).count;
  const recent = (name) => (now[name] || []).map((row, i) => [row, rise(row.count, before(name, i))])
    .filter(([row]) => row.count).sort((a, b) => b[1] - a[1] || b[0].count - a[0].count);
  const label = (row, prefix) => {
    const name = make("abbr", words(row.reason.replace(prefix, "")));
    name.title = row.help;
    return { parts: [name], className: "text" };
  };
  const gets = rise(now.gets, old.gets);
  const fallbacks = recent("not_one_sided").concat(recent("not_lock_free"));
  fill("reasons", fallbacks.map(([row, n]) => [label(row, "local_"), short(n / seconds), percent(n, gets), short(row.count)]),
    ["Reason", "/s", "of GETs", "since the start"], "none since the start");
  const denials = recent("pointer_denials");
  fill("denials", denials.map(([row, n]) => [label(row, /^(lease_)?denied_/), short(n / seconds), short(row.count)]),
    ["Reason", "/s", "since the start"], "none since the start");
  byId("s-reasons").hidden = now.not_one_sided === undefined;
  byId("s-denials").hidden = !denials.length && !waysOf(now).has("one_sided");
}

// ---- charts -----------------------------------------------------------------------------------------

const SVG = byId("c-requests").namespaceURI;
function draw(parent, tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
}
// Steps of 1, 2 or 5 times a power of ten, at most `count` of them up to `most`.
function niceStep(most, count) {
  const power = 10 ** Math.floor(Math.log10(most / count));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step * count >= most);
}
// The points of one series over the whole time; null breaks the line.
function chart(id, series, history, unit, fixed) {
  const svg = byId(id), known = series.filter((n) => n !== null);
  if (id !== "c-requests") svg.parentElement.hidden = !known.length;
  const box = svg.getBoundingClientRect();
  if (!box.width) return;
  const left = 58, right = box.width - 2, top = 8, bottom = box.height - 20;
  const wanted = box.height > 140 ? 4 : 2, most = fixed || Math.max(1, ...known);
  const step = fixed ? fixed / wanted : niceStep(most, wanted), ceiling = fixed || Math.ceil(most / step) * step;
  const y = (n) => bottom - (bottom - top) * n / ceiling, x = (i) => left + (right - left) * i / (history.points_max - 1);
  svg.setAttribute("viewBox", "0 0 " + box.width + " " + box.height);
  svg.replaceChildren();
  for (let n = 0; n <= ceiling * 1.001; n += step) {
    draw(svg, "line", { class: "grid", x1: left, x2: right, y1: y(n), y2: y(n) });
    draw(svg, "text", { x: left - 6, y: y(n) + 4, "text-anchor": "end" }, unit(n));
  }
  const minutes = history.points_max * history.every_s / 60, stride = box.width > 500 ? 2 : 5;
  for (let back = minutes; back >= 0; back -= stride) {
    const at = right - (right - left) * back / minutes;
    draw(svg, "text", { x: at, y: box.height - 4, "text-anchor": back === 0 ? "end" : back === minutes ? "start" : "middle" },
      back ? "−" + back + " min" : "now");
  }
  const start = history.points_max - series.length;
  for (let i = 0; i < series.length; i++) {
    if (series[i] === null) continue;
    let end = i;
    while (end + 1 < series.length && series[end + 1] !== null) end++;
    const place = (at, height) => x(start + at).toFixed(1) + " " + height.toFixed(1);
    const line = series.slice(i, end + 1).map((n, k) => place(i + k, y(Math.min(n, ceiling)))).join("L");
    draw(svg, "path", { class: "area", d: "M" + line + "L" + place(end, bottom) + "L" + place(i, bottom) + "Z" });
    draw(svg, "path", { class: "stroke", d: "M" + line });
    i = end;
  }
  svg.setAttribute("aria-label", svg.previousElementSibling.textContent + ", ten minutes: now " +
    (known.length ? unit(known[known.length - 1]) + ", at most " + unit(Math.max(...known)) : "unknown"));
}
function drawCharts(history) {
  const hundred = (n) => Math.round(100 * n) + " %";
  byId("t-requests").textContent = "Requests per second";
  for (const [id, name] of [["c-hits", "hit_ratio"], ["c-onesided", "one_sided_share"], ["c-p99", "p99_us"]])
    byId(id).parentElement.hidden = !history[name].some((n) => n !== null);  // before any is measured
  chart("c-requests", history.requests_per_s, history, (n) => short(n) + "/s");
  chart("c-hits", history.hit_ratio, history, hundred, 1);
  chart("c-onesided", history.one_sided_share, history, hundred, 1);
  chart("c-p99", history.p99_us, history, micro);
}

// ---- the loop ---------------------------------------------------------------------------------------

async function fetched(path) {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(patienceMs) });
  if (!answer.ok) throw new Error("status " + answer.status);
  return answer.json();
}

function show(now, history) {
  const at = performance.now(), before = samples[samples.length - 1];
  if (before && ["pid", "started_unix"].some((name) => now[name] !== before.now[name])) samples.length = 0;
  samples.push({ now, at });
  while (samples.length > 2 && at - samples[0].at > windowMs + every / 2) samples.shift();
  const old = samples[0], seconds = samples.length < 2 ? NaN : Math.max(0.001, (at - old.at) / 1000);
  const latencies = recentLatencies(now, old.now);
  showHead(now, old.now);
  showTiles(now, old.now, seconds, latencies);
  showPaths(now, old.now, seconds, latencies);
  showNodes(now, old.now, seconds);
  showReasons(now, old.now, seconds);
  drawCharts(history);
}

function showSilence(error) {
  const since = answered ? " since " + clock(answered) : "";
  byId("state").textContent = "no answer" + since;
  byId("state").className = "state bad";
  document.body.classList.add("stale");
  document.title = "no answer" + since + " - " + byId("title").textContent;
  document.body.dataset.error = error.message;
}

async function look() {
  try {
    const told = await Promise.all([fetched("/status.json"), fetched("/history.json")]).catch(showSilence);
    if (!told) return;
    answered = new Date();
    document.body.classList.remove("stale");
    show(...told);
    document.body.dataset.looks = String(Number(document.body.dataset.looks || 0) + 1);
  } finally {
    if (!paused) timer = setTimeout(look, samples.length < 2 ? first : every);
  }
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").textContent = paused ? "Go on" : "Pause";
  byId("pause").setAttribute("aria-pressed", String(paused));
  clearTimeout(timer);
  if (paused) return;
  samples.length = 0; // rates are those after the pause
  look();
});
look();
