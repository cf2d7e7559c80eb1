"""Tile kernels inside of JAX programs, under cuTile's names.

    from tilewright.tile.jax import OutputPlaceholder, cutile_call

    @jax.jit
    def doubled(x):
        out = OutputPlaceholder(x.shape, x.dtype)
        return cutile_call((ct.cdiv(x.shape[0], 256),), double, (x, out, 256))

Needs the extra: `pip install "tilewright[jax]"`.
"""

from tilewright.compiler.tile_jax import InputOutput, OutputPlaceholder, cutile_call

__all__ = ["InputOutput", "OutputPlaceholder", "cutile_call"]
