// Facts and costs: twins of tilewright/layout/{analysis,coverage,swizzle_search}.py and viz/explain.py.

const BANKS = 32, BANK_BYTES = 4, WARP = 32, LIMIT = 65536;

const gcd = (a, b) => (b ? gcd(b, a % b) : Math.abs(a));

function maxAlignment(layout) {
  if (layout instanceof Composed) {
    let own = maxAlignment(layout.outer);
    if (layout.inner instanceof Swizzle && layout.inner.bits) own = gcd(own, 2 ** layout.inner.base);
    return gcd(own, layout.offset);
  }
  const modes = filterModes(layout).sort((x, y) => Math.abs(x[1]) - Math.abs(y[1]));
  let run = 1;
  while (modes.length && modes[0][1] === run) run *= modes.shift()[0];
  return modes.reduce((r, [, d]) => gcd(r, d), run);
}

/** true, false, or null where it was too large to decide. */
function isInjective(layout) {
  while (layout instanceof Composed && layout.inner instanceof Swizzle) layout = layout.outer;
  const size = sizeOf(layout);
  if (size <= LIMIT) return new Set(offsetsOf(layout)).size === size;
  if (layout instanceof Composed) return null;
  let reach = 0;
  const modes = pairsOf(layout).filter(([s]) => s !== 1).map(([s, d]) => [Math.abs(d), s]);
  for (const [d, s] of modes.sort((x, y) => x[0] - y[0] || x[1] - y[1])) {
    if (d === 0) return false;
    if (d <= reach) return null;
    reach += (s - 1) * d;
  }
  return true;
}

function isContiguous(layout, injective) {
  if (injective !== true) return injective;
  if (layout instanceof Layout) return sizeOf(INVERSES.right(layout)) === sizeOf(layout);
  if (sizeOf(layout) > LIMIT) return null;
  return offsetsOf(layout).every((o) => o >= 0 && o < sizeOf(layout));
}

function factsOf(layout) {
  const injective = isInjective(layout), size = sizeOf(layout);
  const seen = layout instanceof Composed && size <= LIMIT
    ? 1 + offsetsOf(layout).reduce((a, b) => Math.max(a, b), -1) : cosizeOf(layout);
  return {
    layout: String(layout), shape: fmt(layout.shape), stride: fmt(plainOf(layout).stride), size,
    cosize: String(seen), rank: wrap(layout.shape).length, depth: depthOf(layout.shape),
    coalesced: String(coalesce(layout)), is_injective: injective,
    is_contiguous: isContiguous(layout, injective), run: maxAlignment(layout),
  };
}

const elementBits = (bytes, bits) => bits || Math.min(32, 8 * bytes);

/** The byte address of every lane; `threads` is a layout of lane -> coordinate, or null. */
function laneAddresses(layout, threads, bytes, bits) {
  const width = elementBits(bytes, bits);
  const sw = layout instanceof Composed && layout.inner instanceof Swizzle ? layout.inner : null;
  if (sw && sw.bits && width * 2 ** sw.base < 8 * bytes) {
    throw new Refusal(`${sw} keeps blocks of ${2 ** sw.base} elements of ${width} bits together, ` +
      `but an access is ${bytes} bytes`);
  }
  const coords = offsetsOf(threads || new Layout(sizeOf(layout), 1));
  return coords.map((coord, lane) => {
    const address = layout.at(coord) * width / 8;
    if (!Number.isInteger(address)) {
      throw new Refusal(`element ${layout.at(coord)} of ${width} bits begins inside a byte`);
    }
    if (address % bytes) {
      throw new Refusal(`lane ${lane} accesses ${bytes} bytes at address ${address}, which is not ` +
        `a multiple of ${bytes}`);
    }
    return address;
  });
}

/** Phases of one access: lanes, the lanes of every word, and ways (words of the busiest bank). */
function bankPhases(addresses, bytes) {
  const perPhase = Math.min(WARP, WARP * BANK_BYTES / bytes), phases = [];
  for (let start = 0; start < addresses.length; start += perPhase) {
    const words = new Map(), lanes = [];
    for (let lane = start; lane < Math.min(start + perPhase, addresses.length); lane++) {
      lanes.push(lane);
      const last = Math.floor((addresses[lane] + bytes - 1) / BANK_BYTES);
      for (let w = Math.floor(addresses[lane] / BANK_BYTES); w <= last; w++) {
        words.set(w, [...(words.get(w) || []), lane]);
      }
    }
    const load = Array(BANKS).fill(0);
    for (const w of words.keys()) load[((w % BANKS) + BANKS) % BANKS]++;
    phases.push({ lanes, words, load, ways: Math.max(...load) });
  }
  return phases;
}

const worstWays = (addresses, bytes) => Math.max(1, ...bankPhases(addresses, bytes).map((p) => p.ways));

/** The smallest swizzle that frees the access of conflicts, or null. */
function smallestSwizzle(layout, threads, bytes, bits) {
  const width = elementBits(bytes, bits);
  const offsets = laneAddresses(layout, threads, bytes, bits).map((a) => Math.floor(a * 8 / width));
  const ways = (sw) => worstWays(offsets.map((o) => Math.floor(sw.at(o) * width / 8)), bytes);
  const base = log2(Math.ceil(8 * bytes / width));
  if (ways(new Swizzle(0, 0, 0)) <= 1) return new Swizzle(0, base, 0);
  const top = log2(Math.max(...offsets)) + 1;
  for (let b = 1; b <= 5; b++) {
    for (let low = base; low < top; low++) {
      for (let shift = b; shift < top - low; shift++) {
        const sw = new Swizzle(b, low, shift);
        if (ways(sw) <= 1) return sw;
      }
    }
  }
  return null;
}
