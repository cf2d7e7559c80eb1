// The page as a program under test: `#run=<JSON of a list of cases>` writes the answers into <pre>.

const CASES = {
  derive: ([op, a, b]) => {
    const { steps, result } = runOperation(op, a, b || "");
    return { steps, result: String(result), offsets: sizeOf(result) <= 256 ? offsetsOf(result) : null };
  },
  swizzle: ([sw, a]) => {
    const { steps, result } = deriveSwizzle(parseSwizzle(sw), parseLayout(a));
    return { steps, result: String(result), offsets: sizeOf(result) <= 256 ? offsetsOf(result) : null };
  },
  facts: ([a]) => factsOf(parseLayout(a)),
  banks: ([a, threads, bytes, bits]) => {
    const [layout, lanes] = [parseLayout(a), threads ? parseLayout(threads) : null];
    const found = smallestSwizzle(layout, lanes, bytes, bits);
    return {
      ways: bankPhases(laneAddresses(layout, lanes, bytes, bits), bytes).map((p) => p.ways),
      smallest: found && String(found),
    };
  },
  atom: ([name, which]) => {
    const held = {};
    for (const [index, owners] of ownersOf(findAtom(name), which)) held[index] = owners;
    return held;
  },
};

function answer({ kind, args }) {
  try {
    return CASES[kind](args);
  } catch (error) {
    if (error instanceof Refusal) return { refused: error.message };
    return { crashed: String(error.stack || error) };
  }
}

function runVectors(text) {
  document.body.replaceChildren();
  const out = document.createElement("pre");
  out.id = "answers";
  out.textContent = JSON.stringify(JSON.parse(text).map(answer));
  document.body.append(out);
}
