"use strict";
// All text is set through textContent: names of models are untrusted.
const facts = JSON.parse(document.getElementById("facts").textContent);
const SVG = "http://www.w3.org/2000/svg";
const zoos = [...new Set(facts.architectures.flatMap(row => row.networks.map(one => one.zoo)))].sort();
const section = id => document.getElementById(id);
const SEVERITIES = ["high", "medium", "low", "info"];

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  for (const child of children) element.append(child instanceof Node ? child : document.createTextNode(child));
  return element;
}

function draw(tag, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

const tip = make("div", { id: "tip", hidden: "" });
document.body.append(tip);
function tipped(element, text) {
  element.append(draw("title", {}, text));
  element.addEventListener("mousemove", event => {
    tip.textContent = text; tip.hidden = false;
    tip.style.left = Math.min(event.clientX + 12, innerWidth - 280) + "px"; tip.style.top = event.clientY + 14 + "px";
  });
  element.addEventListener("mouseleave", () => { tip.hidden = true; });
  return element;
}

const whole = value => value === null ? "–" : Math.round(value).toLocaleString("en-GB");
const giga = value => value === null ? "–" : (value / 1e9).toFixed(value < 1e9 ? 3 : 2) + " G";
const fixed = (value, digits, unit = "") => value === null ? "–" : value.toFixed(digits) + unit;
const letter = group => group === null ? "?" : String.fromCharCode(65 + group % 26) + (group > 25 ? Math.floor(group / 26) : "");

// --- tables that sort by any column and open rows

function table(columns, rows, { open = null, sorted = null } = {}) {
  const body = make("tbody");
  const heads = columns.map((column, index) => make("th", { class: column.number ? "number" : "", "aria-sort": "none" },
    make("button", { onclick: () => sort(index) }, column.name)));
  const order = { index: -1, down: false };
  function sort(index, down = null) {
    order.down = down ?? (order.index === index ? !order.down : Boolean(columns[index].number));
    order.index = index;
    heads.forEach((head, at) => head.setAttribute("aria-sort", at !== index ? "none" : order.down ? "descending" : "ascending"));
    const key = columns[index].key;
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const ascending = typeof x === "number" ? x - y : String(x).localeCompare(String(y));
      return order.down ? -ascending : ascending;
    });
    fill();
  }
  function fill() {
    body.replaceChildren(...rows.map(row => {
      const cells = columns.map(column => {
        const shown = (column.show ?? column.key)(row);
        return make("td", { class: column.number ? "number" : "" }, shown instanceof Node ? shown : String(shown ?? "–"));
      });
      const line = make("tr", open ? { class: "opens", tabindex: "0", "aria-expanded": "false" } : {}, ...cells);
      if (open) {
        const toggle = () => {
          const next = line.nextSibling;
          if (next && next.className === "inside") { next.remove(); line.setAttribute("aria-expanded", "false"); return; }
          line.after(make("tr", { class: "inside" }, make("td", { colspan: columns.length }, open(row))));
          line.setAttribute("aria-expanded", "true");
        };
        line.addEventListener("click", toggle);
        line.addEventListener("keydown", event => { if (event.key === "Enter") toggle(); });
      }
      return line;
    }));
  }
  if (sorted !== null) sort(sorted, Boolean(columns[sorted].number)); else fill();
  return make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
}

const list = lines => make("ul", {}, ...lines.map(line => make("li", {}, line)));
const badge = severity => make("span", { class: "badge " + severity }, severity);

// --- head

const shared = facts.architectures.filter(row => new Set(row.networks.filter(one => one.macs !== null).map(one => one.zoo)).size > 1);
for (const part of document.querySelectorAll("main section")) {
  document.getElementById("contents").append(make("a", { href: "#" + part.id }, part.querySelector("h2").textContent));
}

// --- charts with several views, of which one is shown

for (const place of document.querySelectorAll(".switch")) {
  const views = [...place.parentElement.querySelectorAll("figure")], buttons = [...place.querySelectorAll("button")];
  const press = chosen => {
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === chosen)));
    views.forEach((view, at) => { view.hidden = at !== chosen; });
  };
  buttons.forEach((button, at) => button.addEventListener("click", () => press(at)));
  press(0);
}

