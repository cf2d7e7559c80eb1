// The algebra: twins of tilewright/layout/{modes,inverse,divide,multiply}.py.

/** `fn` on the plain layout under the swizzles. */
const onPlain = (layout, fn) =>
  layout instanceof Composed ? layout.withOuter(onPlain(layout.outer, fn)) : fn(layout);

function coalesceFlat(shapes, strides, keepTail) {
  const s = [], d = [];
  shapes.forEach((extent, i) => {
    if (extent === 1 && !(keepTail && i === shapes.length - 1)) return;
    const last = s.length - 1;
    if (last >= 0 && s[last] * d[last] === strides[i]) s[last] *= extent;
    else {
      s.push(extent);
      d.push(strides[i]);
    }
  });
  return [s, d];
}

function fromFlat(shapes, strides) {
  const [s, d] = coalesceFlat(shapes, strides, false);
  if (!s.length) return new Layout(1, 0);
  return s.length === 1 ? new Layout(s[0], d[0]) : new Layout(s, d);
}

const coalesce = (layout) => onPlain(layout, (plain) =>
  isTuple(plain.shape) && plain.shape.length ? fromFlat(leavesOf(plain.shape), leavesOf(plain.stride)) : plain);

function filterModes(layout) {
  const shrink = (s, d) => (isTuple(s) ? s.map((x, i) => shrink(x, d[i])) : d === 0 ? 1 : s);
  const flat = coalesce(new Layout(shrink(layout.shape, layout.stride), layout.stride));
  return pairsOf(flat).filter(([s, d]) => d !== 0 && s !== 1);
}

/** The modes that move, by stride and extent, as they are. */
const properModes = (layout) =>
  pairsOf(layout).filter(([s, d]) => s !== 1 && d !== 0).sort((x, y) => x[1] - y[1] || x[0] - y[0]);

function pairsOf(layout) {
  const strides = leavesOf(layout.stride);
  return leavesOf(layout.shape).map((s, i) => [s, strides[i]]);
}

/** Modes that fill the holes below each stride, and where the pattern ends. */
function gaps(layout) {
  const shapes = [], strides = [];
  let end = 1;
  properModes(layout).forEach(([s, d], i) => {
    const hole = Math.floor(d / end);
    if (hole < 1) {
      throw new Refusal(`complement: ${layout} is not injective: stride ${d} (sorted mode ${i}) ` +
        `lies below ${end}, where the modes before it end`);
    }
    if (hole > 1) {
      shapes.push(hole);
      strides.push(end);
    }
    end = s * d;
  });
  return { shapes, strides, end };
}

/** `extent` is a number, a shape, or null. */
function complement(layout, extent) {
  const { shapes, strides, end } = gaps(plainOf(layout));
  if (extent === null) return fromFlat(shapes, strides);
  return fromFlat([...shapes, productOf(ceilDivTuple(extent, end))], [...strides, end]);
}

function byMode(layout, tiler, fn) {
  const modes = layout.modes();
  if (tiler.length > modes.length) {
    throw new Refusal(`tiler ${tilerText(tiler)} has ${tiler.length} modes, the layout only ${modes.length}`);
  }
  return modes.map((m, i) => (i < tiler.length ? fn(m, tiler[i]) : m));
}

function divideOne(layout, tile) {
  if (isNumber(tile)) {
    if (tile < 1) throw new Refusal(`divide: a tile of ${tile} elements, expected at least 1`);
    if (!isTuple(layout.shape)) {
      return new Layout([tile, ceilDiv(layout.shape, tile)], [layout.stride, tile * layout.stride]);
    }
    tile = new Layout(tile, 1);
  }
  const rest = complement(tile, coalesce(layout).shape);
  let end = 1;
  const modes = pairsOf(tile).filter(([s, d]) => d !== 0 && s !== 1).map(([s, d]) => [d, s]);
  for (const [d, s] of modes.sort((x, y) => x[0] - y[0] || x[1] - y[1])) {
    if (d % end !== 0) {
      throw new Refusal(`divide: copies of tile ${tile} cannot fill ${layout}: stride ${d} is not a ` +
        `multiple of ${end}, where its smaller modes end`);
    }
    end = d * s;
  }
  return compose(layout, joinModes([tile, rest]));
}

const logicalDivide = (layout, tiler) => onPlain(layout, (plain) => {
  if (tiler === null) return plain;
  if (isTuple(tiler)) return joinModes(byMode(plain, tiler, logicalDivide));
  return divideOne(plain, tiler);
});

/** ((tile0, tile1, ..), (rest0, rest1, .., other..)) of a by-mode operation that splits a mode. */
function zipped(layout, tiler, split) {
  return onPlain(layout, (plain) => {
    if (!isTuple(tiler)) return split(plain, tiler);
    if (!tiler.length) return joinModes([new Layout([], []), plain]);
    const parts = byMode(plain, tiler, (m, t) => zipped(m, t, split)).slice(0, tiler.length);
    const rests = [...parts.map((p) => p.modes()[1]), ...plain.modes().slice(tiler.length)];
    return joinModes([joinModes(parts.map((p) => p.modes()[0])), joinModes(rests)]);
  });
}

function splitDivide(layout, tiler) {
  if (tiler !== null) return divideOne(layout, tiler);
  if (!isTuple(layout.shape)) return joinModes([layout, new Layout(1, 0)]);
  if (layout.shape.length === 2) return layout;
  throw new Refusal(`divide: None needs a scalar mode, or a pair (tile, rest); this mode is ${layout}`);
}

