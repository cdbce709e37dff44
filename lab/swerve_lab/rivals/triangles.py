"""Linear algebra of small matrices, written out column by column.

LAPACK is called once per matrix, slow for many small ones, and batches of such calls can hang jaxlib on a CPU. Here all
is sums and products, which compile to plain loops over frames and batches, in full precision on every device. Their
derivatives are left to automatic differentiation: the closed formula for a triangle's derivative divides by the
triangle, and in float32 lost every digit where these still have five. What there is to compile grows with L: seconds
for L = 4, most of a minute for L = 12.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float


def times(left: Float[Array, "N M"], right: Float[Array, "M L"]) -> Float[Array, "N L"]:
    """left right; a matrix product of JAX's own may round to fewer digits on a GPU."""
    return jnp.sum(left[:, :, None] * right[None, :, :], axis=1)


def applied(matrix: Float[Array, "N M"], vector: Float[Array, " M"]) -> Float[Array, " N"]:
    """matrix vector, likewise."""
    # Along the first axis: on a CPU, jaxlib 0.10.2 sums large batches along the last one wrongly (jax issue 39103).
    return jnp.sum(matrix.T * vector[:, None], axis=0)


def orthonormal(rows: Float[Array, "L N"]) -> tuple[Float[Array, "L L"], Float[Array, "L N"]]:
    """rows = lower basis, where basis basis' = I and lower is triangular with a positive diagonal.

    By modified Gram-Schmidt, whose triangle is as exact as Householder's. The rows must be independent.
    """
    size = len(rows)
    columns, basis = [], []
    for done in range(size):
        length = jnp.sqrt(jnp.sum(rows[0] ** 2))
        direction = rows[0] / length
        along = applied(rows[1:], direction)
        rows = rows[1:] - along[:, None] * direction[None, :]
        columns.append(jnp.concatenate([jnp.zeros(done, rows.dtype), length[None], along]))
        basis.append(direction)
    return jnp.stack(columns, axis=1), jnp.stack(basis)


def lower_factor(rows: Float[Array, "L N"]) -> Float[Array, "L L"]:
    """The triangle with lower lower' = rows rows', without forming that product and losing half its digits."""
    return orthonormal(rows)[0]


def residual(basis: Float[Array, "L N"], vector: Float[Array, " N"]) -> Float[Array, " N"]:
    """vector - basis' basis vector, one direction after the other."""
    for direction in basis:
        vector = vector - jnp.sum(direction * vector) * direction
    return vector


def cholesky(matrix: Float[Array, "L L"]) -> Float[Array, "L L"]:
    """The triangle with lower lower' = matrix; NaN if the matrix is not positive definite."""
    size = len(matrix)
    columns = []
    for done in range(size):
        column = matrix[:, 0] / jnp.sqrt(matrix[0, 0])
        matrix = matrix[1:, 1:] - column[1:, None] * column[None, 1:]
        columns.append(jnp.concatenate([jnp.zeros(done, column.dtype), column]))
    return jnp.stack(columns, axis=1)


def solve_lower(lower: Float[Array, "L L"], right: Float[Array, "L N"]) -> Float[Array, "L N"]:
    """lower^{-1} right, by forward substitution."""
    rows = []
    for n in range(len(lower)):
        row = right[0] / lower[n, n]
        right = right[1:] - lower[n + 1 :, n, None] * row[None, :]
        rows.append(row)
    return jnp.stack(rows)


def inverse(lower: Float[Array, "L L"]) -> Float[Array, "L L"]:
    """lower^{-1}, itself a lower triangle."""
    return solve_lower(lower, jnp.eye(len(lower), dtype=lower.dtype))
