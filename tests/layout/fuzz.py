"""Random compositions, divides and complements against brute force.

    python tests/layout/fuzz.py --count 1000000 --save benchmarks/results/layout_fuzz.json

The oracle knows nothing of the algebra: it lists the values that a result must have, and decides by
trying every split whether *any* layout of the right profile has these values.  So every answer is
checked on the whole domain, and every refusal is checked to be one: `wrong` and `refused_a_layout`
must be 0.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from tilewright.errors import LayoutError
from tilewright.layout import Layout, complement, composition, logical_divide

Leaves = list[tuple[int, int]]

# ---------------------------------------------------------------- the oracle


def leaves_of(layout: Any) -> Leaves:
    def walk(s: Any, d: Any) -> Iterator[tuple[int, int]]:
        if isinstance(s, tuple):
            for x, y in zip(s, d, strict=True):
                yield from walk(x, y)
        else:
            yield s, d

    return list(walk(layout.shape, layout.stride))


def at(leaves: Leaves, index: int) -> int:
    """The definition: split colexicographically, the last leaf unbounded; -x mirrors x."""
    if index < 0:
        return -at(leaves, -index)
    total = 0
    for s, d in leaves[:-1]:
        total += index % s * d
        index //= s
    return total + index * leaves[-1][1]


def listed(leaves: Leaves) -> list[int]:
    """All offsets, first leaf fastest."""
    found = [0]
    for s, d in leaves:
        found = [x + i * d for i in range(s) for x in found]
    return found


def is_layout(values: list[int]) -> bool:
    """Whether some layout has these values: tries every length of a first mode."""
    n = len(values)
    if n == 1:
        return values[0] == 0
    step = values[1]
    for s in range(2, n + 1):
        if values[s - 1] != (s - 1) * step:
            return False
        if n % s:
            continue
        starts = values[::s]
        if all(values[i] == starts[i // s] + i % s * step for i in range(n)) and is_layout(starts):
            return True
    return False


def splits(values: list[int], sizes: list[int]) -> bool:
    """Whether some layout with one (splittable) mode for each of `sizes` has these values."""
    place, axes = 1, []
    for s in sizes:
        axes.append([values[i * place] for i in range(s)])
        place *= s
    sums = [0]
    for axis in axes:
        sums = [x + y for y in axis for x in sums]
    return sums == values and all(is_layout(axis) for axis in axes)


def tiling(tile: list[int], target: int) -> list[int] | None:
    """The offsets at which copies of `tile` fill [0, target) without overlap, running over its end
    by less than one period; None if none do.  Each is forced: the lowest hole must be filled next.
    """
    covered: set[int] = set()
    starts = []
    lowest = 0
    while lowest < target:
        copy = {lowest + x for x in tile}
        if len(copy) != len(tile) or min(copy) < lowest or copy & covered:
            return None
        covered |= copy
        starts.append(lowest)
        while lowest in covered:
            lowest += 1
    return starts


def distinct(layout: Any) -> list[int]:
    """The image of `layout`, its stride-0 modes counted once."""
    return listed([(s, d) for s, d in leaves_of(layout) if d != 0 and s != 1])


def compatible(a: Any, b: Any) -> bool:
    if not isinstance(a, tuple):
        n = 1
        for x in b if isinstance(b, tuple) else (b,):
            n *= x
        return bool(n == a)
    return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))


# ---------------------------------------------------------------- random layouts

EXTENTS = (1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 8, 9, 12)


def random_shape(rng: random.Random, limit: int) -> Any:
    modes: list[Any] = []
    size = 1
    for _ in range(rng.randint(1, 4)):
        leaves = []
        for _ in range(rng.choice((1, 1, 2))):
            s = rng.choice(EXTENTS)
            s = 1 if size * s > limit else s
            size *= s
            leaves.append(s)
        modes.append(leaves[0] if len(leaves) == 1 else tuple(leaves))
    return modes[0] if len(modes) == 1 and rng.random() < 0.5 else tuple(modes)


def random_layout(rng: random.Random, limit: int, negative: float = 0.0) -> Layout:
    """Compact in any order, padded, broadcast, or of free strides; some strides run backwards."""
    shape = random_shape(rng, limit)
    sizes = [s for s, _ in leaves_of(Layout(shape))]
    strides = [0] * len(sizes)
    kind = rng.choice(("compact", "compact", "padded", "free"))
    step = 1
    for k in rng.sample(range(len(sizes)), len(sizes)):
        strides[k] = rng.randint(0, 24) if kind == "free" else step
        step *= sizes[k]
        if kind == "padded":
            step = step * rng.choice((1, 1, 2, 3)) + rng.choice((0, 0, 1))
    for k in range(len(sizes)):
        roll = rng.random()
        strides[k] = 0 if roll < 0.08 else strides[k]
        strides[k] = -strides[k] if rng.random() < negative else strides[k]

    def arrange(t: Any) -> Any:
        return tuple(map(arrange, t)) if isinstance(t, tuple) else strides.pop(0)

    return Layout(shape, arrange(shape))


# ---------------------------------------------------------------- the three checks


class Wrong(AssertionError):
    """An answer that is not the function, or the refusal of a layout."""


def check_composition(rng: random.Random) -> str:
    a = random_layout(rng, 600, negative=0.05)
    b = random_layout(rng, 48, negative=rng.choice((0, 0, 0.3)))
    a_leaves, b_leaves = leaves_of(a), leaves_of(b)
    want = [at(a_leaves, x) for x in listed(b_leaves)]
    try:
        r = composition(a, b)
    except LayoutError as error:
        if splits(want, [s for s, _ in b_leaves]):
            raise Wrong(f"refused_a_layout: {a} o {b}: {want}") from None
        if f"A = {a}" not in str(error) or f"B = {b}" not in str(error):
            raise Wrong(f"wrong: {a} o {b} is refused without its operands") from None
        return "refused_not_a_layout"
    if listed(leaves_of(r)) != want or not compatible(b.shape, r.shape):
        raise Wrong(f"wrong: {a} o {b} = {r}, expected {want}")
    return "equal"


def check_divide(rng: random.Random) -> str:
    a, b = random_layout(rng, 240), random_layout(rng, 24)
    a_leaves, b_leaves = leaves_of(a), leaves_of(b)
    total = len(listed(a_leaves))
    starts = tiling(distinct(b), total)
    tile = listed(b_leaves)
    try:
        r = logical_divide(a, b)
    except LayoutError:
        if starts is None:
            return "refused_no_tiling"
        want = [at(a_leaves, x + y) for y in starts for x in tile]
        if splits(want, [s for s, _ in b_leaves] + [len(starts)]):
            if len(starts) * len(distinct(b)) > total:
                return "refused_padding"
            raise Wrong(f"refused_a_layout: {a} divided by {b}") from None
        return "refused_not_a_layout"
    if starts is None:
        raise Wrong(f"wrong: {a} divided by {b} = {r}, but copies of the tile do not fill it")
    count = len(listed(leaves_of(r))) // len(tile)
    if count > len(starts):  # padded by whole tiles: where does the tiling go on?
        starts = tiling(distinct(b), (max(distinct(b)) + 1) * count + total) or []
    want = [at(a_leaves, x + y) for y in starts[:count] for x in tile]
    if listed(leaves_of(r)) != want or len(starts) < count or not compatible(b.shape, r.shape[0]):
        raise Wrong(f"wrong: {a} divided by {b} = {r}, expected {want}")
    return "equal" if count * len(distinct(b)) == total else "equal_padded"


def check_complement(rng: random.Random) -> str:
    a = random_layout(rng, 60, negative=rng.choice((0, 0, 0, 0.2)))
    target = rng.randint(1, 240)
    image = distinct(a)
    try:
        r = listed(leaves_of(complement(a, target)))
    except LayoutError as error:
        injective = len(set(image)) == len(image)
        said = "is not injective" in str(error)
        if said == injective and min(image) >= 0:
            raise Wrong(f"wrong: complement of {a} refused for the wrong reason: {error}") from None
        if tiling(image, max(image) + 1) is not None:
            raise Wrong(f"refused_a_layout: complement({a}, {target})") from None
        return "refused_not_a_layout"
    end = max((s * d for s, d in leaves_of(a) if d and s > 1), default=1)
    ordered = all(x < y for x, y in pairwise(r))
    # A target below the lowest clash may be filled by copies that clash later.
    nested = tiling(image, max(image) + 1) is not None
    starts = tiling(image, target) if nested else None
    covers = starts is None or max(image) + max(r) + 1 >= target
    bounded = max(r) + 1 <= -(-target // end) * end
    if not ordered or set(r[1:]) & set(image) or not covers or not bounded:
        raise Wrong(f"wrong: complement({a}, {target}) = {r} breaks a law")
    if starts is None:
        return "equal_laws_only"
    if r[: len(starts)] != starts:
        raise Wrong(f"wrong: complement({a}, {target}) = {r}, expected {starts}")
    return "equal"


CHECKS: tuple[tuple[Callable[[random.Random], str], int], ...] = (
    (check_composition, 60),
    (check_divide, 25),
    (check_complement, 15),
)


def fuzz(count: int, seed: int, stop: bool = True) -> tuple[Counter[str], list[str]]:
    """`count` random cases: how each kind ended, and the cases that are wrong."""
    rng = random.Random(seed)
    checks = [check for check, weight in CHECKS for _ in range(weight)]
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for _ in range(count):
        check = rng.choice(checks)
        kind = check.__name__.removeprefix("check_")
        try:
            counts[f"{kind}/{check(rng)}"] += 1
        except Wrong as case:
            counts[f"{kind}/{str(case).split(':')[0]}"] += 1
            wrong.append(str(case))
            if stop and len(wrong) >= 20:
                break
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, help="store the counts here as JSON")
    options = parser.parse_args()
    start = time.perf_counter()
    counts, wrong = fuzz(options.count, options.seed)
    total = Counter[str]()
    for key, n in counts.items():
        total[key.split("/")[1]] += n
    result = {
        "command": "python " + " ".join(["tests/layout/fuzz.py", *sys.argv[1:]]),
        "python": platform.python_version(),
        "count": sum(counts.values()),
        "seed": options.seed,
        "seconds": round(time.perf_counter() - start, 1),
        "wrong": total["wrong"],
        "refused_a_layout": total["refused_a_layout"],
        "totals": dict(sorted(total.items())),
        "by_operation": dict(sorted(counts.items())),
    }
    print("\n".join(wrong))
    print(json.dumps(result, indent=1))
    if options.save:
        options.save.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
