"""Layouts are functions from coordinates to offsets; the algebra composes and divides them."""

from tilewright import cute

# A 4x8 row-major matrix: shape (4,8), stride (8,1).
matrix = cute.make_layout((4, 8), stride=(8, 1))
print(matrix, "sends (2, 3) to", matrix(2, 3))
assert matrix(2, 3) == 19

# Cut into tiles of 2x4: mode 0 walks inside a tile, mode 1 from tile to tile.
tiles = cute.zipped_divide(matrix, (2, 4))
print("tiled:", tiles)
assert str(tiles) == "((2,4),(2,2)):((8,1),(16,4))"

# Composition: layout after layout.  R(i) == A(B(i)) for every i.
a, b = cute.make_layout((6, 2), stride=(8, 2)), cute.make_layout((4, 3), stride=(3, 1))
r = cute.composition(a, b)
print(a, "o", b, "=", r)
assert all(r(i) == a(b(i)) for i in range(12))

# A swizzle: the same tile, but no two rows of eight meet in one memory bank.
rows = cute.make_layout((8, 64), stride=(64, 1))
swizzled = cute.make_composed_layout(cute.make_swizzle(3, 3, 3), 0, rows)
print("row starts:", [swizzled((i, 0)) % 64 for i in range(8)])
assert sorted(swizzled((i, 0)) % 64 for i in range(8)) == list(range(0, 64, 8))
