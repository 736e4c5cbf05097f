// The judgments page: filters over columns of numbers, a page of lines, and one judgment with its texts on demand.
// Every text is set as text, never as HTML: candidates in this data attack whoever reads them.
(() => {
  "use strict";
  const { names, columns, ids, questions, shard: SHARD_SIZE } = window.JUDGMENTS;
  const FILTERS = Object.keys(names);
  const TOTAL = columns.row.length;
  const PAGE = 50;
  const FIRST = names.condition.includes("primary") ? "primary" : "all";
  const TITLES = { prompt: "design", verdict: "verdict", status: "read as" };
  const at = (id) => document.getElementById(id);

  // An element with children; a string among them becomes a text.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  const value = (name, line) => names[name][columns[name][line]];
  const rowId = (line) => ids[columns.row[line]];
  const shownText = (text) => String(text).replaceAll("_", " ");

  // What the address says, and what is chosen.
  const state = { chosen: {}, search: "", id: "", page: 0 };
  const searched = ids.map((id, row) => `${id}\n${questions[row]}`.toLowerCase());
  let found = [];

  function nameOf(line) {
    const parts = ["run", "judge", "condition", "prompt"].map((name) => value(name, line));
    return [...parts, columns.repeat[line], rowId(line)].join("~");
  }

  function lineOf(id) {
    const row = id.split("~").slice(5).join("~");
    for (let line = 0; line < TOTAL; line++) if (rowId(line) === row && nameOf(line) === id) return line;
    return -1;
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  function readAddress() {
    const said = {};
    for (const part of location.hash.slice(1).split("&")) {
      const equals = part.indexOf("=");
      if (equals > 0) said[part.slice(0, equals)] = decoded(part.slice(equals + 1));
    }
    for (const name of FILTERS) {
      const known = said[name] !== undefined && names[name].includes(said[name]);
      state.chosen[name] = known ? said[name] : name === "condition" && said[name] !== "all" ? FIRST : "all";
    }
    state.search = said.q || "";
    state.id = said.id || "";
    state.page = 0;
  }

  function address() {
    const parts = [];
    for (const name of FILTERS) {
      const usual = name === "condition" ? FIRST : "all";
      if (state.chosen[name] !== usual) parts.push(`${name}=${encodeURIComponent(state.chosen[name])}`);
    }
    if (state.search) parts.push(`q=${encodeURIComponent(state.search)}`);
    if (state.id) parts.push(`id=${encodeURIComponent(state.id)}`);
    return `#${parts.join("&")}`;
  }

  function writeAddress() {
    if (address() !== (location.hash || "#")) history.replaceState(null, "", address());
  }

  // Filters. A count beside a value is what is left if only this filter is set to it.
  function filter() {
    const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = searched.map((text) => words.every((word) => text.includes(word)));
    const wanted = FILTERS.map((name) => names[name].indexOf(state.chosen[name]));
    const data = FILTERS.map((name) => columns[name]);
    const counts = FILTERS.map((name) => new Array(names[name].length).fill(0));
    const all = new Array(FILTERS.length).fill(0);
    found = [];
    for (let line = 0; line < TOTAL; line++) {
      if (!rows[columns.row[line]]) continue;
      let missed = -1;
      let misses = 0;
      for (let f = 0; f < FILTERS.length && misses < 2; f++) {
        if (wanted[f] >= 0 && data[f][line] !== wanted[f]) {
          missed = f;
          misses += 1;
        }
      }
      if (misses === 0) {
        found.push(line);
        for (let f = 0; f < FILTERS.length; f++) {
          counts[f][data[f][line]] += 1;
          all[f] += 1;
        }
      } else if (misses === 1) {
        counts[missed][data[missed][line]] += 1;
        all[missed] += 1;
      }
    }
    FILTERS.forEach((name, f) => {
      const options = at(`filter-${name}`).options;
      options[0].textContent = `all (${all[f].toLocaleString("en")})`;
      names[name].forEach((each, number) => {
        options[number + 1].textContent = `${each} (${counts[f][number].toLocaleString("en")})`;
      });
      at(`filter-${name}`).value = state.chosen[name];
    });
    at("filter-q").value = state.search;
  }

  function buildFilters() {
    for (const name of FILTERS) {
      const select = make("select", { id: `filter-${name}` });
      for (const each of ["all", ...names[name]]) select.append(make("option", { value: each }, each));
      select.addEventListener("change", () => {
        state.chosen[name] = select.value;
        changed();
      });
      at("filters").append(make("div", {}, make("label", { for: select.id }, TITLES[name] || name), select));
    }
    const search = make("input", { id: "filter-q", type: "search", autocomplete: "off" });
    search.addEventListener("input", () => {
      state.search = search.value;
      changed();
    });
    const label = make("label", { for: "filter-q" }, "row id or question contains");
    at("filters").prepend(make("div", { class: "search" }, label, search));
    at("filters").addEventListener("submit", (event) => event.preventDefault());
  }

  function changed() {
    state.page = 0;
    filter();
    showLines();
    writeAddress();
  }

  // The list.
  function outcome(line) {
    return make("span", { class: `outcome ${value("outcome", line)}` }, value("outcome", line));
  }

  function readAs(line) {
    const why = value("reason", line);
    return why === "none" ? value("status", line) : `${value("status", line)}: ${shownText(why)}`;
  }

  function conditionOf(line) {
    const repeat = columns.repeat[line];
    return value("condition", line) + (repeat ? `, repeat ${repeat + 1}` : "");
  }

  function cells(line) {
    const verdict = value("verdict", line);
    return [
      make("div", {}, make("code", {}, rowId(line)), make("small", {}, value("run", line))),
      questions[columns.row[line]],
      value("prompt", line),
      value("judge", line),
      conditionOf(line),
      shownText(value("label", line)),
      verdict === "none" ? "–" : shownText(verdict),
      outcome(line),
      readAs(line),
    ];
  }

  function showLines() {
    const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
    state.page = Math.min(state.page, last);
    const shown = found.slice(state.page * PAGE, (state.page + 1) * PAGE);
    const lines = shown.map((line) => {
      const texts = cells(line).map((cell) => make("td", {}, cell));
      const element = make("tr", { tabindex: "0", "data-line": line }, ...texts);
      return element;
    });
    at("lines").replaceChildren(...lines);
    at("count").textContent = `${found.length.toLocaleString("en")} of ${TOTAL.toLocaleString("en")} judgments`;
    at("page").textContent = `page ${state.page + 1} of ${last + 1}`;
    at("previous").disabled = state.page === 0;
    at("next").disabled = state.page >= last;
  }

  function turn(pages) {
    state.page += pages;
    showLines();
  }

  // One judgment. Its shard is a script of its own, so that it loads from the disk too.
  const shards = new Map();
  const waiting = new Map();
  window.SHARD = (number, content) => shards.set(number, content);

  function load(number, then) {
    if (shards.has(number)) return then(shards.get(number));
    if (waiting.has(number)) return waiting.get(number).push(then);
    waiting.set(number, [then]);
    const file = `data/shard-${String(number).padStart(4, "0")}.js`;
    const done = () => {
      const calls = waiting.get(number);
      waiting.delete(number);
      for (const call of calls) call(shards.get(number) || null, file);
    };
    const element = make("script", { src: file });
    element.addEventListener("load", done);
    element.addEventListener("error", done);
    document.head.append(element);
  }

  function pieces(text, tag = "pre") {
    const parts = text.map(([name, part]) => (name === "verdict" ? make("mark", {}, part) : part));
    return make(tag, { class: "text", tabindex: tag === "pre" ? "0" : null }, ...parts);
  }

  function named(texts, name) {
    const piece = texts.flat().find(([each]) => each === name);
    return piece ? piece[1] : null;
  }

  function section(title, ...content) {
    return make("section", {}, make("h3", {}, title), ...content);
  }

  function facts(pairs) {
    const list = make("dl");
    for (const [name, text] of pairs) {
      list.append(make("div", {}, make("dt", {}, name), make("dd", {}, text)));
    }
    return list;
  }

  function tokens(judgment) {
    const kinds = ["in", "out", "reasoning", "cached"];
    const known = judgment.tokens.map((n, i) => (n === null ? "" : `${n.toLocaleString("en")} ${kinds[i]}`));
    return known.filter(Boolean).join(", ") || "unknown";
  }

  function others(line) {
    const same = ["run", "judge", "condition"];
    const lines = [];
    for (let other = 0; other < TOTAL; other++) {
      const one = columns.row[other] === columns.row[line] && columns.repeat[other] === columns.repeat[line];
      if (one && other !== line && same.every((name) => columns[name][other] === columns[name][line])) lines.push(other);
    }
    if (!lines.length) return make("p", {}, "No other design was asked about this row here.");
    const items = lines.map((other) => {
      const verdict = value("verdict", other);
      const text = `${value("prompt", other)}: ${verdict === "none" ? "no verdict" : shownText(verdict)} `;
      const button = make("button", { type: "button", onclick: () => open(other) }, text, outcome(other));
      return make("li", {}, button);
    });
    return make("ul", { class: "others" }, ...items);
  }

  function rowTexts(texts) {
    const blocks = ["question", "reference", "candidate"].map((name) => {
      const text = named(texts, name);
      const known = text === null ? make("p", { class: "absent" }, "not known") : make("div", { class: "text" }, text || "(empty)");
      return section(name, known);
    });
    return make("div", { class: "row-texts" }, ...blocks);
  }

  function reply(judgment, line, texts) {
    if (judgment.reply === undefined) {
      const why = judgment.error ? `The call failed: ${judgment.error}` : "This call was not asked, or its reply is not in the store.";
      return make("p", { class: "absent" }, `There is no reply. ${why}`);
    }
    const text = texts[judgment.reply];
    if (!text.length) return make("p", { class: "absent" }, "The reply holds no text.");
    const marked = text.some(([name]) => name === "verdict");
    const note = marked
      ? "The parser read the verdict from the marked words."
      : value("verdict", line) === "none"
        ? "No verdict was read, so nothing is marked."
        : "The verdict stands in no word that could be marked alone.";
    return make("div", {}, make("p", {}, note), pieces(text));
  }

  function sent(judgment, texts) {
    if (!judgment.messages) return [make("p", { class: "absent" }, "The prompt is not in the store.")];
    const messages = judgment.messages.map(([role, text]) =>
      make("details", role === "user" ? { open: "" } : {}, make("summary", {}, `${role} message`), pieces(texts[text])),
    );
    const settings = make("details", {}, make("summary", {}, "sent with"), pieces(texts[judgment.sent]));
    return [...messages, settings];
  }

  function fill(line, content, file) {
    const dialog = at("detail");
    const place = found.indexOf(line);
    const step = (by) => {
      const to = place < 0 ? undefined : found[place + by];
      return make("button", { type: "button", disabled: to === undefined ? "" : null, onclick: () => open(to) }, by < 0 ? "← Line before" : "Next line →");
    };
    const close = make("button", { type: "button", onclick: () => dialog.close() }, "Close");
    const title = make("h2", { id: "detail-title", tabindex: "-1" }, rowId(line));
    const bar = make("div", { class: "bar" }, step(-1), step(1), close);
    if (!content) {
      dialog.replaceChildren(bar, title, make("p", { class: "absent" }, `The file ${file} is missing; build the report again.`));
      return;
    }
    const judgment = content.judgments[line % SHARD_SIZE];
    const texts = content.texts;
    const all = judgment.messages ? judgment.messages.map(([, text]) => texts[text]) : judgment.row === undefined ? [] : [texts[judgment.row]];
    if (named(all, "question") === null && questions[columns.row[line]]) all.push([["question", questions[columns.row[line]]]]);
    const verdict = value("verdict", line);
    const known = facts([
      ["design", value("prompt", line)],
      ["judge", value("judge", line)],
      ["condition", conditionOf(line)],
      ["label", shownText(value("label", line))],
      ["verdict", verdict === "none" ? "none" : shownText(verdict)],
      ["outcome", outcome(line)],
      ["read as", readAs(line)],
      ["model that answered", judgment.model || "unknown"],
      ["tokens", tokens(judgment)],
      ["finish reason", judgment.finish || "unknown"],
      ["run", value("run", line)],
      ["call key", make("code", {}, judgment.key)],
    ]);
    const everywhere = make("button", { type: "button", onclick: () => everyJudgment(line) }, "List all judgments of this row");
    dialog.replaceChildren(
      bar,
      title,
      known,
      rowTexts(all),
      section("Other designs on this row", others(line), make("p", {}, everywhere)),
      section("Raw reply", reply(judgment, line, texts)),
      section("Prompt as it was sent", ...sent(judgment, texts)),
    );
    dialog.scrollTop = 0;
    title.focus();
  }

  function everyJudgment(line) {
    for (const name of FILTERS) state.chosen[name] = "all";
    state.search = rowId(line);
    at("detail").close();
    changed();
  }

  function open(line) {
    state.id = nameOf(line);
    writeAddress();
    const number = Math.floor(line / SHARD_SIZE);
    load(number, (content, file) => {
      // Another one may have been opened, or this one closed, while it was loaded.
      if (state.id !== nameOf(line)) return;
      fill(line, content, file);
      if (!at("detail").open) at("detail").showModal();
    });
  }

  function closed() {
    const line = lineOf(state.id);
    state.id = "";
    writeAddress();
    const element = document.querySelector(`[data-line="${line}"]`);
    if (element) element.focus();
  }

  function start() {
    // The link that skips to the content sets no filter.
    if (location.hash === "#main" && found.length) return;
    readAddress();
    filter();
    showLines();
    if (!state.id) {
      if (at("detail").open) at("detail").close();
      return;
    }
    const line = lineOf(state.id);
    if (line >= 0) open(line);
    else at("count").textContent += "; the one in the address is not among them";
  }

  const lineAt = (event) => event.target.closest("[data-line]");
  at("lines").addEventListener("click", (event) => {
    if (lineAt(event)) open(Number(lineAt(event).dataset.line));
  });
  at("lines").addEventListener("keydown", (event) => {
    const element = lineAt(event);
    if (!element) return;
    if (event.key === "Enter") open(Number(element.dataset.line));
    const next = { ArrowDown: element.nextElementSibling, ArrowUp: element.previousElementSibling }[event.key];
    if (next) {
      next.focus();
      event.preventDefault();
    }
  });
  at("detail").addEventListener("close", closed);
  // A click beside the opened judgment closes it.
  at("detail").addEventListener("click", (event) => {
    if (event.target === at("detail")) at("detail").close();
  });
  at("previous").addEventListener("click", () => turn(-1));
  at("next").addEventListener("click", () => turn(1));
  at("reset").addEventListener("click", () => {
    for (const name of FILTERS) state.chosen[name] = name === "condition" ? FIRST : "all";
    state.search = "";
    changed();
  });
  window.addEventListener("hashchange", start);
  buildFilters();
  start();
})();
