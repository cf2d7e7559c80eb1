"""Liveness: which names a branch or loop statement hands on."""

import ast
import textwrap

import pytest

from tilewright.lang.liveness import Liveness, assigned


def carried(text, kind):
    tree = ast.parse(textwrap.dedent(text))
    live = Liveness(tree.body)
    found = [n for n in ast.walk(tree) if isinstance(n, kind)]
    return [sorted(live.carried(node)) for node in found]


CASES = [
    ("read after", "x = 0\nif c:\n    x = 1\n    t = 2\nuse(x)", ast.If, [["x"]]),
    ("dead after", "if c:\n    x = 1\nx = 2\nuse(x)", ast.If, [[]]),
    ("either arm", "if c:\n    x = 1\nelse:\n    y = 1\nuse(x, y)", ast.If, [["x", "y"]]),
    ("next iteration", "for i in r:\n    use(x)\n    x = i", ast.For, [["x"]]),
    ("written before read", "for i in r:\n    x = i\n    use(x)", ast.For, [[]]),
    ("augmented", "for i in r:\n    x += i", ast.For, [["x"]]),
    ("the index, if read after", "for i in r:\n    pass\nuse(i)", ast.For, [["i"]]),
    ("a reused index", "for i in r:\n    use(i)\nfor i in s:\n    use(i)", ast.For, [[], []]),
    ("the condition", "while n < 3:\n    n = n + k\n    m = n", ast.While, [["n"]]),
    ("nested", "for i in r:\n    for j in s:\n        x = f(x)\nuse(x)", ast.For, [["x"], ["x"]]),
    ("break", "while True:\n    x = 1\n    if c:\n        break\n    x = 2\nuse(x)", ast.If, [[]]),
    ("return ends it", "if c:\n    x = 1\nreturn y", ast.If, [[]]),
    ("a closure reads it", "f = lambda: x\nif c:\n    x = 1\nf()", ast.If, [["x"]]),
    ("subscripts are reads", "if c:\n    x[0] = 1\nuse(x)", ast.If, [[]]),
    ("handlers read it", "try:\n    if c:\n        x = 1\nexcept E:\n    use(x)", ast.If, [["x"]]),
    ("with", "if c:\n    with a as x:\n        y = x\nuse(y)", ast.If, [["y"]]),
    ("match", "if c:\n    x = 1\nmatch x:\n    case 1:\n        pass", ast.If, [["x"]]),
    ("del", "if c:\n    x = 1\ndel x\nuse(x)", ast.If, [[]]),
    ("import", "if c:\n    import a.b\nuse(a)", ast.If, [["a"]]),
]


@pytest.mark.parametrize(
    ("text", "kind", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_carried(text, kind, expected):
    if "return" in text:
        text = "def f():\n" + textwrap.indent(text, "    ")
        tree = ast.parse(text).body[0]
        live = Liveness(tree.body)
        assert [sorted(live.carried(n)) for n in ast.walk(tree) if isinstance(n, kind)] == expected
    else:
        assert carried(text, kind) == expected


def test_names_that_the_second_arm_reads_are_put_back():
    tree = ast.parse("if c:\n    t = 1\n    x = t\nelse:\n    x = t\nuse(x)")
    live = Liveness(tree.body)
    assert live.restored(tree.body[0]) == {"t"}
    assert live.carried(tree.body[0]) == {"x"}


def test_assigned_keeps_to_its_scope():
    tree = ast.parse(
        "a, (b, *c) = r\ndef f():\n    hidden = 1\n[x for x in y]\n[(w := x) for x in y]\n"
        "import p.q as pq, m.n\nwith o as d:\n    pass\nclass C:\n    inner = 1\n"
        "try:\n    pass\nexcept E as e:\n    pass\nlambda: (z := 1)\n"
    )
    assert assigned(tree.body) == {"a", "b", "c", "f", "w", "pq", "m", "d", "C", "e"}
