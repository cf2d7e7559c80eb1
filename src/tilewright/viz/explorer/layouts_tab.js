// The tab "Layouts": a layout, an operation, a swizzle, an access; and what follows from them.

const byId = (id) => document.getElementById(id);
const FIELDS = ["A", "op", "B", "sw", "cells", "threads", "bytes", "bits"];

const yesNo = (answer) => (answer === null ? "not decided: too large" : answer ? "yes" : "no");

function factRows(facts) {
  const widest = facts.run & -facts.run;
  return [
    ["layout", facts.layout], ["shape", facts.shape], ["stride", facts.stride],
    ["size", `${facts.size} coordinates`], ["cosize", `${facts.cosize}: the smallest buffer that holds every offset`],
    ["rank, depth", `${facts.rank}, ${facts.depth}`], ["coalesced", facts.coalesced],
    ["injective", yesNo(facts.is_injective)], ["contiguous", yesNo(facts.is_contiguous)],
    ["widest vector", `${widest} element${widest === 1 ? "" : "s"}`],
  ];
}

/** A grid for each coordinate of the modes after the second. */
function offsetGrids(layout, access, shows) {
  const shape = wrap(layout.shape), rows = productOf(shape[0]);
  const cols = shape.length > 1 ? productOf(shape[1]) : 1, area = rows * cols;
  const slices = Math.max(productOf(shape.slice(2)), 1);
  const block = layout instanceof Composed && layout.inner instanceof Swizzle ? 2 ** layout.inner.base : 1;
  const lanes = new Map();
  if (access.threads) offsetsOf(access.threads).forEach((c, lane) => lanes.has(c) || lanes.set(c, lane));
  const cell = (index) => {
    const offset = layout.at(index), bank = Math.floor(offset * access.width / 32) % BANKS, lane = lanes.get(index);
    const tip = `index ${index}, offset ${offset}, bank ${bank}${lane === undefined ? "" : `, lane ${lane}`}`;
    if (shows === "bank") return { lines: [String(bank)], colour: bank, key: `b${bank}`, tip };
    if (shows === "thread") {
      return lane === undefined ? { lines: ["-"], tip } : { lines: [`T${lane}`], colour: lane, key: `t${lane}`, tip };
    }
    return { lines: [String(offset)], colour: Math.floor(offset / block), key: `o${offset}`, tip };
  };
  const grids = [];
  for (let k = 0; k < Math.min(slices, 8); k++) {
    grids.push({
      title: slices > 1 ? `slice ${k} of the other modes` : "", rows, cols,
      cell: (i, j) => cell(i + j * rows + k * area),
      notes: k === 7 && slices > 8 ? [`slices 8 to ${slices - 1} are not shown`] : [],
    });
  }
  return grids;
}

function bankGrids(layout, access) {
  const addresses = laneAddresses(layout, access.threads, access.bytes, access.bits);
  return bankPhases(addresses, access.bytes).slice(0, 8).map((phase, number) => {
    const lines = [...new Set([...phase.words.keys()].map((w) => Math.floor(w / BANKS)))].sort((x, y) => x - y);
    return {
      title: `phase ${number}, lanes ${phase.lanes[0]} to ${phase.lanes.at(-1)}: ${phase.ways}-way`,
      rows: lines.length, cols: BANKS, rowName: "byte", colName: "bank", rowLabel: (i) => String(lines[i] * 128),
      cell: (i, bank) => {
        const held = phase.words.get(lines[i] * BANKS + bank);
        if (!held) return { lines: [] };
        const alarm = phase.load[bank] > 1, more = held.length > 1 ? `+${held.length - 1}` : "";
        return { lines: [`${held[0]}${more}${alarm ? "!" : ""}`], colour: held[0], alarm, key: `t${held[0]}` };
      },
    };
  });
}

function readAccess(result) {
  const text = byId("threads").value.trim(), bytes = Number(byId("bytes").value), bits = Number(byId("bits").value) || null;
  const threads = text ? parseLayout(text) : new Layout(Math.min(WARP, sizeOf(result)), 1);
  return { threads, bytes, bits, width: elementBits(bytes, bits) };
}

function bankWords(layout, access) {
  const phases = bankPhases(laneAddresses(layout, access.threads, access.bytes, access.bits), access.bytes);
  const ways = Math.max(...phases.map((p) => p.ways));
  const cycles = phases.reduce((sum, p) => sum + p.ways, 0);
  if (ways <= 1) return `Conflict-free: ${phases.length} phase${phases.length === 1 ? "" : "s"} of 1 cycle.`;
  const plain = plainOf(layout);
  const found = smallestSwizzle(plain, access.threads, access.bytes, access.bits);
  const advice = found ? `${found} on ${plain} makes it conflict-free.` : "No swizzle of up to 5 bits makes it conflict-free.";
  return `${ways}-way conflict: ${cycles} cycles instead of ${phases.length}. ${advice}`;
}

/** Each part fails alone: a refused access leaves the offsets standing. */
function section(target, fill) {
  const node = byId(target);
  node.replaceChildren();
  try {
    fill(node);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    node.append(element("p", { class: "refusal" }, error.message));
  }
}

function showLayouts() {
  const operation = OPERATIONS[byId("op").value];
  byId("B").disabled = !operation.second;
  byId("B").placeholder = operation.second || "not used";
  let result = null, steps = [];
  section("derivation", (node) => {
    ({ steps, result } = runOperation(byId("op").value, byId("A").value, byId("B").value));
    if (byId("sw").value.trim()) {
      const swizzled = deriveSwizzle(parseSwizzle(byId("sw").value), result);
      [steps, result] = [[...steps, ...swizzled.steps.slice(1)], swizzled.result];
    }
    node.append(factTable(steps));
  });
  for (const id of ["facts", "offsets", "banks"]) byId(id).replaceChildren();
  byId("result").textContent = result ? String(result) : "";
  if (!result) return;
  section("facts", (node) => node.append(factTable(factRows(factsOf(result)))));
  let access = { threads: null, width: 32 };
  section("banks", (node) => {
    access = readAccess(result);
    node.append(element("p", {}, bankWords(result, access)));
    bankGrids(result, access).forEach((grid) => node.append(gridNode(grid)));
  });
  section("offsets", (node) => offsetGrids(result, access, byId("cells").value).forEach((g) => node.append(gridNode(g))));
}

function saveHash() {
  const state = new URLSearchParams();
  for (const id of FIELDS) state.set(id, byId(id).value);
  history.replaceState(null, "", `#${state}`);
}
