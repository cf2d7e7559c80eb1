"""The SSA core: values, operations, blocks, functions, and how an operation is declared.

An operation is declared once, as a class whose fields say what it is made of::

    class Fma(Op):
        name = "arith.fma"
        effect = Effect.PURE
        a = operand(VALUE)
        b = operand(VALUE)
        c = operand(VALUE)
        result = result(lambda op: op.a.type)

From that one declaration come its accessors (`op.a`), its text form, its parser, its checks and
its documentation.  Control flow is structured: an operation owns regions of one block each, and a
block ends in a terminator.  Vocabularies live in `ir/ops/`, one file per family.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar, cast, overload

from tilewright.errors import Loc, VerifyError
from tilewright.ir.types import Type


class Attribute:
    """Base of compile-time values with a structure of their own (the tile vocabulary's)."""

    __slots__ = ()


AttrValue = int | float | bool | str | tuple[Any, ...] | Attribute | None
A = TypeVar("A")


class Effect(enum.Enum):
    """What an operation does besides computing its results."""

    PURE = "pure"
    """Nothing: it may be removed when unused, merged with an equal one, moved."""
    READ = "read"
    """Reads memory: may be removed when unused."""
    WRITE = "write"
    """Writes memory, or reads and writes."""
    SYNC = "sync"
    """Orders other operations, waits, or changes machine state."""
    CONTROL = "control"
    """Control flow: its effect is that of its regions."""


class Value:
    """One SSA value.  `owner` is the operation or the block that defines it."""

    __slots__ = ("name", "owner", "type")

    def __init__(self, type: Type, owner: Op | Block | None = None, name: str = "") -> None:
        self.type = type
        self.owner = owner
        self.name = name

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


@dataclass(frozen=True)
class Constraint:
    """A named test on a type: `text` completes "expected ..."."""

    text: str
    accepts: Callable[[Type], bool]


class operand:
    """Declares one operand; reads as the operand's `Value`."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.index = -1
        self.label = ""

    @overload
    def __get__(self, op: None, owner: type) -> operand: ...
    @overload
    def __get__(self, op: Op, owner: type) -> Value: ...
    def __get__(self, op: Op | None, owner: type) -> operand | Value:
        if op is None:
            return self
        return op.operands[self.index] if op.segments is None else op.group(self.index)[0]


class variadic:
    """Declares zero or more operands; reads as a tuple of values.

    One group of them, after the fixed operands, needs no more.  An operation with several groups,
    or one in the middle, is *segmented*: it stores how many operands each group has.
    """

    def __init__(self, constraint: Constraint, at_most: int | None = None) -> None:
        self.constraint = constraint
        self.at_most = at_most
        self.index = -1
        self.label = ""

    @overload
    def __get__(self, op: None, owner: type) -> variadic: ...
    @overload
    def __get__(self, op: Op, owner: type) -> tuple[Value, ...]: ...
    def __get__(self, op: Op | None, owner: type) -> variadic | tuple[Value, ...]:
        if op is None:
            return self
        return op.operands[self.index :] if op.segments is None else op.group(self.index)


class optional:
    """Declares an operand that may be absent; reads as its value or None (segmented operations)."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.index = -1
        self.label = ""

    @overload
    def __get__(self, op: None, owner: type) -> optional: ...
    @overload
    def __get__(self, op: Op, owner: type) -> Value | None: ...
    def __get__(self, op: Op | None, owner: type) -> optional | Value | None:
        if op is None:
            return self
        found = op.group(self.index)
        return found[0] if found else None


class attr(Generic[A]):
    """Declares a compile-time attribute; reads as its Python value."""

    def __init__(
        self, kind: type[A], default: A | None = None, choices: tuple[A, ...] = ()
    ) -> None:
        self.kind = kind
        self.default = default
        self.choices = choices
        self.label = ""

    @overload
    def __get__(self, op: None, owner: type) -> attr[A]: ...
    @overload
    def __get__(self, op: Op, owner: type) -> A: ...
    def __get__(self, op: Op | None, owner: type) -> attr[A] | A:
        return self if op is None else cast(A, op.attrs[self.label])


class result:
    """Declares one result: the rule that gives its type, or what a given type must satisfy."""

    def __init__(self, rule: Callable[[Any], Type] | Constraint) -> None:
        self.infer = rule if not isinstance(rule, Constraint) else _given
        self.constraint = rule if isinstance(rule, Constraint) else None
        self.index = -1
        self.label = ""

    @overload
    def __get__(self, op: None, owner: type) -> result: ...
    @overload
    def __get__(self, op: Op, owner: type) -> Value: ...
    def __get__(self, op: Op | None, owner: type) -> result | Value:
        return self if op is None else op.results[self.index]


def _given(op: Any) -> Type:
    raise VerifyError(f"{op.name}: its result types do not follow, they must be given", loc=op.loc)


class results:
    """Declares zero or more results of given types; reads as a tuple of values."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self.label = ""

    @overload
    def __get__(self, op: None, owner: type) -> results: ...
    @overload
    def __get__(self, op: Op, owner: type) -> tuple[Value, ...]: ...
    def __get__(self, op: Op | None, owner: type) -> results | tuple[Value, ...]:
        return self if op is None else op.results


class region:
    """Declares one region (a single block); reads as that block."""

    def __init__(self) -> None:
        self.index = -1
        self.label = ""

    @overload
    def __get__(self, op: None, owner: type) -> region: ...
    @overload
    def __get__(self, op: Op, owner: type) -> Block: ...
    def __get__(self, op: Op | None, owner: type) -> region | Block:
        return self if op is None else op.regions[self.index]


OPS: dict[str, type[Op]] = {}
"""Every declared operation by name."""


class Op:
    """Base of all operations.  Build one with `Builder.emit`; subclass it to declare one."""

    __slots__ = ("attrs", "loc", "operands", "regions", "results", "segments")

    name: ClassVar[str] = ""
    effect: ClassVar[Effect] = Effect.PURE
    terminator: ClassVar[bool] = False
    min_arch: ClassVar[int] = 0
    """The first SM that has the instruction (75, 80, 90, 100); 0 for all."""
    feature: ClassVar[str] = ""
    """The feature of `arch.target` that it needs, where later SMs may lack it again."""
    aligned: ClassVar[bool] = False
    """All 32 lanes of the warp must execute it together (`.aligned` in PTX)."""
    segmented: ClassVar[bool] = False
    """Where an operand group starts depends on the operation, which stores the groups' sizes."""

    OPERANDS: ClassVar[tuple[operand, ...]] = ()
    VARIADIC: ClassVar[variadic | None] = None
    GROUPS: ClassVar[tuple[operand | optional | variadic, ...]] = ()
    """Every operand group, in order."""
    ATTRS: ClassVar[dict[str, attr[Any]]] = {}
    RESULTS: ClassVar[tuple[result, ...]] = ()
    MORE_RESULTS: ClassVar[results | None] = None
    REGIONS: ClassVar[tuple[region, ...]] = ()

    def __init_subclass__(cls) -> None:
        fixed: list[operand] = []
        groups: list[operand | optional | variadic] = []
        attrs: dict[str, attr[Any]] = {}
        outputs: list[result] = []
        regions: list[region] = []
        fields: dict[str, Any] = {}
        for ancestor in reversed(cls.__mro__):
            fields.update(vars(ancestor))
        for label, item in fields.items():
            if label.isupper():  # the tables that this loop makes, found in an ancestor
                continue
            if isinstance(item, operand):
                item.label, item.index = label, len(fixed)
                fixed.append(item)
                groups.append(item)
            elif isinstance(item, variadic | optional):
                item.label = label
                groups.append(item)
            elif isinstance(item, results):
                item.label = label
                cls.MORE_RESULTS = item
            elif isinstance(item, attr):
                item.label = label
                attrs[label] = item
            elif isinstance(item, result):
                item.label, item.index = label, len(outputs)
                outputs.append(item)
            elif isinstance(item, region):
                item.label, item.index = label, len(regions)
                regions.append(item)
        cls.OPERANDS, cls.ATTRS = tuple(fixed), attrs
        cls.RESULTS, cls.REGIONS, cls.GROUPS = tuple(outputs), tuple(regions), tuple(groups)
        flexible = [g for g in groups if not isinstance(g, operand)]
        cls.segmented = len(flexible) > 1 or any(g is not groups[-1] for g in flexible)
        cls.segmented |= any(isinstance(g, optional) for g in flexible)
        if cls.segmented:
            for number, group in enumerate(groups):
                group.index = number
        elif flexible and isinstance(flexible[0], variadic):
            cls.VARIADIC, flexible[0].index = flexible[0], len(fixed)
        if cls.name:
            if cls.name in OPS:
                raise VerifyError(f"operation {cls.name} is declared twice")
            OPS[cls.name] = cls

    def __init__(
        self,
        operands: Sequence[Value] = (),
        attrs: Mapping[str, AttrValue] | None = None,
        regions: Sequence[Block] = (),
        loc: Loc | None = None,
        result_types: Sequence[Type] | None = None,
        segments: Sequence[int] | None = None,
    ) -> None:
        self.operands = tuple(operands)
        self.segments = tuple(segments) if self.segmented and segments is not None else None
        given = dict(attrs or {})
        self.attrs: dict[str, AttrValue] = {
            label: given.pop(label, a.default) for label, a in self.ATTRS.items()
        }
        if given:
            raise VerifyError(f"{self.name} has no attribute {sorted(given)[0]!r}", loc=loc)
        self.regions = tuple(regions)
        self.loc = loc
        self.results: tuple[Value, ...] = ()
        types = self.infer_types() if result_types is None else result_types
        self.results = tuple(Value(t, self) for t in types)

    def group(self, index: int) -> tuple[Value, ...]:
        """The operands of group `index` of a segmented operation."""
        assert self.segments is not None, f"{self.name} stores the sizes of its operand groups"
        start = sum(self.segments[:index])
        return self.operands[start : start + self.segments[index]]

    def infer_types(self) -> Sequence[Type]:
        """The result types; operations with a variable number of results override this."""
        return [r.infer(self) for r in self.RESULTS]

    def check(self) -> str | None:
        """A rule that the field declarations cannot say: what is wrong, or None."""
        return None

    def __repr__(self) -> str:
        return f"<{self.name} {list(self.operands)} {self.attrs}>"


class Block:
    """A list of operations with arguments; the last operation is the terminator."""

    __slots__ = ("args", "ops")

    def __init__(self, arg_types: Sequence[Type] = (), names: Sequence[str] = ()) -> None:
        names = names or [""] * len(arg_types)
        self.args = [Value(t, self, n) for t, n in zip(arg_types, names, strict=True)]
        self.ops: list[Op] = []

    def walk(self) -> Iterator[Op]:
        """Every operation, depth first, outer before inner."""
        for op in self.ops:
            yield op
            for inner in op.regions:
                yield from inner.walk()


@dataclass
class Func:
    """A kernel (runs on the device, once per thread) or a host function (runs once).

    `max_threads` is the block size when it is known (for `__launch_bounds__`), `cluster` the
    cluster shape.  `smem_bytes` is filled in by the pass that lays out shared memory.
    """

    name: str
    body: Block
    kind: str = "kernel"
    max_threads: int = 0
    min_blocks: int = 1
    cluster: tuple[int, int, int] = (1, 1, 1)
    smem_bytes: int = 0
    loc: Loc | None = None

    @property
    def args(self) -> list[Value]:
        return self.body.args


@dataclass
class Module:
    """One captured program: the host function, if any, and the kernels that it launches."""

    kernels: dict[str, Func] = field(default_factory=dict)
    host: Func | None = None


def replace_uses(block: Block, mapping: Mapping[Value, Value]) -> None:
    """Let every use inside `block` of a key of `mapping` use its image instead.

    Images may themselves be keys: chains are followed to their end.
    """
    if not mapping:
        return

    def image(v: Value) -> Value:
        while v in mapping:
            v = mapping[v]
        return v

    for op in block.walk():
        if any(v in mapping for v in op.operands):
            op.operands = tuple(image(v) for v in op.operands)


def count_uses(block: Block) -> dict[Value, int]:
    """How often each value is an operand inside `block`, nested regions included."""
    uses: dict[Value, int] = {}
    for op in block.walk():
        for v in op.operands:
            uses[v] = uses.get(v, 0) + 1
    return uses
