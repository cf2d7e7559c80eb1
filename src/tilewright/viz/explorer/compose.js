// Composition: the twin of tilewright/layout/{static,compose,decide}.py.  A's modes, merged, split an
// index into digits; a mode of B walks them (rule DIGITS), together they must not carry (rule CARRY);
// what this leaves open is decided by rules STEPS and VALUES.

class Uneven extends Error {}

/** Merged modes of the same function, beyond the domain too. */
function mergeModes(layout) {
  const [s, d] = coalesceFlat(leavesOf(layout.shape), leavesOf(layout.stride), true);
  return s.length ? { sizes: s, strides: d } : { sizes: [1], strides: [0] };
}

const pack = (sizes, strides) =>
  sizes.length > 1 ? [sizes, strides] : sizes.length ? [sizes[0], strides[0]] : [1, 0];

/** `fn` of every leaf s:d, in the profile of the shape; null as soon as one is null. */
function mapModes(s, d, fn) {
  if (!isTuple(s)) return fn(s, d);
  const parts = s.map((x, i) => mapModes(x, d[i], fn));
  return parts.includes(null) ? null : [parts.map((p) => p[0]), parts.map((p) => p[1])];
}

function walkLeaf(s, d, a, reach) {
  if (d === 0) return [s, 0];
  if (s === 1) return [1, 0];
  const { sizes, strides } = a, last = sizes.length - 1, sign = Math.sign(d);
  reach[last] |= d > 0 ? 1 : 2;
  if (last === 0) return [s, d * strides[0]];
  let rest = s, step = Math.abs(d), j = 0;
  const outS = [], outD = [];
  for (; j < last; j++) {
    const extent = sizes[j];
    const fail = (need) => {
      throw new Uneven(`${s}:${d} of B does not walk mode ${j} of A evenly: expected ${need} == 0`);
    };
    if (step >= extent) {
      if (step % extent) fail(`${step} % ${extent}`);
      step /= extent;
      continue;
    }
    const top = (rest - 1) * step;
    if (top < extent) {
      reach[j] += top;
      break;
    }
    const fits = Math.floor(extent / step);
    if (extent % step) fail(`${extent} % ${step}`);
    if (rest % fits) fail(`${rest} % ${fits}`);
    reach[j] += extent - step;
    outS.push(fits);
    outD.push(sign * step * strides[j]);
    rest /= fits;
    step = 1;
  }
  outS.push(rest);
  outD.push(sign * step * strides[j]);
  return outS.length === 1 ? [outS[0], outD[0]] : [outS, outD];
}

/** The first digit that may carry, or -1. */
function carryMode(a, reach) {
  const mixed = reach.at(-1) === 3;
  return reach.slice(0, -1).findIndex((r, j) => r >= a.sizes[j] || (mixed && r));
}

function composeLayouts(a, b) {
  const merged = mergeModes(a), reach = merged.sizes.map(() => 0);
  let why;
  try {
    const [shape, stride] = mapModes(b.shape, b.stride, (s, d) => walkLeaf(s, d, merged, reach));
    const mode = carryMode(merged, reach);
    if (mode < 0) return new Layout(shape, stride);
    why = `modes of B carry across mode ${mode} of A (size ${merged.sizes[mode]})`;
  } catch (error) {
    if (!(error instanceof Uneven)) throw error;
    why = error.message;
  }
  const found = bySteps(merged, b) || byValues(merged, b);
  if (found) return new Layout(...found);
  throw new Refusal(`composition: ${why} (A = ${a}, B = ${b})`);
}

/** Rule STEPS: equally spaced up to the first step at which some digit overflows. */
function bySteps(a, b) {
  const last = a.sizes.length - 1;
  const reach = { 1: a.sizes.map(() => 0), "-1": a.sizes.map(() => 0) };
  const found = mapModes(b.shape, b.stride, (s, d) => {
    if (d === 0 || s === 1) return [s, 0];
    const sign = Math.sign(d), outS = [], outD = [];
    let step = Math.abs(d), rest = s;
    while (rest > 1) {
      const digits = digitsOf(step, a.sizes);
      const free = digits.slice(0, last).map((n, j) => (n ? Math.ceil(a.sizes[j] / n) : rest));
      const here = Math.min(rest, ...free);
      if (rest % here) return null;
      digits.forEach((n, j) => { reach[sign][j] += (here - 1) * n; });
      outS.push(here);
      outD.push(sign * digits.reduce((sum, n, j) => sum + n * a.strides[j], 0));
      rest /= here;
      step *= here;
    }
    return pack(outS, outD);
  });
  const [up, down] = [reach[1], reach[-1]];
  const touched = up.filter((n, j) => n || down[j]).length;
  if (up.some((n) => n) && down.some((n) => n) && touched > 1) return null;
  const fits = a.sizes.slice(0, last).every((s, j) => Math.max(up[j], down[j]) < s);
  return fits ? found : null;
}

