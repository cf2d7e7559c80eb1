// The tab "Atoms": every MMA and copy atom of the rows, and which lane holds what.

const ATOMS = DATA.atoms.map(([name, mma, thrId, sides, prefix, instruction, since]) => ({
  name, mma, prefix, threads: DATA.layouts[thrId], sides: sides.map((number) => DATA.sides[number]),
  facts: [["instruction", instruction], ["from", since]],
}));

function findAtom(name) {
  const atom = ATOMS.find((a) => a.name === name);
  if (!atom) throw new Refusal(`no atom ${name}`);
  return atom;
}

/** Operands: A, B, C of an MMA; source and destination of a copy. */
const sideOf = (atom, which) => atom.sides.find((s) => s.which === which);

/** index -> [[lane, value], ..] of one side; values count pieces of `unit`. */
function ownersOf(atom, which) {
  const side = sideOf(atom, which), layout = parseLayout(DATA.layouts[side.layout]);
  const lanes = parseLayout(atom.threads), owners = new Map();
  const [threads, values] = layout.modes().map(sizeOf), unit = side.unit;
  for (let v = 0; v < values / unit; v++) {
    for (let t = 0; t < threads; t++) {
      const index = Math.floor(layout.at([t, v * unit]) / unit);
      if (!owners.has(index)) owners.set(index, []);
      owners.get(index).push([lanes.at(t), v]);
    }
  }
  return owners;
}

function sideGrid(atom, side) {
  const title = `${side.title}${side.where ? `, ${side.where}` : ""}`;
  const shape = { title, rows: side.rows, cols: side.cols, rowName: side.row_name, colName: side.col_name, maxCols: 32 };
  if (side.whole) return { ...shape, cell: () => ({ lines: [""], shared: true }) };
  const owners = ownersOf(atom, side.which);
  const cell = (i, j) => {
    const held = owners.get(side.by_rows ? j + i * side.cols : i + j * side.rows);
    if (!held) return { lines: ["-"] };
    const [lane, value] = held[0], more = held.length > 1 ? `+${held.length - 1}` : "";
    return { lines: [`${atom.prefix}${lane}`, `V${value}${more}`], colour: lane, key: `t${lane}`, tip: held.map(([t, v]) => `${atom.prefix}${t} V${v}`).slice(0, 40).join(", ") };
  };
  return { ...shape, cell };
}

function heldBy(atom, lane) {
  const rows = [];
  for (const side of atom.sides) {
    if (side.whole) {
      rows.push([side.title, side.where]);
      continue;
    }
    const cells = [];
    for (const [index, owners] of ownersOf(atom, side.which)) {
      for (const [t, v] of owners) {
        if (t !== lane) continue;
        const [i, j] = side.by_rows ? [Math.floor(index / side.cols), index % side.cols] : [index % side.rows, Math.floor(index / side.rows)];
        cells.push([v, `V${v}=(${i},${j})`]);
      }
    }
    const words = cells.sort((x, y) => x[0] - y[0]).map((c) => c[1]);
    rows.push([`${side.title} (${side.row_name},${side.col_name || "column"})`,
      words.length ? words.slice(0, 64).join(" ") + (words.length > 64 ? ` and ${words.length - 64} more` : "") : "nothing"]);
  }
  return rows;
}

function showAtom() {
  const atom = findAtom(byId("atom").value), box = byId("atompicture");
  byId("atomfacts").replaceChildren(factTable([...atom.facts, [atom.prefix === "CTA" ? "CTAs" : "threads", atom.threads],
    ...atom.sides.map((s) => [`${s.which} (thread, value)`, DATA.layouts[s.layout]])]));
  box.replaceChildren();
  box.className = atom.mma ? "mma" : "copy";
  for (const side of atom.sides) {
    const node = gridNode(sideGrid(atom, side));
    node.classList.add(`side-${side.which}`);
    box.append(node);
  }
  showLane();
}

function showLane() {
  const text = byId("lane").value.trim();
  if (!byId("tab-atoms").hidden) {
    history.replaceState(null, "", `#${new URLSearchParams({ atom: byId("atom").value, lane: text })}`);
  }
  lightUp(byId("atompicture"), text === "" ? null : `t${Number(text)}`);
  byId("held").replaceChildren(...(text === "" ? [] : [factTable(heldBy(findAtom(byId("atom").value), Number(text)))]));
}

function listAtoms() {
  const words = byId("filter").value.toLowerCase().split(/\s+/), list = byId("atom"), before = list.value;
  const found = ATOMS.filter((a) => words.every((w) => a.name.toLowerCase().includes(w)));
  list.replaceChildren(...found.map((a) => element("option", { value: a.name }, a.name)));
  byId("count").textContent = `${found.length} of ${ATOMS.length} atoms`;
  if (found.some((a) => a.name === before)) list.value = before;
  else if (found.length) list.value = found[0].name;
  if (found.length) showAtom();
}
