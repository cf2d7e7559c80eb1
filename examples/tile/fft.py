"""Fourier transform by matrix products (Cooley and Tukey's two steps), which tensor cores like.

With N = N1 N2, n = N2 n1 + n2 and k = k1 + N1 k2, a signal x is an (N1, N2) matrix and
    X[k1 + N1 k2] = ((W1 @ x) * T) @ W2, at (k1, k2),
where W1, W2 are the N1- and N2-point transforms and T[k1, n2] = exp(-2 pi i k1 n2 / N).
A block transforms one signal from start to end.  A complex product is four real ones.
"""

import numpy as np

import tilewright.tile as ct

N1, N2 = 32, 16


def product(x, y):
    """The complex matrix product of (real, imaginary) pairs."""
    (a, b), (c, d) = x, y
    zero = ct.zeros((a.shape[0], c.shape[1]), ct.float32)
    return ct.mma(a, c, ct.mma(-b, d, zero)), ct.mma(a, d, ct.mma(b, c, zero))


def matrix(array, number, shape):
    """Matrix `number` of a stack."""
    return ct.reshape(ct.load(array, (number, 0, 0), (1, *shape)), shape)


def complex_matrix(array, shape):
    """A table, stored as its real part and its imaginary part."""
    return matrix(array, 0, shape), matrix(array, 1, shape)


@ct.kernel
def fft_kernel(re, im, w1, w2, twiddle, out_re, out_im, n1: ct.Constant[int], n2: ct.Constant[int]):
    signal = ct.bid(0)
    x = matrix(re, signal, (n1, n2)), matrix(im, signal, (n1, n2))
    a, b = product(complex_matrix(w1, (n1, n1)), x)
    c, d = complex_matrix(twiddle, (n1, n2))
    y = product((a * c - b * d, a * d + b * c), complex_matrix(w2, (n2, n2)))
    # y[k1, k2] is X[k1 + N1 k2]: row k2 of the output, column k1.
    ct.store(out_re, (signal, 0, 0), ct.reshape(ct.transpose(y[0]), (1, n2, n1)))
    ct.store(out_im, (signal, 0, 0), ct.reshape(ct.transpose(y[1]), (1, n2, n1)))


def roots(rows, columns, n):
    """exp(-2 pi i r c / n) for each row r and column c, as (2, rows, columns)."""
    z = np.exp(-2j * np.pi * np.outer(np.arange(rows), np.arange(columns)) / n)
    return np.stack([z.real, z.imag]).astype(np.float32)


def fft(re, im, w1, w2, twiddle, out_re, out_im, stream=None):
    """Transforms signals, (count, N1, N2), into (count, N2, N1): both are N numbers in a row."""
    arguments = (re, im, w1, w2, twiddle, out_re, out_im, N1, N2)
    ct.launch(stream, (re.shape[0],), fft_kernel, arguments)


def case(rng):
    """The host function, its arguments, and for each output its exact value and largest error."""
    count = 5
    re, im = rng.standard_normal((2, count, N1, N2)).astype(np.float32)
    tables = roots(N1, N1, N1), roots(N2, N2, N2), roots(N1, N2, N1 * N2)
    outputs = [np.empty((count, N2, N1), np.float32) for _ in range(2)]
    signals = (np.float64(re) + 1j * np.float64(im)).reshape(count, -1)
    exact = np.fft.fft(signals).reshape(count, N2, N1)
    # Sums of 2 N1, then of 2 N2 float32 products, each of at most the signal's elements.
    bound = 2.0**-23 * (N1 + N2) * np.abs(signals).sum(axis=1)[:, None, None] / 8
    expected = {5: (exact.real, bound), 6: (exact.imag, bound)}
    return fft, (re, im, *tables, *outputs), expected


def main():
    run, arguments, expected = case(np.random.default_rng(0))
    run(*arguments)
    for name, (at, (exact, bound)) in zip(("real", "imaginary"), expected.items(), strict=True):
        error = np.abs(arguments[at] - exact)
        assert np.all(error <= bound), name
        print(f"{len(exact)} transforms of {N1 * N2}, {name} part: largest error {error.max():.1e}")


if __name__ == "__main__":
    main()
