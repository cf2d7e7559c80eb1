"""Random programs with loops, branches, exits and stores give what Python gives."""

import importlib.util
import random

import numpy as np
import pytest

NAMES = ("a", "b", "c")


class Writer:
    """Writes one random function body; every loop ends, every variable has a value."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lines = []
        self.slot = 0
        self.fresh = 0

    def expression(self):
        rng = self.rng
        x, y = rng.choice(NAMES), rng.choice((*NAMES, str(rng.randint(-3, 5))))
        return rng.choice(
            (
                f"{x} + {y}",
                f"{x} - {y}",
                f"({x} * 3 + {y}) % 17",
                f"{x} // 2 + {y}",
                f"({x} if {self.condition()} else {y})",
                f"helper({x}, {y})",
            )
        )

    def condition(self):
        rng = self.rng
        x, y = rng.choice(NAMES), rng.choice((*NAMES, str(rng.randint(-2, 6))))
        simple = f"{x} {rng.choice(('<', '<=', '==', '!=', '>'))} {y}"
        if rng.random() < 0.3:
            return f"{simple} {rng.choice(('and', 'or'))} {rng.choice(NAMES)} > 0"
        return simple

    def block(self, depth, indent, loop):
        for _ in range(self.rng.randint(1, 3)):
            self.statement(depth, indent, loop)

    def put(self, indent, text):
        self.lines.append("    " * indent + text)

    def statement(self, depth, indent, loop):
        rng = self.rng
        kind = rng.random()
        if depth == 0 or kind < 0.35:
            name = rng.choice(NAMES)
            self.put(indent, f"{name} = {self.expression()}")
            if rng.random() < 0.5:
                self.slot = (self.slot + 1) % 8
                self.put(indent, f"put({self.slot}, get({rng.randint(0, 7)}) + {name})")
        elif kind < 0.6:
            self.put(indent, f"if {self.condition()}:")
            self.block(depth - 1, indent + 1, loop)
            if rng.random() < 0.6:
                self.put(indent, "else:")
                self.block(depth - 1, indent + 1, loop)
        elif kind < 0.75:
            self.fresh += 1
            index = f"i{self.fresh}"
            self.put(indent, f"for {index} in range({rng.choice(NAMES)} % 4):")
            self.block(depth - 1, indent + 1, True)
            self.put(indent + 1, f"a = (a + {index}) % 50")
        elif kind < 0.87:
            self.fresh += 1
            count = f"n{self.fresh}"
            self.put(indent, f"{count} = 0")
            self.put(indent, f"while {self.condition()}:")
            self.put(indent + 1, f"{count} += 1")
            self.put(indent + 1, f"if {count} > {rng.randint(1, 4)}:")
            self.put(indent + 2, "break")
            self.block(depth - 1, indent + 1, True)
        elif loop and kind < 0.95:
            self.put(indent, f"if {self.condition()}:")
            self.put(indent + 1, rng.choice(("break", "continue")))
        else:
            self.put(indent, f"if {self.condition()}:")
            self.put(indent + 1, "return a - b")


def program(seed):
    writer = Writer(seed)
    writer.block(3, 1, False)
    writer.block(3, 1, False)
    helper = Writer(seed + 1000)
    helper.rng.random()
    body = "\n".join(writer.lines)
    return f"""import tilewright.tile as ct


def helper(x, y):
    if x > y:
        return x - y
    for i in range(3):
        if x + i == y:
            return i * 10
    return y % 7


def body(put, get, a, b, c):
{body}
    return a + b * 2 + c * 3


@ct.kernel
def kernel(out, memory, a, b, c):
    def put(i, x):
        ct.store(memory, i, x)

    def get(i):
        return ct.load(memory, i, ()) % 1000

    ct.store(out, 0, body(put, get, a, b, c))
"""


def loaded(text, path):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(10))
def test_a_random_program_is_what_python_runs(run, tmp_path, seed):
    module = loaded(program(seed), tmp_path / f"program_{seed}.py")
    for args in ((1, 2, 3), (-4, 7, 7)):
        memory = [0] * 8
        wanted = module.body(memory.__setitem__, lambda i, m=memory: m[i] % 1000, *args)
        out, stored, *_ = run(
            module.kernel, (1,), np.zeros(1, np.int32), np.zeros(8, np.int32), *args, orders=1
        )
        assert out[0] == wanted, program(seed)
        np.testing.assert_array_equal(stored, memory)
