"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { facts, missteps, sessions, left } = data;
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE = 25;

  /* -- building: text is only ever set as text -------------------------------------------------- */
  const add = (node, children) => {
    for (const child of children.flat(4)) if (child !== null && child !== undefined && child !== false) node.append(child);
    return node;
  };
  function el(tag, props, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(props || {})) {
      if (key === "class") node.className = value;
      else if (key === "on") for (const [name, act] of Object.entries(value)) node.addEventListener(name, act);
      else if (value === true) node.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
    }
    return add(node, children.map((c) => (typeof c === "number" ? String(c) : c)));
  }
  function svg(tag, props, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(props || {})) node.setAttribute(key, value);
    return add(node, children);
  }
  const num = (n) => n.toLocaleString("en-US");
  const many = (n, one, more) => `${num(n)} ${n === 1 ? one : more || one + "s"}`;
  function percent(part) {
    if (!isFinite(part)) return "–";
    const value = part * 100;
    if (value > 0 && value < 0.95) return value < 0.05 ? "<0.1%" : value.toFixed(1) + "%";
    return Math.round(value) + "%";
  }
  const iso = (t) => (typeof t !== "number" || !(Math.abs(t) < 8.6e12) ? "" : new Date(t * 1000).toISOString());
  const day = (t) => iso(t).slice(0, 10);
  const clock = (t) => iso(t).slice(0, 19).replace("T", " ");
  const agentName = (name) => facts.agents[name] || name || "unnamed agent";

  /* -- filters ---------------------------------------------------------------------------------- */
  const OUTCOMES = { passed: "passed", failed: "failed", unknown: "not recorded" };
  const outcomeOf = (s) => (s.passed === true ? "passed" : s.passed === false ? "failed" : "unknown");
  const filter = { q: "", misstep: "", agent: "", outcome: "", from: "", to: "" };
  const opened = new Set();
  const shown = new Map();

  for (const s of sessions) {
    s.found = s.found || [];
    s.about = [s.title, s.id, s.path, s.model, s.task, agentName(s.agent)].join("\n").toLowerCase();
    for (const o of s.found) o.text = (o.command + "\n" + o.why).toLowerCase();
  }

  /* Agent, outcome and dates choose the sessions that are looked at: they are the denominators. A misstep and a search
     only choose among what was found in them, and change no denominator. */
  function chosen() {
    const q = filter.q.trim().toLowerCase();
    const from = filter.from ? Date.parse(filter.from + "T00:00:00Z") / 1000 : null;
    const to = filter.to ? Date.parse(filter.to + "T00:00:00Z") / 1000 + 86400 : null;
    const wanted = filter.misstep === "" ? null : Number(filter.misstep);
    const fits = (s) => !((filter.agent && s.agent !== filter.agent) || (filter.outcome && outcomeOf(s) !== filter.outcome)
      || (from !== null && (s.end === null || s.end < from)) || (to !== null && (s.start === null || s.start >= to)));
    const base = sessions.filter(fits);
    const groups = left.groups.filter(fits);
    const kept = [];
    for (const s of base) {
      const about = !q || s.about.includes(q);
      const found = s.found.filter((o) => (wanted === null || o.m === wanted) && (about || o.text.includes(q)));
      const times = (m) => (wanted !== null && m !== wanted ? 0 : about ? (s.counts[m] || [0, 0])[1] : found.filter((o) => o.m === m).length);
      if (wanted !== null ? !times(wanted) : !about && !found.length) continue;
      kept.push({ s, found, times, all: missteps.reduce((n, m, i) => n + times(i), 0) });
    }
    const sum = (key) => [...base, ...groups].reduce((n, s) => n + key(s), 0);
    return { base, groups, kept, q, wanted, total: sum((s) => s.n || 1), steps: sum((s) => s.steps) };
  }

  function tally(view) {
    const sums = missteps.map((m, i) => ({ i, m, sessions: 0, times: 0, chances: 0, scope: 0, agents: new Map(), occ: [] }));
    for (const s of [...view.base, ...view.groups]) {
      for (const [key, [right, wrong]] of Object.entries(s.counts)) sums[key].chances += right + wrong;
      for (const [key, n] of Object.entries(s.n ? s.scope : Object.fromEntries(s.scope.map((m) => [m, 1])))) sums[key].scope += n;
    }
    for (const { s, found, times } of view.kept) {
      for (const sum of sums) {
        const n = times(sum.i);
        if (!n) continue;
        sum.sessions += 1;
        sum.times += n;
        sum.agents.set(s.agent, (sum.agents.get(s.agent) || 0) + 1);
      }
      for (const o of found) sums[o.m].occ.push({ s, o });
    }
    return sums;
  }

  /* -- steps in context ------------------------------------------------------------------------- */
  const WHO = { user: "person", agent: "agent", system: "system" };
  function stepNode(s, number, view, marks) {
    const flags = ["interrupted", "compacted", "copied"].filter((f) => view[f]);
    const node = el("div", { class: `step ${view.who}${marks.length ? " wrong" : ""}`, "data-step": number },
      el("div", { class: "lead" }, el("b", {}, `step ${number}`), el("span", {}, WHO[view.who] || view.who),
        el("span", {}, clock(view.time)), flags.length ? el("span", {}, flags.join(", ")) : null));
    for (const o of marks) {
      node.append(el("div", { class: "verdict" }, `✗ The agent ${missteps[o.m].name}`, el("small", {}, o.why,
        o.also && o.also.length ? ` (see also step ${o.also.join(", ")})` : "")));
    }
    if (view.text) node.append(el("div", { class: "said" }, view.text));
    (view.calls || []).forEach((call, at) => {
      const wrong = marks.some((o) => o.call === at);
      node.append(el("pre", { class: "do" + (wrong ? " wrong" : ""), "data-lead": call.shell ? "$" : call.tool }, call.text));
      if (call.output) node.append(el("pre", { class: "back", tabindex: call.output.length > 900 ? "0" : null }, call.output));
      const notes = [];
      if (call.missing) notes.push("no result recorded");
      if (call.fault) notes.push(call.fault);
      else if (call.exit_code !== undefined && call.exit_code !== 0) notes.push(`exit ${call.exit_code}`);
      else if (call.exit_code === undefined && call.failed) notes.push("failed");
      if (call.truncated) notes.push("output cut by the harness");
      if (call.running) notes.push("still running");
      if (call.background) notes.push("in the background");
      if (notes.length) node.append(el("div", { class: "code" + (call.failed ? " bad" : "") }, notes.join(", ")));
    });
    if (view.more) node.append(el("div", { class: "code" }, `and ${many(view.more, "more call")}`));
    return node;
  }
  function stepsOf(s, numbers) {
    const nodes = [];
    let last = null;
    for (const n of numbers) {
      if (last !== null && n > last + 1) nodes.push(el("div", { class: "gap" }, `${many(n - last - 1, "step")} not shown`));
      const view = s.context[n];
      nodes.push(stepNode(s, n, view, s.found.filter((o) => o.step === n)));
      last = n;
    }
    return nodes;
  }
  function around(s, o) {
    if (!s.context) return [];
    const near = new Set(o.also || []);
    for (let n = o.step - 3; n <= o.step + 2; n++) near.add(n);
    return [...near].filter((n) => s.context[n]).sort((a, b) => a - b);
  }
  function contextOf(s, o) {
    const numbers = around(s, o);
    return el("div", { class: "steps" },
      el("div", { class: "tools" }, el("code", {}, `misstep show ${s.ref}#${o.step}`),
        el("button", { type: "button", on: { click: () => openSession(s, o.step) } }, "More of this session")),
      numbers.length ? stepsOf(s, numbers) : el("div", { class: "gap" }, "The steps around it are not kept in this page: the command above shows them."));
  }

  function strip(s, jump, found = s.found) {
    const node = svg("svg", { class: "strip", viewBox: "0 0 1000 18", preserveAspectRatio: "none", role: "img" });
    const title = svg("title");
    title.textContent = `${many(s.length, "step")}, ${many(found.length, "misstep")}`;
    add(node, [title, svg("rect", { class: "base", x: 0, y: 6, width: 1000, height: 6, rx: 3 })]);
    const wide = Math.max(4, Math.min(12, 1000 / Math.max(1, s.length)));
    const x = (n) => (s.length > 1 ? (n / (s.length - 1)) * (1000 - wide) : 0);
    for (const n of new Set(s.fired)) node.append(svg("rect", { class: "fire", x: x(n), y: 4, width: wide, height: 10, rx: 1 }));
    for (const n of new Set(found.map((o) => o.step))) {
      const tick = svg("rect", { class: "tick", x: x(n), y: 0, width: wide, height: 18, rx: 1 });
      if (jump) tick.addEventListener("click", () => jump(n));
      node.append(tick);
    }
    return node;
  }

  /* -- missteps --------------------------------------------------------------------------------- */
  function bar(part, text) {
    const width = Math.max(part > 0 ? 1.5 : 0, part * 100);
    return el("span", { class: "bar" },
      svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect", { class: "track", x: 0, y: 0, width: 100, height: 8, rx: 1 }),
        svg("rect", { class: "part", x: 0, y: 0, width, height: 8, rx: 1 })),
      el("span", {}, el("b", {}, percent(part)), el("small", {}, text)));
  }
  function whisker(found) {
    const reach = Math.max(0.05, Math.abs(found.low), Math.abs(found.high), Math.abs(found.difference));
    const x = (v) => 150 + (v / reach) * 138;
    return svg("svg", { class: "whisker", viewBox: "0 0 300 26", "aria-hidden": "true" },
      svg("line", { class: "axis", x1: 6, x2: 294, y1: 13, y2: 13 }),
      svg("line", { class: "zero", x1: 150, x2: 150, y1: 2, y2: 24 }),
      svg("line", { class: "range", x1: x(found.low), x2: x(found.high), y1: 13, y2: 13 }),
      svg("circle", { class: "dot", cx: x(found.difference), cy: 13, r: 5 }));
  }
  function about(sum) {
    const { m } = sum;
    const node = el("div", { class: "about" });
    const [first, ...rest] = m.doc.sections;
    const section = ([heading, paragraphs]) => el("div", {}, el("h3", {}, heading), paragraphs.map((p) => el("p", {}, p.replaceAll("`", ""))));
    if (first) node.append(section(first));
    if (facts.outcomes.passed || facts.outcomes.failed) {
      const o = m.outcome;
      node.append(el("div", {}, el("h3", {}, "Pass rate with it, against without it"),
        o.available ? whisker(o) : null,
        el("p", {}, o.available ? o.text : `Not available: ${o.text}.`),
        el("table", { class: "split" }, ...[["with it", o.with], ["without it", o.without]].map(([name, [a, b]]) =>
          el("tr", {}, el("td", {}, name), el("td", {}, b ? `${a} of ${b} passed` : "–")))),
        o.available ? el("p", {}, "Attempts at the same tasks, over all sessions. An association, not an effect.") : null));
    }
    if (sum.agents.size && Object.keys(facts.agents).length > 1) {
      node.append(el("div", {}, el("h3", {}, "Sessions by agent"), el("table", { class: "split" },
        [...sum.agents].sort((a, b) => b[1] - a[1]).map(([name, n]) => el("tr", {}, el("td", {}, agentName(name)), el("td", {}, num(n)))))));
    }
    for (const p of m.doc.policies) {
      node.append(el("div", {}, el("h3", {}, `Policy ${p.id} (${p.action})`), el("blockquote", {}, p.text)));
    }
    if (rest.length) node.append(el("details", {}, el("summary", {}, "How it is told, and what it misses"), rest.map(section)));
    return node;
  }
  function occurrences(sum) {
    const box = el("div", {});
    const limit = shown.get(sum.m.id) || PAGE;
    box.append(el("h3", {}, many(sum.times, "occurrence")));
    for (const { s, o } of sum.occ.slice(0, limit)) box.append(occurrence(s, o));
    const more = sum.occ.length - limit;
    if (more > 0) box.append(el("button", { type: "button", class: "plain more", on: { click: () => { shown.set(sum.m.id, limit + 4 * PAGE); render(); } } }, `Show ${num(Math.min(more, 4 * PAGE))} more`));
    if (sum.times > sum.occ.length) box.append(el("p", { class: "empty" }, `${num(sum.times - sum.occ.length)} more in sessions that repeat it very often are counted, not listed.`));
    return box;
  }
  function occurrence(s, o) {
    const node = el("div", { class: "occ" });
    const button = el("button", { type: "button", "aria-expanded": "false" },
      el("span", { class: "cmd" }, (o.command || o.why).replace(/\s+/g, " ")),
      el("span", { class: "where" }, `${s.ref.length > 28 ? "…" + s.ref.slice(-26) : s.ref}#${o.step}`),
      el("span", { class: "chev", "aria-hidden": "true" }, "›"),
      o.command ? el("span", { class: "why" }, o.why) : null);
    let body = null;
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") !== "true";
      button.setAttribute("aria-expanded", String(open));
      if (open && !body) node.append((body = contextOf(s, o)));
      else if (body) body.hidden = !open;
      const at = open && body.querySelector(`[data-step="${o.step}"]`);
      if (at) at.scrollIntoView({ block: "nearest" });
    });
    return add(node, [button]);
  }
  function misstepItem(sum, total, steps) {
    const { m } = sum;
    const base = m.scoped ? sum.scope : total;
    const { chances } = sum;
    const open = opened.has(m.id) && sum.times > 0;
    const node = el("article", { class: `item${open ? " open" : ""}${sum.times ? "" : " none"}`, id: `m-${m.id}` });
    const row = el("button", { type: "button", class: "row", "aria-expanded": String(open), disabled: !sum.times },
      el("span", { class: "name" }, m.name),
      el("span", { class: "id" }, el("span", { class: "mono" }, m.id), m.status === "preview" ? el("span", { class: "tag" }, "preview") : null),
      bar(base ? sum.sessions / base : 0, `${num(sum.sessions)} of ${num(base)}${m.scoped ? " in scope" : ""}`),
      el("span", { class: "num times" }, el("b", {}, num(sum.times) + "×"), el("small", {}, `${percent(steps ? sum.times / steps : 0)} of steps`)),
      el("span", { class: "num rate" }, el("b", {}, chances ? percent(sum.times / chances) : "–"), el("small", {}, "of chances")),
      el("span", { class: "chev", "aria-hidden": "true" }, "›"));
    node.append(row);
    if (open) node.append(el("div", { class: "detail" }, about(sum), occurrences(sum)));
    row.addEventListener("click", () => {
      if (opened.has(m.id)) opened.delete(m.id);
      else opened.add(m.id);
      render();
      const again = document.querySelector(`#m-${CSS.escape(m.id)} > .row`);
      if (again) again.focus({ preventScroll: true });
    });
    return node;
  }

  /* -- sessions --------------------------------------------------------------------------------- */
  let sessionLimit = 100;
  function sessionTable(view) {
    const rows = [...view.kept].sort((a, b) => b.all - a.all || (b.s.end || 0) - (a.s.end || 0));
    const body = el("tbody", {});
    for (const { s, found, all } of rows.slice(0, sessionLimit)) {
      const outcome = outcomeOf(s);
      body.append(el("tr", { on: { click: () => { if (!String(getSelection())) openSession(s); } } },
        el("td", { class: "t" }, el("button", { type: "button" }, s.title || s.id || s.path),
          el("small", {}, [agentName(s.agent), s.model, s.task].filter(Boolean).join(" · "))),
        el("td", { class: "wide at" }, strip(s, null, found)),
        el("td", { class: "r" }, num(all)),
        el("td", { class: "r wide" }, num(s.steps)),
        el("td", { class: "d" }, day(s.end), outcome === "unknown" ? null : el("span", { class: "tag " + (outcome === "passed" ? "good" : "hot") }, outcome))));
    }
    const node = [el("table", { class: "sessions" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Session"), el("th", { scope: "col", class: "wide" }, "Where in it"), el("th", { scope: "col", class: "r" }, "Missteps"),
        el("th", { scope: "col", class: "r wide" }, "Agent steps"), el("th", { scope: "col" }, "Date"))), body)];
    if (rows.length > sessionLimit) node.push(el("button", { type: "button", class: "plain more", on: { click: () => { sessionLimit += 400; render(); } } }, `Show ${num(Math.min(400, rows.length - sessionLimit))} more`));
    if (left.rows) node.push(el("p", { class: "empty" }, `${many(left.rows, "session")} without a misstep did not fit into this page.`));
    return rows.length ? node : [el("p", { class: "empty" }, "No session fits the filters.")];
  }
  function openSession(s, step) {
    const box = $("session");
    const body = el("div", { class: "body" });
    const jump = (n) => { const at = body.querySelector(`[data-step="${n}"]`); if (at) at.scrollIntoView({ block: "start" }); };
    const numbers = s.context ? Object.keys(s.context).map(Number).sort((a, b) => a - b) : [];
    if (numbers.length) {
      if (numbers[0] > 0) body.append(el("div", { class: "gap" }, `${many(numbers[0], "step")} not shown`));
      add(body, [stepsOf(s, numbers)]);
      const rest = s.length - 1 - numbers[numbers.length - 1];
      if (rest > 0) body.append(el("div", { class: "gap" }, `${many(rest, "step")} not shown`));
    } else body.append(el("div", { class: "gap" }, s.found.length ? "Its steps are not kept in this page: the command above shows them." : "No misstep in this session."));
    const close = el("button", { type: "button", class: "plain", on: { click: () => box.close() } }, "Close");
    box.replaceChildren(el("header", {},
      el("div", { class: "line" }, el("h2", { id: "session-title" }, s.title || s.id || s.path), close),
      el("p", {}, [agentName(s.agent), s.model, `${many(s.steps, "agent step")} of ${many(s.length, "step")}`, day(s.end), s.task, s.passed === true ? "passed" : s.passed === false ? "failed" : ""].filter(Boolean).join(" · ")),
      el("p", { class: "mono" }, `misstep show ${s.ref}${step === undefined ? "" : "#" + step}`),
      el("p", { class: "mono" }, s.path),
      numbers.length ? el("p", { class: "part" }, numbers.length < s.length ? `This page keeps ${num(numbers.length)} of its ${many(s.length, "step")}: those around its missteps. The command above shows all.` : "All of its steps.") : null,
      strip(s, jump)), body);
    box.showModal();
    close.focus();
    if (step !== undefined) jump(step);
  }
  $("session").addEventListener("click", (event) => { if (event.target === $("session")) $("session").close(); });

  /* -- policies and the rest -------------------------------------------------------------------- */
  const unfiltered = () => el("p", { class: "note" }, "Of the whole scan: the filters do not apply here.");
  function policies() {
    if (!facts.policies.length) return [el("p", { class: "empty" }, "No policy would have stepped in.")];
    const text = new Map(missteps.flatMap((m) => m.doc.policies.map((p) => [p.id, p.text])));
    return [unfiltered(), el("table", { class: "plain-table policies" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Policy"), el("th", { scope: "col" }, "What the agent would have been told"), el("th", { scope: "col" }, "Times"), el("th", { scope: "col" }, "Sessions"))),
      el("tbody", {}, facts.policies.map((p) => el("tr", {}, el("td", {}, el("code", {}, p.id), el("span", { class: "tag" }, p.action)),
        el("td", {}, el("p", {}, text.get(p.id) || "")), el("td", { "data-label": p.times === 1 ? "time" : "times" }, num(p.times)), el("td", { "data-label": p.sessions === 1 ? "session" : "sessions" }, num(p.sessions))))))];
  }
  function rest() {
    if (!facts.left_out.length) return [el("p", { class: "empty" }, "Everything that was found was counted.")];
    return [unfiltered(), el("table", { class: "plain-table" }, el("tbody", {}, facts.left_out.map(([n, why]) => el("tr", {}, el("td", {}, n), el("td", {}, why)))))];
  }

  /* -- drawing ---------------------------------------------------------------------------------- */
  function render() {
    const view = chosen();
    const sums = tally(view);
    const list = sums.filter((s) => view.wanted === null || s.i === view.wanted)
      .sort((a, b) => b.sessions - a.sessions || b.times - a.times || (a.m.id < b.m.id ? -1 : 1));
    const times = list.reduce((n, s) => n + s.times, 0);
    $("view-missteps").replaceChildren(...(list.length ? [
      el("div", { class: "heads", "aria-hidden": "true" }, el("span", {}, "The agent …"), el("span", {}, "Share of sessions"), el("span", {}, ""), el("span", {}, ""), el("span", {}, "")),
      el("div", { class: "list" }, list.map((s) => misstepItem(s, view.total, view.steps)))] : [el("p", { class: "empty" }, "No misstep is stable yet: scan with --preview.")]));
    $("view-sessions").replaceChildren(...sessionTable(view));
    $("status").textContent = `${many(times, "occurrence")} in ${num(view.kept.filter((k) => k.all).length)} of ${many(view.total, "session")}`;
    label("tab-missteps", list.filter((s) => s.times).length);
    label("tab-sessions", view.kept.length);
    label("tab-policies", facts.policies.length);
    label("tab-rest", facts.left_out.length);
    keep();
  }
  function label(id, n) {
    const tab = $(id);
    const old = tab.querySelector(".n");
    if (old) old.remove();
    tab.append(el("span", { class: "n" }, num(n)));
  }
  function fact(name, value, note) {
    $("facts").append(el("div", {}, el("dt", {}, name), el("dd", {}, value, note ? el("small", {}, " " + note) : null)));
  }
  const TABS = ["missteps", "sessions", "policies", "rest"];
  function choose(name, focus) {
    for (const one of TABS) {
      const on = one === name;
      $("tab-" + one).setAttribute("aria-selected", String(on));
      $("tab-" + one).tabIndex = on ? 0 : -1;
      $("view-" + one).hidden = !on;
    }
    if (focus) $("tab-" + name).focus();
    keep();
  }
  TABS.forEach((name, at) => {
    $("tab-" + name).addEventListener("click", () => choose(name));
    $("tab-" + name).addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (move) { event.preventDefault(); choose(TABS[(at + move + TABS.length) % TABS.length], true); }
    });
  });

  function options(select, pairs) { select.replaceChildren(...pairs.map(([value, text]) => el("option", { value }, text))); }
  const seen = (key) => new Set(sessions.map(key));
  options($("f-misstep"), [["", "all"], ...missteps.map((m, i) => [i, m.id])]);
  options($("f-agent"), [["", "all"], ...[...seen((s) => s.agent)].sort().map((a) => [a, agentName(a)])]);
  options($("f-outcome"), [["", "all"], ...Object.keys(OUTCOMES).filter((o) => seen(outcomeOf).has(o)).map((o) => [o, OUTCOMES[o]])]);
  const inputs = { q: "q", misstep: "f-misstep", agent: "f-agent", outcome: "f-outcome", from: "f-from", to: "f-to" };
  let waiting = 0;
  for (const [key, id] of Object.entries(inputs)) {
    $(id).addEventListener("input", () => {
      filter[key] = $(id).value;
      if (key === "misstep" && filter.misstep !== "") opened.add(missteps[Number(filter.misstep)].id);
      clearTimeout(waiting);
      waiting = setTimeout(render, key === "q" ? 120 : 0);
    });
  }
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("reset", () => { for (const key of Object.keys(filter)) filter[key] = ""; setTimeout(render); });

  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = (name) => root.setAttribute("data-theme", name);
  theme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
  $("theme").addEventListener("click", () => theme(root.getAttribute("data-theme") === "dark" ? "light" : "dark"));

  fact("sessions", num(facts.sessions), facts.subagents ? `${num(facts.subagents)} of them of sub-agents` : "");
  fact("agent steps", num(facts.steps));
  fact("calls", num(facts.calls));
  const byAgent = new Map();
  for (const s of sessions) byAgent.set(s.agent, (byAgent.get(s.agent) || 0) + 1);
  $("agents").textContent = [...byAgent].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([name, n]) => `${agentName(name)} ${num(n)}`).join(" · ");
  $("view-policies").replaceChildren(...policies());
  $("view-rest").replaceChildren(...rest());

  /* -- the address keeps what is looked at ------------------------------------------------------- */
  function keep() {
    const kept = new URLSearchParams();
    for (const key of Object.keys(filter)) if (filter[key] !== "") kept.set(key, key === "misstep" ? missteps[Number(filter.misstep)].id : filter[key]);
    const tab = TABS.find((one) => !$("view-" + one).hidden);
    if (tab !== TABS[0]) kept.set("tab", tab);
    if (opened.size) kept.set("open", [...opened].join(","));
    const text = kept.toString();
    if (text === location.hash.slice(1)) return;
    try { history.replaceState(null, "", "#" + text); } catch { /* a page in a frame may not: it works without */ }
  }
  function restore() {
    const text = location.hash.slice(1);
    const linked = missteps.find((m) => m.id === text);
    const kept = new URLSearchParams(linked ? "open=" + text : text);
    for (const [key, id] of Object.entries(inputs)) {
      let value = kept.get(key) || "";
      if (key === "misstep" && value) value = String(missteps.findIndex((m) => m.id === value));
      if ($(id).type === "date" && !/^\d{4}-\d\d-\d\d$/.test(value)) value = "";
      $(id).value = value;
      if ($(id).value !== value) $(id).value = "";
      filter[key] = $(id).value;
    }
    opened.clear();
    for (const id of (kept.get("open") || "").split(",")) if (missteps.some((m) => m.id === id)) opened.add(id);
    choose(TABS.includes(kept.get("tab")) ? kept.get("tab") : TABS[0]);
    render();
    if (linked) document.getElementById(`m-${linked.id}`).scrollIntoView();
  }
  window.addEventListener("hashchange", restore);
  restore();
})();