// --- tables

section("ranks").querySelector(".table").append(table([
  { name: "zoo", key: row => row.zoo }, { name: "shared architectures with a claim", key: row => row.offered, number: true },
  { name: "highest", key: row => row.highest, number: true }, { name: "lowest", key: row => row.lowest, number: true },
], facts.ranks, { sorted: 1 }));

function choice(name, values) {
  return make("select", { "aria-label": name }, make("option", { value: "" }, name + ": all"), ...values.map(value => make("option", { value }, value)));
}

const byId = new Map(facts.findings.map(one => [one.id, one]));
const names = new Map(facts.architectures.map(row => [row.id, row.name]));
const detail = one => make("div", { class: "finding" }, make("b", {}, one.title), list(one.evidence),
  make("p", {}, make("b", {}, "What to do: "), one.fix), make("p", { class: "fine" }, make("code", {}, one.id), " · " + one.models.join(", ")));

function findings() {
  const severity = choice("severity", SEVERITIES), zoo = choice("zoo", zoos);
  const rule = choice("kind", [...new Set(facts.findings.map(one => one.rule))].sort());
  const words = make("input", { type: "search", placeholder: "search", "aria-label": "search findings" });
  const place = section("findings").querySelector(".table"), told = make("span", { class: "fine" });
  const more = make("button", { class: "more" });
  let all = false;
  function wanted() {
    const text = words.value.toLowerCase();
    return new Set(facts.findings.filter(one => (!severity.value || one.severity === severity.value) &&
      (!zoo.value || one.models.some(ref => ref.startsWith(zoo.value + ":"))) && (!rule.value || one.rule === rule.value) &&
      (!text || JSON.stringify([one, names.get(one.architecture)]).toLowerCase().includes(text))).map(one => one.id));
  }
  function show() {
    const kept = wanted();
    const rows = facts.causes.map(cause => ({ ...cause, findings: cause.findings.filter(id => kept.has(id)) })).filter(cause => cause.findings.length);
    told.textContent = `${kept.size} of ${facts.findings.length} findings, ${rows.length} of ${facts.causes.length} causes`;
    const shown = all ? rows : rows.slice(0, 15);
    more.hidden = shown.length === rows.length;
    more.textContent = `Show ${rows.length - shown.length} more causes`;
    place.replaceChildren(table([
      { name: "severity", key: one => SEVERITIES.indexOf(one.severity), show: one => badge(one.severity) },
      { name: "family", key: one => one.family }, { name: "cause", key: one => one.rule },
      { name: "in", key: one => one.zoos.join(" "), show: one => one.zoos.join(", ") },
      { name: "findings", key: one => one.findings.length, number: true },
      { name: "such as", key: one => one.title, show: one => byId.get(one.findings[0]).title },
    ], shown, { open: one => make("div", {}, ...one.findings.map(id => detail(byId.get(id)))) }), more);
  }
  more.addEventListener("click", () => { all = true; show(); });
  for (const control of [severity, zoo, rule]) control.addEventListener("change", show);
  words.addEventListener("input", show);
  section("findings").querySelector(".filters").append(severity, zoo, rule, words, told);
  show();
  return text => {
    for (const control of [severity, zoo, rule]) control.value = "";
    words.value = text; all = true; show();
    section("findings").scrollIntoView();
  };
}
const lookUp = findings();