function digitsOf(index, sizes) {
  const found = [];
  for (const extent of sizes.slice(0, -1)) {
    found.push(index % extent);
    index = Math.floor(index / extent);
  }
  return [...found, index];
}

/** Rule VALUES: the longest equally spaced beginning is the first mode of the only layout. */
function byValues(a, b) {
  if (sizeOf(b) > 4096) return null;
  const value = (x) => dot(x, a.sizes, a.strides);
  const walk = (s, d) => Array.from({ length: s }, (_, i) => value(i * d));
  const found = mapModes(b.shape, b.stride, (s, d) => layoutOf(walk(s, d)));
  if (!found) return null;
  let points = [0], sums = [0];
  for (const [s, d] of pairsOf(b)) {
    const offsets = walk(s, d);
    points = offsets.flatMap((_, i) => points.map((x) => x + i * d));
    sums = offsets.flatMap((o) => sums.map((y) => y + o));
  }
  const wrong = points.findIndex((x, i) => value(x) !== sums[i]);
  if (wrong >= 0) {
    throw new Refusal(`composition: modes of B carry: A(B(${wrong})) = ${value(points[wrong])}, but ` +
      `by modes ${sums[wrong]} (B = ${b})`);
  }
  return found;
}

function layoutOf(offsets) {
  const sizes = [], strides = [];
  while (offsets.length > 1) {
    const step = offsets[1], at = offsets.findIndex((x, i) => x !== i * step);
    const run = at < 0 ? offsets.length : at;
    if (offsets[0] || offsets.length % run) return null;
    const starts = offsets.filter((_, i) => i % run === 0);
    if (offsets.some((x, i) => x !== starts[Math.floor(i / run)] + (i % run) * step)) return null;
    sizes.push(run);
    strides.push(step);
    offsets = starts;
  }
  return !offsets.length || offsets[0] === 0 ? pack(sizes, strides) : null;
}

function compose(a, b) {
  if (a instanceof Swizzle) {
    if (isLayout(b)) return new Composed(a, 0, b);
    throw new Refusal(`composition: expected a layout after ${a}`);
  }
  if (a instanceof Composed) return a.withOuter(compose(a.outer, b));
  if (b instanceof Layout) return composeLayouts(a, b);
  if (b === null) return a;
  if (isTuple(b)) {
    const modes = a.modes();
    if (b.length > modes.length) {
      throw new Refusal(`composition: tiler of ${b.length} modes for a layout of ${modes.length}`);
    }
    return joinModes(b.map((t, i) => compose(modes[i], t)));
  }
  if (b instanceof Swizzle) return beforeSwizzle(a, b);
  if (b instanceof Composed) {
    if (!(b.inner instanceof Swizzle)) return new Composed(compose(a, b.inner), b.offset, b.outer);
    const moved = beforeSwizzle(a, b.inner);
    if (b.offset === 0) return moved.withOuter(compose(a, b.outer));
    return new Composed(moved.inner, 0, new Composed(a, b.offset, b.outer));
  }
  return compose(a, new Layout(b, 1));
}

/** A o Sw == Sw' o A, where A moves the swizzled bits as single bits. */
function beforeSwizzle(a, sw) {
  if (sw.bits === 0) return new Composed(sw, 0, a);
  const fail = () => {
    throw new Refusal(
      `composition: ${a} does not move the bits of ${sw} as bits; the composition is no swizzled layout`);
  };
  let seen = 0;
  for (const [s, d] of pairsOf(a)) {
    if (s < 1 || s & (s - 1)) fail();
    if (s === 1) continue;
    const mask = (s - 1) * d;
    if (d < 1 || d & (d - 1) || mask & seen) fail();
    seen |= mask;
  }
  if (Math.max(sw.sourceMask, sw.targetMask) >= sizeOf(a)) fail();
  return new Composed(makeSwizzle(a.at(sw.sourceMask), a.at(sw.targetMask)), 0, a);
}

function makeSwizzle(source, target) {
  const count = (x) => x.toString(2).replaceAll("0", "").length;
  const low = (x) => log2(x & -x);
  const bits = count(source);
  for (const mask of [source, target]) {
    if (count(mask) !== bits || mask !== (2 ** bits - 1) * 2 ** low(mask) || source & target) {
      throw new Refusal(`make_swizzle: masks ${source} and ${target} are not runs of equally many bits`);
    }
  }
  return new Swizzle(bits, Math.min(low(source), low(target)), low(source) - low(target));
}
