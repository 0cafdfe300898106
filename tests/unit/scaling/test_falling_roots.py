"""Roots of polynomials of degree 6 where they fall through zero."""

import numpy as np
from numpy.polynomial import polynomial

from pipeline.scaling import downey


def falling_roots(p):
    """Every root in (0, 1] at which the polynomial falls, in order."""
    slopes, roots = np.zeros((7, 7)), np.zeros(6)
    slopes[0] = p
    return roots[: downey.falling_roots(slopes, roots)].tolist()


def of_roots(*roots):
    """A polynomial of degree 6 with these roots, positive before the first of them."""
    p = polynomial.polyfromroots([*roots, *([-0.7] * (6 - len(roots)))])
    return p if len(roots) % 2 == 0 else -p


def test_every_second_root_falls():
    np.testing.assert_allclose(falling_roots(of_roots(0.2, 0.4, 0.7)), [0.2, 0.7], rtol=1e-12)
    np.testing.assert_allclose(falling_roots(-of_roots(0.2, 0.4, 0.7)), [0.4], rtol=1e-12)


def test_many_roots_are_all_found():
    np.testing.assert_allclose(falling_roots(of_roots(0.25, 0.375, 0.5, 0.625, 0.75)), [0.25, 0.5, 0.75], rtol=1e-9)


def test_close_roots_tiny_roots_and_none():
    np.testing.assert_allclose(falling_roots(of_roots(0.3, 0.3001, 0.3002)), [0.3, 0.3002], rtol=1e-7)
    np.testing.assert_allclose(falling_roots(of_roots(1e-9)), [1e-9], rtol=1e-9)
    assert falling_roots(of_roots(1.5, 2.0)) == []
    assert falling_roots(np.zeros(7)) == []


def test_random_polynomials_agree_with_numpy():
    rng = np.random.default_rng(6)
    for _ in range(2000):
        p = rng.normal(0, 1, 7)
        roots = polynomial.polyroots(p)
        real = np.sort(roots.real[(np.abs(roots.imag) < 1e-9) & (roots.real > 0) & (roots.real < 1)])
        falling = [u for u in real if polynomial.polyval(u, polynomial.polyder(p)) < 0]
        np.testing.assert_allclose(falling_roots(p), falling, rtol=1e-7, atol=1e-10)
