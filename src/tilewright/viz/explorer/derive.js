// Derivations, step by step: the twin of tilewright/viz/derive.py.  A step is [what it says, value].

function deriveComposition(a, b) {
  const result = compose(a, b), steps = [["A", `${a}`], ["B", tilerText(b)]];
  if (isTuple(b)) {
    plainOf(a).modes().slice(0, b.length).forEach((mode, i) =>
      steps.push([`mode ${i} of A o ${tilerText(b[i])}`, `${compose(mode, b[i])}`]));
  } else {
    steps.push(["A coalesced", `${coalesce(plainOf(a))}`]);
    if (b instanceof Layout && isTuple(b.shape)) {
      for (const [s, d] of pairsOf(b)) {
        const leaf = new Layout(s, d);
        steps.push([`A o ${leaf}`, `${compose(plainOf(a), leaf)}`]);
      }
    }
  }
  return { steps: [...steps, ["side by side A o B", `${result}`]], result };
}

function deriveComplement(a, extent) {
  const result = complement(a, extent), steps = [["A", `${a}`]];
  const modes = filterModes(plainOf(a)).sort((x, y) => x[1] - y[1]);
  if (modes.length) {
    steps.push(["sorted by stride", `${joinModes(modes.map(([s, d]) => new Layout(s, d)))}`]);
  }
  let free = 1;
  for (const [s, d] of modes) {
    const hole = Math.floor(d / free);
    steps.push([`mode ${s}:${d} begins at ${d} where ${free} is free`,
      hole > 1 ? `hole ${hole}:${free}` : "hole 1"]);
    free = s * d;
  }
  if (extent !== null) {
    steps.push([`after the last mode, ${productOf(extent)} / ${free}`,
      `repeats ${productOf(ceilDivTuple(extent, free))}:${free}`]);
  }
  return { steps: [...steps, ["complement", `${result}`]], result };
}

function deriveDivide(a, tiler, form) {
  const result = DIVIDES[form](a, tiler), steps = [["A", `${a}`]];
  if (isTuple(tiler)) {
    steps.push(["tiler", tilerText(tiler)]);
    plainOf(a).modes().slice(0, tiler.length).forEach((mode, i) =>
      steps.push([`mode ${i} / ${tilerText(tiler[i])}`, `${logicalDivide(mode, tiler[i])}`]));
  } else if (tiler !== null) {
    const tile = tiler instanceof Layout ? tiler : new Layout(tiler, 1);
    const plain = plainOf(a), merged = coalesce(plain), rest = complement(tile, merged.shape);
    steps.push(["tile B", `${tile}`], ["shape of A coalesced", `${sizeOf(plain)} in ${fmt(merged.shape)}`],
      ["complement B*", `${rest}`], ["(B, B*)", `${joinModes([tile, rest])}`]);
  }
  if (form !== "logical") steps.push(["logical divide", `${logicalDivide(a, tiler)}`]);
  return { steps: [...steps, [`${form} divide`, `${result}`]], result };
}

function deriveProduct(a, tiler, form) {
  const result = PRODUCTS[form](a, tiler), steps = [["A", `${a}`], ["tiler B", tilerText(tiler)]];
  if (tiler instanceof Layout || isNumber(tiler)) {
    const pattern = tiler instanceof Layout ? tiler : new Layout(tiler, 1), plain = plainOf(a);
    const free = complement(plain, sizeOf(plain) * cosizeOf(pattern));
    steps.push([`free offsets of A, cosize ${cosizeOf(plain)} times ${cosizeOf(pattern)}`, `${free}`],
      ["copies A* o B", `${logicalProduct(plain, pattern).modes()[1]}`]);
  } else if (isTuple(tiler)) {
    plainOf(a).modes().slice(0, tiler.length).forEach((mode, i) =>
      steps.push([`mode ${i} * ${tilerText(tiler[i])}`, `${logicalProduct(mode, tiler[i])}`]));
  }
  return { steps: [...steps, [`${form} product`, `${result}`]], result };
}

function deriveInverse(a, form) {
  const result = INVERSES[form](a);
  const steps = [["A", `${a}`], ["A coalesced", `${coalesce(plainOf(a))}`], [`${form} inverse`, `${result}`]];
  return { steps, result };
}

function deriveSwizzle(sw, a) {
  const result = compose(sw, a), steps = [["A", `${a}`], ["swizzle", `${sw}`]];
  if (sw.bits) {
    for (const [name, mask] of [["source", sw.sourceMask], ["target", sw.targetMask]]) {
      const text = mask.toString(2), low = text.length - text.lastIndexOf("1") - 1;
      steps.push([`${name} bits`, `${low} to ${low + sw.bits - 1}, mask 0b${text}`]);
    }
  }
  steps.push(["kept together", `blocks of ${2 ** sw.base} elements`], ["Sw o A", `${result}`]);
  return { steps, result };
}

/** Every operation of the page: what the second field holds, and the derivation. */
const OPERATIONS = {
  show: { label: "A", run: (a) => ({ steps: [["A", `${a}`]], result: a }) },
  coalesce: {
    label: "coalesce A",
    run: (a) => ({ steps: [["A", `${a}`], ["coalesced", `${coalesce(a)}`]], result: coalesce(a) }),
  },
  compose: { label: "A o B", second: "B: layout or tiler", run: deriveComposition },
  complement: {
    label: "complement of A", second: "extent, or empty", optional: true, run: deriveComplement,
  },
  ...Object.fromEntries(Object.keys(DIVIDES).map((form) => [`divide/${form}`, {
    label: `${form} divide`, second: "B: layout or tiler", run: (a, b) => deriveDivide(a, b, form),
  }])),
  ...Object.fromEntries(Object.keys(PRODUCTS).map((form) => [`product/${form}`, {
    label: `${form} product`, second: "B: layout or tiler",
    // Blocks are copied in the pattern of a layout; a bare shape is one there.
    run: (a, b) => deriveProduct(a, ["blocked", "raked"].includes(form) ? asLayout(b) : b, form),
  }])),
  ...Object.fromEntries(Object.keys(INVERSES).map((form) => [`inverse/${form}`, {
    label: `${form} inverse`, run: (a) => deriveInverse(a, form),
  }])),
};

function runOperation(name, first, second) {
  const operation = OPERATIONS[name];
  if (!operation) throw new Refusal(`no operation ${name}`);
  const a = parseLayout(first);
  if (!operation.second) return operation.run(a);
  const blank = !second.trim();
  if (blank && !operation.optional) throw new Refusal("the second field is empty: expected a layout or a tiler");
  const b = blank ? null : parse(second);
  return operation.run(a, operation.optional && isLayout(b) ? b.shape : b);
}
