"""Computes the polynomial coefficients of the files expand_*.cpp.

Each polynomial is the minimax fit of a function under a weight (Remez's exchange in 60 digits, on a fixed dense grid).
Each coefficient is then rounded to its dtype. Needs mpmath. Prints the weighted error before and after rounding, and the
coefficients from the lowest order up.
"""

import struct
import sys

import mpmath as mp

mp.mp.dps = 60
GRID = 900


def round_to(value, dtype):
    if dtype == "f32":
        return mp.mpf(struct.unpack("f", struct.pack("f", float(value)))[0])
    return mp.mpf(float(value))


def chebyshev_points(low, high, count):
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]


def minimax(values, weights, points, count):
    """Coefficients of the polynomial of `count` terms with the least maximum of |weight * (polynomial - value)|."""
    step = (len(points) - 1) / count
    chosen = [round(i * step) for i in range(count + 1)]
    for _ in range(30):
        rows = mp.matrix(count + 1, count + 1)
        right = mp.matrix(count + 1, 1)
        for row, at in enumerate(chosen):
            for power in range(count):
                rows[row, power] = points[at] ** power
            rows[row, count] = (-1) ** row / weights[at]
            right[row] = values[at]
        solved = mp.lu_solve(rows, right)
        coefficients, level = [solved[i] for i in range(count)], abs(solved[count])
        errors = [w * (mp.polyval(coefficients[::-1], x) - v) for x, v, w in zip(points, values, weights)]
        chosen = alternate(errors, count + 1)
        if max(map(abs, errors)) <= level * mp.mpf("1.001"):
            break
    return coefficients, max(map(abs, errors))


def alternate(errors, count):
    """The places of `count` extrema of alternating sign, the largest ones."""
    runs = []
    for at, error in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = at
        else:
            runs.append(at)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    return runs


def rounded_in_turn(coefficients, values, weights, points, dtype, turns):
    """The coefficients rounded; after each of the first `turns` the others are fitted anew to what it leaves."""
    rounded = []
    for turn in range(turns):
        rounded.append(round_to(coefficients[0], dtype))
        values = [(v - rounded[-1]) / x for v, x in zip(values, points)]
        weights = [w * abs(x) for w, x in zip(weights, points)]
        coefficients, _ = minimax(values, weights, points, len(coefficients) - 1)
    return rounded + [round_to(c, dtype) for c in coefficients]


def fit(name, dtype, function, weight, low, high, count, variable=lambda x: x, turns=0):
    """Prints the fit of function(x) by a polynomial in variable(x), x in [low, high]."""
    raw = chebyshev_points(mp.mpf(low), mp.mpf(high), GRID)
    points = [variable(x) for x in raw]
    values, weights = [function(x) for x in raw], [weight(x) for x in raw]
    coefficients, error = minimax(values, weights, points, count)
    rounded = rounded_in_turn(coefficients, values, weights, points, dtype, turns)
    final = max(abs(w * (mp.polyval(rounded[::-1], x) - v)) for x, v, w in zip(points, values, weights))
    print(f"{name}_{dtype}: error 2^{float(mp.log(error, 2)):.1f}, rounded 2^{float(mp.log(final, 2)):.1f}")
    print("   " + ", ".join(mp.nstr(c, 9 if dtype == "f32" else 17) for c in rounded), flush=True)


HALF_LN2 = mp.log(2) / 2 * mp.mpf("1.0001")


def exp_rest(r):
    """(exp(r) - 1 - r) / r^2"""
    return mp.fsum(r**k / mp.factorial(k + 2) for k in range(40))


def log_rest(f):
    """(log(1 + f) - f + f^2 / 2) / f^3"""
    if abs(f) < mp.mpf("0.01"):
        return mp.fsum((-f) ** k / (k + 3) for k in range(60))
    return (mp.log(1 + f) - f + f * f / 2) / f**3


def atanh_rest(s):
    """(2 atanh(s) - 2 s) / s^3"""
    return mp.fsum(2 * s ** (2 * k) / (2 * k + 3) for k in range(60))


def erf_rest(x):
    """erf(x) / x - 1"""
    return mp.fsum((-1) ** k * x ** (2 * k) * 2 / mp.sqrt(mp.pi) / mp.factorial(k) / (2 * k + 1) for k in range(80)) - 1