function grid() {
  const place = section("grid").querySelector(".chart");
  const families = new Map();
  for (const row of shared) families.set(row.family, [...(families.get(row.family) ?? []), row]);
  const lines = [...families].flatMap(([family, rows]) => [{ family }, ...rows.map(row => ({ row }))]);
  if (!lines.length) { section("grid").hidden = true; return; }
  const gravest = new Map();
  for (const one of facts.findings) {  // they come gravest first
    const about = !["counting", "shortcuts"].includes(one.rule.split("/")[0]) && one.rule !== "claims/accuracy spread";  // these are about all zoos
    if (one.models.length && about && !gravest.has(one.models[0])) gravest.set(one.models[0], one);
  }
  const [name, cell, step, gap, head] = [175, 25, 19, 28, 70];
  const blocks = lines.length > 24 ? (lines.length > 60 ? 3 : 2) : 1;
  const parts = split(lines, blocks);
  const wide = name + zoos.length * cell + gap;
  const chart = draw("svg", { width: wide * parts.length, height: Math.max(...parts.map(one => one.length)) * step + head + 6, role: "img", "aria-label": "architectures by zoo" });
  parts.forEach((part, block) => {
    const left = block * wide;
    zoos.forEach((zoo, at) => chart.append(draw("text", { x: 0, y: 0, class: "dim", transform: `translate(${left + name + at * cell + 15},${head - 8}) rotate(-55)` }, zoo)));
    part.forEach((line, at) => {
      const y = head + at * step;
      if (line.family !== undefined) { chart.append(draw("text", { x: left, y: y + 14, class: "family" }, line.family)); return; }
      chart.append(fitted(draw("text", { x: left + name - 6, y: y + 13, "text-anchor": "end" }, line.row.name), line.row.name, 27));
      zoos.forEach((zoo, column) => {
        const networks = line.row.networks.filter(one => one.zoo === zoo);
        const x = left + name + column * cell;
        if (!networks.length) { chart.append(draw("rect", { x: x + 1, y: y + 1, width: cell - 2, height: step - 2, class: "none", rx: 3 })); return; }
        const known = networks.find(one => one.macs !== null) ?? networks[0];
        const found = networks.flatMap(one => one.models).map(ref => gravest.get(ref)).filter(Boolean)
          .sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity))[0];
        const kind = known.macs === null ? "unknown" : found ? found.severity : "fine";
        const letters = [...new Set(networks.filter(one => one.group !== null).map(one => letter(one.group)))].sort().join("");
        const said = `${line.row.name} in ${zoo}: ${known.name}, ` + (known.macs === null ? known.error ?? "its structure is not known"
          : `${giga(known.macs)} multiply-accumulates${known.size ? " at " + known.size.join("×") : ""}`) + (found ? `. ${found.severity}: ${found.title}` : "");
        const place = draw("g", { class: "place " + kind, tabindex: found ? "0" : "-1" });
        place.append(draw("rect", { x: x + 1, y: y + 1, width: cell - 2, height: step - 2, rx: 3 }),
          draw("text", { x: x + cell / 2, y: y + 13.5, "text-anchor": "middle" }, letters || "?"));
        if (found) {
          place.addEventListener("click", () => lookUp(line.row.name));
          place.addEventListener("keydown", event => { if (event.key === "Enter") lookUp(line.row.name); });
        }
        chart.append(tipped(place, said));
      });
    });
  });
  const keys = [["fine", "as most have it, or nothing to say"], ...SEVERITIES.map(one => [one, one]), ["unknown", "structure not known here"], ["none", "not offered"]];
  place.replaceChildren(make("div", { class: "legend" }, ...keys.map(([kind, text]) => make("span", {}, make("i", { class: kind }), text))), chart);
}

// Into so many columns of about equal height, none of which ends with the name of a family.
function split(lines, blocks) {
  const parts = [[]];
  for (const [at, line] of lines.entries()) {
    const full = parts.at(-1).length >= Math.ceil(lines.length / blocks) && parts.length < blocks;
    const lonely = line.family !== undefined && parts.at(-1).length >= Math.ceil(lines.length / blocks) - 1 && parts.length < blocks;
    if (at && (full || lonely)) parts.push(line.row ? [{ family: line.row.family }] : []);
    parts.at(-1).push(line);
  }
  return parts;
}

function fitted(element, text, most) {
  if (text.length > most) { element.textContent = text.slice(0, most - 1) + "…"; element.append(draw("title", {}, text)); }
  return element;
}
grid();

function parameters(one) {
  if (one.parameters_held === null) return whole(one.parameters);
  return make("span", { title: one.parameters_held_reason }, `${whole(one.parameters)} of ${whole(one.parameters_held)} held`);
}

