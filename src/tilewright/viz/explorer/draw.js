// Tables of cells.  A grid: title, rows, cols, cell(i, j) -> {lines, colour, shared, alarm, key, tip}.

const FILLS = DATA.fills, MAX_CELLS = 64;

function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const fillOf = (cell) =>
  cell.shared ? DATA.shared : cell.colour === undefined || cell.colour === null ? "" :
    FILLS[((cell.colour % FILLS.length) + FILLS.length) % FILLS.length];

/** Cells with the same key light up together. */
function lightUp(root, key) {
  for (const lit of root.querySelectorAll("td.lit")) lit.classList.remove("lit");
  if (key === null || key === undefined || key === "") return;
  for (const td of root.querySelectorAll(`td[data-key="${CSS.escape(key)}"]`)) td.classList.add("lit");
}

function gridNode(grid) {
  const rows = Math.min(grid.rows, grid.maxRows || MAX_CELLS), cols = Math.min(grid.cols, grid.maxCols || MAX_CELLS);
  const label = grid.rowLabel || String, head = element("tr", {}, element("th", {}, grid.rowName || ""));
  for (let j = 0; j < cols; j++) head.append(element("th", {}, String(j)));
  const table = element("table", { class: "grid" });
  if (grid.colName) {
    table.append(element("tr", {}, element("th", {}), element("th", { colspan: cols, class: "axis" }, grid.colName)));
  }
  table.append(head);
  for (let i = 0; i < rows; i++) {
    const tr = element("tr", {}, element("th", {}, label(i)));
    for (let j = 0; j < cols; j++) {
      const cell = grid.cell(i, j), td = element("td", {});
      cell.lines.forEach((line, n) => td.append(...(n ? [element("br"), line] : [line])));
      const fill = fillOf(cell);
      if (fill) td.style.background = fill;
      if (cell.alarm) td.classList.add("alarm");
      if (cell.key !== undefined) td.dataset.key = cell.key;
      if (cell.tip) td.title = cell.tip;
      tr.append(td);
    }
    table.append(tr);
  }
  const notes = [...(grid.notes || [])];
  if (rows < grid.rows) notes.push(`rows ${rows} to ${grid.rows - 1} are not shown`);
  if (cols < grid.cols) notes.push(`columns ${cols} to ${grid.cols - 1} are not shown`);
  const box = element("div", { class: "gridbox" }, element("h3", {}, grid.title || ""), table);
  for (const note of notes) box.append(element("p", { class: "note" }, note));
  return box;
}

function factTable(rows) {
  const table = element("table", { class: "facts" });
  for (const [name, value] of rows) {
    table.append(element("tr", {}, element("th", {}, name), element("td", {}, String(value))));
  }
  return table;
}