def exp2_rest(f):
    """(2^f - 1) / f"""
    ln2 = mp.log(2)
    return mp.fsum(ln2 ** (k + 1) * f**k / mp.factorial(k + 1) for k in range(40))


def sin_rest(r):
    """(sin(r) - r) / r^3"""
    return mp.fsum((-1) ** (k + 1) * r ** (2 * k) / mp.factorial(2 * k + 3) for k in range(25))


def cos_rest(r):
    """(cos(r) - 1 + r^2 / 2) / r^4"""
    return mp.fsum((-1) ** k * r ** (2 * k) / mp.factorial(2 * k + 4) for k in range(25))


def atan_rest(t):
    """(atan(t) - t) / t^3"""
    if t < mp.mpf("0.1"):
        return mp.fsum((-1) ** (k + 1) * t ** (2 * k) / (2 * k + 3) for k in range(40))
    return (mp.atan(t) - t) / t**3


def asin_rest(s):
    """(asin(s) - s) / s^3"""
    if s < mp.mpf("0.1"):
        terms = range(1, 45)
        return mp.fsum(mp.binomial(2 * k, k) / mp.mpf(4) ** k / (2 * k + 1) * s ** (2 * k - 2) for k in terms)
    return (mp.asin(s) - s) / s**3


def atanh_fifth_rest(s):
    """(2 atanh(s) - 2 s - 2/3 s^3) / s^5"""
    return mp.fsum(2 * s ** (2 * k) / (2 * k + 5) for k in range(60))


def square(x):
    return x * x


if __name__ == "__main__":
    wanted = sys.argv[1:]
    root = mp.sqrt(2)

    def run(name, *args, **keywords):
        if not wanted or any(name.startswith(w) for w in wanted):
            fit(name, *args, **keywords)

    for dtype, exp_terms in (("f32", 5), ("f64", 11)):
        run("exp", dtype, exp_rest, lambda r: r * r / mp.exp(r), -HALF_LN2, HALF_LN2, exp_terms)
        # As above, but relative to exp(r) - 1 = r + r^2 rest.
        run("expm1", dtype, exp_rest, lambda r: abs(r), -HALF_LN2, HALF_LN2, exp_terms)
    run("log", "f32", log_rest, lambda f: f * f, 1 / root - 1, root - 1, 9)
    run("log", "f64", atanh_rest, lambda s: s * s, mp.mpf("1e-9"), (root - 1) / (root + 1), 7, variable=square)
    run("erf_small", "f32", erf_rest, lambda x: 1, mp.mpf("1e-9"), mp.mpf("1.125"), 7, variable=square, turns=3)
    run("erf_root", "f32", lambda x: mp.erfc(x) ** mp.mpf("0.25"), lambda x: 4 * mp.erfc(x) ** mp.mpf("0.75"),
        mp.mpf("1.125"), 4, 8, variable=lambda x: x - 1, turns=3)
    run("erf_small", "f64", erf_rest, lambda x: 1, mp.mpf("1e-9"), 1, 13, variable=square)
    run("erf_large", "f64", lambda x: -mp.log(mp.erfc(x)), mp.erfc, 1, 6, 18,
        variable=lambda x: x - 1 + mp.mpf("1e-30"))
    tiny, slack = mp.mpf("1e-9"), mp.mpf("1.0001")
    quarter_pi, eighth_tangent = mp.pi / 4 * slack, (root - 1) * mp.mpf("1.00001")
    log_limit, half = (root - 1) / (root + 1) * slack, mp.mpf("0.5001")
    for dtype, exp2_terms, sin_terms, cos_terms, atan_terms, asin_terms, pow_terms in (
        ("f32", 6, 3, 3, 5, 5, 3),
        ("f64", 11, 6, 6, 11, 12, 8),
    ):
        run("exp2", dtype, exp2_rest, lambda f: abs(f) / 2**f, -half, half, exp2_terms)
        run("sin", dtype, sin_rest, lambda r: r * r, tiny, quarter_pi, sin_terms, variable=square)
        run("cos", dtype, cos_rest, lambda r: r**4, tiny, quarter_pi, cos_terms, variable=square)
        run("atan", dtype, atan_rest, lambda t: t * t, tiny, eighth_tangent, atan_terms, variable=square)
        run("asin", dtype, asin_rest, lambda s: s * s, tiny, half, asin_terms, variable=square)
        run("pow", dtype, atanh_fifth_rest, lambda s: s**4, tiny, log_limit, pow_terms, variable=square)