function members(row) {
  return table([
    { name: "zoo", key: one => one.zoo }, { name: "name", key: one => one.name }, { name: "same as", key: one => letter(one.group) },
    { name: "input", key: one => one.size ? one.size[0] * one.size[1] : null, show: one => one.size ? one.size.join("×") : "–", number: true },
    { name: "MACs", key: one => one.macs, show: one => whole(one.macs), number: true },
    { name: "as studied", key: one => one.as_studied, show: one => whole(one.as_studied), number: true },
    { name: "claimed", key: one => one.claimed_macs, show: one => giga(one.claimed_macs), number: true },
    { name: "parameters", key: one => one.parameters, show: parameters, number: true },
    { name: "top-1 first / best", key: one => one.claimed_top1, show: one => `${fixed(one.claimed_top1, 2)} / ${fixed(one.best_top1, 2)}`, number: true },
    { name: "", key: one => one.error ?? "" },
  ], [...row.networks]);
}

function architectures() {
  const place = section("architectures").querySelector(".table");
  const words = make("input", { type: "search", placeholder: "search", "aria-label": "search architectures" });
  const only = make("input", { type: "checkbox", id: "several", checked: "" });
  function show() {
    const text = words.value.toLowerCase();
    const rows = facts.architectures.filter(row => (!only.checked || shared.includes(row)) && row.name.toLowerCase().includes(text));
    place.replaceChildren(table([
      { name: "architecture", key: row => row.name },
      { name: "zoos", key: row => new Set(row.networks.map(one => one.zoo)).size, number: true },
      { name: "networks", key: row => row.groups, number: true },
      { name: "cost ratio, all zoos", key: row => row.macs_ratio, show: row => fixed(row.macs_ratio, 3, "×"), number: true },
      { name: "zoos of the study", key: row => row.real_ratio, show: row => fixed(row.real_ratio, 3, "×"), number: true },
      { name: "as studied", key: row => row.studied_ratio, show: row => fixed(row.studied_ratio, 3, "×"), number: true },
      { name: "top-1 spread", key: row => row.spread_first, show: row => fixed(row.spread_first, 2), number: true },
      { name: "today", key: row => row.spread_best, show: row => fixed(row.spread_best, 2), number: true },
      { name: "in a sentence", key: row => row.summary },
    ], rows, { open: members, sorted: 3 }));
  }
  words.addEventListener("input", show); only.addEventListener("change", show);
  section("architectures").querySelector(".filters").append(words, only, make("label", { for: "several" }, "only those known in two zoos or more"));
  show();
}
architectures();

function conformance() {
  const place = section("conformance"), papers = [...new Set(facts.conformance.map(one => one.architecture))];
  if (!papers.length) { place.hidden = true; return; }
  const columns = [...new Set(facts.conformance.map(one => one.zoo))].sort();
  const read = one => {
    const said = one.departures.length ? list(one.departures) : make("p", {}, "No departure.");
    place.querySelector(".reading").replaceChildren(make("b", {}, `${one.zoo}: ${one.name}`), ` against ${one.paper} (${one.table})`, said);
  };
  const cell = (architecture, zoo) => {
    const found = facts.conformance.filter(one => one.architecture === architecture && one.zoo === zoo);
    return make("span", {}, ...found.map(one => make("button", { class: "cell", title: one.name, onclick: () => read(one) },
      (one.departures.length ? String(one.departures.length) : "✓") + " ")));
  };
  place.querySelector(".table").append(table([{ name: "architecture", key: one => one },
    ...columns.map(zoo => ({ name: zoo, key: one => facts.conformance.filter(c => c.architecture === one && c.zoo === zoo).reduce((sum, c) => sum + c.departures.length, 0), show: one => cell(one, zoo) }))], papers));
}
conformance();

if (facts.judged.length) {
  section("judged").querySelector(".table").append(table([{ name: "model", key: one => one.model }, { name: "metric", key: one => one.metric },
    { name: "verdict", key: one => one.verdict }, { name: "in a sentence", key: one => one.sentence }], facts.judged));
} else {
  section("judged").querySelector(".table").append(make("p", {}, "None of these models was evaluated; ", make("code", {}, "zoolens eval"), " does that."));
}
const made = Object.entries(facts.facts).filter(([key]) => key !== "summary").map(([key, value]) =>
  `${key.replaceAll("_", " ")}: ${typeof value === "object" ? Object.entries(value).map(([a, b]) => `${a} ${b}`).join(", ") : value}`);
section("notes").querySelector(".text").append(list([...made, ...facts.notes]));
