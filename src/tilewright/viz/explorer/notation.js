// Int tuples, layouts and their notation: a JavaScript twin of tilewright/layout/{int_tuple,layout}.py.
// An int tuple is a number or an array of int tuples; null is the wildcard `_`.

class Refusal extends Error {}

const isTuple = Array.isArray;
const isNumber = (x) => typeof x === "number";

/** Standard notation; a rank-1 tuple keeps its comma. */
function fmt(t) {
  if (isTuple(t)) return "(" + t.map(fmt).join(",") + (t.length === 1 ? ",)" : ")");
  return t === null ? "_" : String(t);
}

const leavesOf = (t) => (isTuple(t) ? t.flatMap(leavesOf) : [t]);
const wrap = (t) => (isTuple(t) ? t : [t]);
const productOf = (t) => leavesOf(t).reduce((a, b) => a * b, 1);
const depthOf = (t) => (isTuple(t) ? 1 + Math.max(0, ...t.map(depthOf)) : 0);
const ceilDiv = (a, b) => {
  if (b === 0) throw new Refusal(`ceil_div: ${a} cannot be divided into pieces of size 0`);
  return Math.ceil(a / b);
};
const log2 = (n) => Math.floor(Math.log2(Math.max(n, 1)));

function ceilDivTuple(a, b) {
  if (isTuple(a)) {
    if (isTuple(b)) {
      if (b.length > a.length) throw new Refusal(`ceil_div: ${fmt(b)} has more modes than ${fmt(a)}`);
      return a.map((x, i) => (i < b.length ? ceilDivTuple(x, b[i]) : x));
    }
    return a.map((x) => {
      const part = ceilDivTuple(x, b);
      b = ceilDiv(b, productOf(x));
      return part;
    });
  }
  return isTuple(b) ? ceilDivTuple(a, productOf(b)) : ceilDiv(a, b);
}

class Swizzle {
  constructor(bits, base, shift) {
    if (bits < 0 || base < 0 || Math.abs(shift) < bits) {
      throw new Refusal(
        `Swizzle<${bits},${base},${shift}>: expected bits >= 0, base >= 0 and |shift| >= bits`);
    }
    Object.assign(this, { bits, base, shift });
  }
  get sourceMask() { return (2 ** this.bits - 1) * 2 ** (this.base + Math.max(0, this.shift)); }
  get targetMask() { return (2 ** this.bits - 1) * 2 ** (this.base + Math.max(0, -this.shift)); }
  at(x) {
    if (this.bits === 0) return x;
    // BigInt: offsets may have more than 31 bits.
    const chosen = BigInt(x) & BigInt(this.sourceMask);
    const moved = this.shift >= 0 ? chosen >> BigInt(this.shift) : chosen << BigInt(-this.shift);
    return Number(BigInt(x) ^ moved);
  }
  toString() { return `Sw<${this.bits},${this.base},${this.shift}>`; }
}

class Layout {
  constructor(shape, stride) {
    for (const s of leavesOf(shape)) {
      if (s === null || s < 0) throw new Refusal(`shape ${fmt(shape)}: expected extents >= 0, got ${fmt(s)}`);
    }
    this.shape = shape;
    this.stride = stride === undefined ? compactColMajor(shape) : stride;
    checkCongruent(this.shape, this.stride);
  }
  at(coord) { return dot(coord, this.shape, this.stride); }
  modes() { return wrap(this.shape).map((s, i) => new Layout(s, wrap(this.stride)[i])); }
  toString() { return `${fmt(this.shape)}:${fmt(this.stride)}`; }
}

/** inner(offset + outer(c)) */
class Composed {
  constructor(inner, offset, outer) { Object.assign(this, { inner, offset, outer }); }
  get shape() { return this.outer.shape; }
  get stride() { return this.outer.stride; }
  at(coord) { return this.inner.at(this.offset + this.outer.at(coord)); }
  modes() { return this.outer.modes().map((m) => this.withOuter(m)); }
  withOuter(outer) { return new Composed(this.inner, this.offset, outer); }
  toString() { return `${this.inner} o ${fmt(this.offset)} o ${this.outer}`; }
}

const isLayout = (x) => x instanceof Layout || x instanceof Composed;
const plainOf = (x) => (x instanceof Composed ? plainOf(x.outer) : x);
const sizeOf = (layout) => productOf(layout.shape);
const offsetsOf = (layout) => Array.from({ length: sizeOf(layout) }, (_, i) => layout.at(i));
const joinModes = (layouts) => new Layout(layouts.map((l) => l.shape), layouts.map((l) => l.stride));
const cosizeOf = (layout) => {
  const { shape, stride } = plainOf(layout);
  const steps = leavesOf(stride);
  return leavesOf(shape).reduce((sum, s, i) => sum + (s - 1) * Math.abs(steps[i]), 1);
};

function checkCongruent(shape, stride) {
  const fail = () => {
    throw new Refusal(
      `Layout: shape and stride have different profiles: ${fmt(shape)} against ${fmt(stride)}`);
  };
  if (stride === null || isTuple(shape) !== isTuple(stride)) fail();
  if (isTuple(shape)) {
    if (shape.length !== stride.length) fail();
    shape.forEach((s, i) => checkCongruent(s, stride[i]));
  }
}

