// Tables: sort by any column, filter by text, and say how many rows are shown.
//
// The table in the page is whole and in its own order; everything here is added to it.  A cell is sorted by
// its data-sort (the exact number behind a rounded one) or by its text; empty cells come last either way.

const MANY_ROWS = 12; // a filter on fewer rows is clutter

function enhanceTable(figure) {
  const table = figure.querySelector("table");
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];

  const state = { column: -1, order: "none" };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...head.childNodes);
    if (!button.textContent.trim()) button.setAttribute("aria-label", "row names");
    head.append(button);
    button.addEventListener("click", () => {
      const next = { none: "ascending", ascending: "descending", descending: "none" };
      state.order = state.column === column ? next[state.order] : "ascending";
      state.column = column;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (state.order !== "none") head.setAttribute("aria-sort", state.order);
      body.append(...sortedRows(original, column, state.order));
    });
  });

  if (original.length < MANY_ROWS) return;
  const tools = document.createElement("div");
  tools.className = "tools";
  const label = document.createElement("label");
  label.textContent = "Filter ";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "words, in any column";
  input.setAttribute("aria-label", `Filter: ${figure.querySelector("figcaption strong").textContent}`);
  label.append(input);
  const count = document.createElement("output");
  count.className = "count";
  tools.append(label, count);
  figure.insertBefore(tools, figure.querySelector(".scroll"));

  const texts = original.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    original.forEach((row, k) => {
      row.hidden = !words.every((word) => texts[k].includes(word));
      if (!row.hidden) shown += 1;
    });
    const total = original.length;
    count.textContent = shown === total ? `${total} rows` : `${shown} of ${total} rows`;
  };
  input.addEventListener("input", show);
  show();
}

function sortedRows(rows, column, order) {
  if (order === "none") return rows;
  const sign = order === "ascending" ? 1 : -1;
  return rows
    .map((row) => ({ row, key: sortKey(row.cells[column]) }))
    .sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      return sign * compareKeys(a.key, b.key);
    })
    .map(({ row }) => row);
}

function sortKey(cell) {
  const text = cell.dataset.sort ?? cell.textContent.trim();
  if (text === "" || text === "nan") return null;
  if (text === "inf") return Infinity;
  if (text === "-inf") return -Infinity;
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

function compareKeys(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}
