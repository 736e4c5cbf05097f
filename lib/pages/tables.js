// The tables page: one table at a time, chosen in the list or by the address.
(() => {
  "use strict";
  const byName = new Map(window.TABLES.map((table) => [table.name, table]));
  const links = [...document.querySelectorAll("[data-table]")];
  const title = document.getElementById("name");
  const place = document.getElementById("table");
  const NUMBER = /^[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i;
  let shown = null;

  // Only the order of a column follows its numbers; each cell stays the text that the file holds.
  function kind(rows, column) {
    const cells = rows.map((row) => row[column]).filter((cell) => cell !== "");
    return cells.length && cells.every((cell) => NUMBER.test(cell)) ? "num" : "string";
  }

  function head(names) {
    const line = document.createElement("tr");
    for (const name of names) line.appendChild(document.createElement("th")).textContent = name;
    const head = document.createElement("thead");
    head.appendChild(line);
    return head;
  }

  function show(table) {
    if (shown) shown.destroy();
    const element = document.createElement("table");
    element.className = "display compact";
    element.appendChild(head(table.columns));
    place.replaceChildren(element);
    title.textContent = table.name;
    const text = window.DataTable.render.text();
    shown = new window.DataTable(element, {
      data: table.rows,
      columns: table.columns.map((_, column) => ({
        render: text,
        type: kind(table.rows, column),
        className: table.rows.some((row) => row[column].length > 40) ? "long" : "short",
      })),
      order: [],
      autoWidth: false,
      deferRender: true,
      paging: table.rows.length > 25,
      pageLength: 25,
      layout: { topStart: "info", topEnd: "search", bottomStart: null, bottomEnd: "paging" },
      language: {
        search: "Search in this table:",
        info: "_TOTAL_ rows",
        infoFiltered: "of _MAX_",
        infoEmpty: "no rows",
        emptyTable: "This table has no rows.",
      },
    });
    // A wide table scrolls inside the page; its controls stay where they are.
    const frame = document.createElement("div");
    frame.className = "scroll";
    element.replaceWith(frame);
    frame.appendChild(element);
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  function open() {
    const name = decoded(location.hash.slice(1));
    const table = byName.get(name);
    for (const link of links) {
      if (link.dataset.table === name) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    if (table) show(table);
    else if (name && name !== "main") title.textContent = `There is no table ${name}`;
    else if (!shown && window.TABLES.length) show(window.TABLES[0]);
  }

  document.getElementById("find").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    let left = 0;
    for (const group of document.querySelectorAll(".group")) {
      const items = [...group.querySelectorAll("li")];
      for (const item of items) {
        const name = item.firstElementChild.dataset.table.toLowerCase();
        item.hidden = !words.every((word) => name.includes(word));
      }
      const here = items.filter((item) => !item.hidden).length;
      group.hidden = !here;
      left += here;
    }
    document.getElementById("none").hidden = left > 0;
  });
  window.addEventListener("hashchange", open);
  open();
})();