function compactColMajor(shape) {
  let current = 1;
  const build = (s) => {
    if (isTuple(s)) return s.map(build);
    if (s === 1) return 0;
    const stride = current;
    current *= s;
    return stride;
  };
  return build(shape);
}

/** Inner product of the natural coordinate with the strides; the last mode is never wrapped. */
function dot(coord, shape, stride) {
  if (!isTuple(shape)) {
    if (isTuple(coord)) throw new Refusal(`coordinate ${fmt(coord)} does not fit shape ${fmt(shape)}`);
    return coord * stride + 0;
  }
  if (isTuple(coord)) {
    if (coord.length !== shape.length) {
      throw new Refusal(`coordinate ${fmt(coord)} does not fit shape ${fmt(shape)}`);
    }
    return coord.reduce((sum, c, i) => sum + dot(c, shape[i], stride[i]), 0);
  }
  let total = 0;
  for (let i = 0; i < shape.length; i++) {
    if (i === shape.length - 1) return total + dot(coord, shape[i], stride[i]);
    const extent = productOf(shape[i]);
    if (extent === 0) throw new Refusal(`division of ${coord} by a mode of size 0`);
    total += dot(coord % extent, shape[i], stride[i]);
    coord = Math.trunc(coord / extent);
  }
  return total;
}

/** Recursive descent over the notation; refusals name the position and what was expected. */
class Reader {
  constructor(text) {
    this.text = text;
    this.end = 0;
    this.start = 0;
    this.next = "";
    this.advance();
  }
  advance() {
    const taken = this.next;
    const token = /\s*(Sw<-?\d+,-?\d+,-?\d+>|-?\d+(?:@\d+)*|[_o(),:<>])/y;
    token.lastIndex = this.end;
    const match = token.exec(this.text);
    if (match === null && this.text.slice(this.end).trim()) {
      this.start = this.end;
      throw this.error("a number, '(' or '_'");
    }
    this.next = match ? match[1] : "";
    this.end = match ? token.lastIndex : this.text.length;
    this.start = this.end - this.next.length;
    return taken;
  }
  error(expected) {
    return new Refusal(`expected ${expected} at position ${this.start} of '${this.text}'`);
  }
  chain() {
    const head = this.layout();
    if (this.next !== "o") return head;
    if (!isLayout(head) && !(head instanceof Swizzle)) throw this.error("a swizzle or a layout before 'o'");
    this.advance();
    const second = this.layout();
    if (this.next !== "o") return new Composed(head, 0, asLayout(second)); // `Sw o L` for `Sw o 0 o L`
    if (!isNumber(second)) throw this.error("a number as offset before the second 'o'");
    this.advance();
    return new Composed(head, second, asLayout(this.chain()));
  }
  layout() {
    if (this.next.startsWith("Sw")) {
      const [bits, base, shift] = this.advance().slice(3, -1).split(",").map(Number);
      return new Swizzle(bits, base, shift);
    }
    if (this.next === "<") return this.list(">", () => this.layout());
    const shape = this.tuple();
    if (this.next !== ":") return shape;
    this.advance();
    return new Layout(shape, this.tuple());
  }
  list(close, item) {
    this.advance();
    const items = [];
    while (this.next !== close) {
      items.push(item());
      if (this.next === ",") this.advance();
      else if (this.next !== close) throw this.error(`',' or '${close}'`);
    }
    this.advance();
    return items;
  }
  tuple() {
    if (this.next === "(") return this.list(")", () => this.tuple());
    if (this.next === "_") {
      this.advance();
      return null;
    }
    if (!/^-?\d/.test(this.next)) throw this.error("a number, '(' or '_'");
    if (this.next.includes("@")) {
      throw new Refusal("coordinate strides (1@0) are not in this page; the Python command has them");
    }
    return Number(this.advance());
  }
}

function parse(text) {
  const reader = new Reader(text);
  const result = reader.chain();
  if (reader.next !== "") throw reader.error("end of text");
  return result;
}

/** A bare shape is compact column-major. */
function asLayout(value) {
  if (isLayout(value)) return value;
  if (value instanceof Swizzle || leavesOf(value).includes(null) || leavesOf(value).some(isLayout)) {
    throw new Refusal("expected a layout like (4,8):(8,1)");
  }
  return new Layout(value);
}

const parseLayout = (text) => asLayout(parse(text));

/** `Sw<3,4,3>` or `3,4,3`. */
function parseSwizzle(text) {
  const match = /^\s*(?:Sw<)?\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*>?\s*$/.exec(text);
  if (!match) throw new Refusal(`swizzle: expected B,M,S as in 3,4,3; got '${text}'`);
  return new Swizzle(...match.slice(1).map(Number));
}

function tilerText(tiler) {
  if (isTuple(tiler) && tiler.flat(Infinity).some(isLayout)) {
    return "<" + tiler.map(tilerText).join(",") + ">";
  }
  return isTuple(tiler) || tiler === null ? fmt(tiler) : String(tiler);
}