const spliceRest = (layout) => onPlain(layout, ({ shape, stride }) =>
  new Layout([shape[0], ...wrap(shape[1])], [stride[0], ...wrap(stride[1])]));
const spliceBoth = (layout) => onPlain(layout, ({ shape, stride }) =>
  new Layout([...wrap(shape[0]), ...wrap(shape[1])], [...wrap(stride[0]), ...wrap(stride[1])]));

const DIVIDES = {
  logical: logicalDivide,
  zipped: (a, t) => zipped(a, t, splitDivide),
  tiled: (a, t) => spliceRest(zipped(a, t, splitDivide)),
  flat: (a, t) => spliceBoth(zipped(a, t, splitDivide)),
};

function multiply(block, tiler) {
  if (isNumber(tiler) && tiler < 1) throw new Refusal(`product: ${tiler} copies, expected at least 1`);
  const { shapes, strides, end } = gaps(block);
  const free = new Layout([...shapes, 1], [...strides, end]);
  return joinModes([block, compose(free, tiler instanceof Layout ? tiler : new Layout(tiler, 1))]);
}

const logicalProduct = (block, tiler) => onPlain(block, (plain) => {
  if (tiler === null) return plain;
  if (isTuple(tiler)) return joinModes(byMode(plain, tiler, logicalProduct));
  return multiply(plain, tiler);
});

const splitProduct = (block, tiler) =>
  tiler === null ? joinModes([block, new Layout(1, 0)]) : multiply(block, tiler);

const woven = (raked) => (block, tiler) => onPlain(block, (plain) => {
  if (!(tiler instanceof Layout)) throw new Refusal("blocked_product: expected a layout as tiler");
  const rank = Math.max(wrap(plain.shape).length, wrap(tiler.shape).length);
  const [inner, outer] = multiply(padRank(plain, rank), padRank(tiler, rank)).modes();
  const pairs = inner.modes().map((m, i) => [m, outer.modes()[i]]);
  return joinModes(pairs.map(([x, y]) => joinModes(raked ? [y, x] : [x, y])));
});

function padRank(layout, rank) {
  const all = (value) => Array(Math.max(rank - wrap(layout.shape).length, 0)).fill(value);
  return new Layout([...wrap(layout.shape), ...all(1)], [...wrap(layout.stride), ...all(0)]);
}

const PRODUCTS = {
  logical: logicalProduct,
  zipped: (a, t) => zipped(a, t, splitProduct),
  tiled: (a, t) => spliceRest(zipped(a, t, splitProduct)),
  flat: (a, t) => spliceBoth(zipped(a, t, splitProduct)),
  blocked: woven(false),
  raked: woven(true),
};

function invert(layout, name, chain) {
  if (layout instanceof Composed) {
    if (layout.offset !== 0) throw new Refusal(`${name}: ${layout} has offset ${layout.offset}, expected 0`);
    const outer = invert(layout.outer, name, chain);
    return compose(outer, layout.inner instanceof Swizzle ? layout.inner : invert(layout.inner, name, chain));
  }
  let prefix = 1;
  const triples = pairsOf(coalesce(layout)).map(([s, d]) => {
    const triple = [s, d, prefix];
    prefix *= s;
    return triple;
  });
  return chain(name, layout, triples);
}

function rightChain(_name, _layout, modes) {
  const shapes = [], strides = [], left = modes.filter(([s]) => s !== 1);
  for (let end = 1; ;) {
    const at = left.findIndex(([, d]) => d === end);
    if (at < 0) return fromFlat(shapes, strides);
    const [[s, , prefix]] = left.splice(at, 1);
    shapes.push(s);
    strides.push(prefix);
    end *= s;
  }
}

function leftChain(name, layout, modes) {
  let kept = modes.filter(([s, d]) => s !== 1 && d !== 0);
  const sign = kept.length ? Math.sign(kept[0][1]) : 1;
  if (kept.some(([, d]) => Math.sign(d) !== sign)) {
    throw new Refusal(`${name}: ${layout} mixes positive and negative strides`);
  }
  kept = kept.map(([s, d, p]) => [s, sign * d, p]).sort((x, y) => x[1] - y[1]);
  checkDigits(name, layout, kept);
  const shapes = [], strides = [];
  let before = 1, prefix = 0;
  for (const [, d, p] of kept) {
    shapes.push(Math.floor(d / before));
    strides.push(sign * prefix);
    [before, prefix] = [d, p];
  }
  if (kept.length) {
    shapes.push(kept.at(-1)[0]);
    strides.push(sign * prefix);
  }
  return fromFlat(shapes, strides);
}

function checkDigits(name, layout, kept) {
  let highest = 0;
  kept.forEach(([s, d, p], i) => {
    const last = i === kept.length - 1;
    if (!last && kept[i + 1][1] % d !== 0) {
      throw new Refusal(`${name}: stride ${kept[i + 1][1]} of ${layout} is not a multiple of stride ${d}`);
    }
    highest += (s - 1) * d;
    const reached = Math.floor(highest / d);
    const digit = last ? reached : Math.min(Math.floor(kept[i + 1][1] / d) - 1, reached);
    const goesOn = last && p * s === sizeOf(layout) && Math.abs(layout.at(p * s)) === s * d;
    if (digit >= s && !goesOn) {
      throw new Refusal(`${name}: ${layout} reaches digit ${digit} of stride ${d}, whose extent is ${s}`);
    }
  });
}

const INVERSES = {
  right: (a) => invert(a, "right_inverse", rightChain),
  left: (a) => invert(a, "left_inverse", leftChain),
};
