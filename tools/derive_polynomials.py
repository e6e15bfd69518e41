#!/usr/bin/env python3
"""Derives the polynomials of the vector mathematics and prints flambeau/loop/math_coefficients.h.

Each polynomial is a weighted minimax approximation found by the exchange algorithm of Remez (1934)
on a dense Chebyshev grid, with 60 decimal digits. Low coefficients matter most, so they are rounded
one after the other to the format they will have, and the rest is fitted again around them.

Needs mpmath (gmpy2 makes it faster), numpy and scipy.
Usage: derive_polynomials.py > math_coefficients.h
With names as arguments only these polynomials are derived; errors go to standard error.
"""

import sys

import mpmath as mp
import numpy as np
from scipy.optimize import linprog

mp.mp.dps = 60


def round_to(value, kind):
    """The nearest double ('d') or float ('f'), as an exact number."""
    if kind == "d":
        return mp.mpf(float(value))
    bits = 24
    if value == 0:
        return mp.mpf(0)
    exponent = mp.floor(mp.log(abs(value), 2)) - (bits - 1)
    return mp.nint(value / mp.mpf(2) ** exponent) * mp.mpf(2) ** exponent


def exchange(xs, values, weights, powers):
    """Minimax fit of `values` by sum c_p x^p with weights, on the grid; returns (c, error)."""
    n = len(powers)
    table = [[w * x**p for p in powers] for x, w in zip(xs, weights)]
    target = [w * v for v, w in zip(values, weights)]
    reference = [int(round(i * (len(xs) - 1) / n)) for i in range(n + 1)]
    best = None
    for _ in range(40):
        matrix = mp.matrix(n + 1, n + 1)
        right = mp.matrix(n + 1, 1)
        for row, i in enumerate(reference):
            for column in range(n):
                matrix[row, column] = table[i][column]
            matrix[row, n] = (-1) ** row
            right[row] = target[i]
        try:
            solution = mp.lu_solve(matrix, right)
        except ZeroDivisionError:
            break
        c = [solution[i] for i in range(n)]
        error = [t - mp.fsum(a * b for a, b in zip(c, row)) for t, row in zip(target, table)]
        worst = max(abs(e) for e in error)
        if best is None or worst < best[1]:
            best = (c, worst)
        if worst <= abs(solution[n]) * mp.mpf("1.002"):
            break
        # The largest error of every run of one sign, then the best n + 1 neighbours.
        runs = []
        for i, e in enumerate(error):
            if runs and (error[runs[-1]] > 0) == (e > 0):
                if abs(e) > abs(error[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        while len(runs) > n + 1:
            if len(runs) == n + 2:
                runs.pop(0 if abs(error[runs[0]]) < abs(error[runs[-1]]) else -1)
            else:
                k = min(
                    range(len(runs) - 1),
                    key=lambda j: max(abs(error[runs[j]]), abs(error[runs[j + 1]])),
                )
                del runs[k : k + 2]
        if len(runs) < n + 1:
            break
        reference = runs
    return best


def shifted_chebyshev(count, low, high):
    """Monomial coefficients of T_0 .. T_(count-1) over [low, high]."""
    scale, shift = 2 / (high - low), -(high + low) / (high - low)
    rows = [[mp.mpf(1)], [shift, scale]]
    while len(rows) < count:
        last, before = rows[-1], rows[-2]
        row = [mp.mpf(0)] * (len(last) + 1)
        for i, c in enumerate(last):
            row[i] += 2 * shift * c
            row[i + 1] += 2 * scale * c
        for i, c in enumerate(before):
            row[i] -= c
        rows.append(row)
    return rows[:count]


def correction(xs, error, weights, first, count, low, high):
    """The x^first .. x^(count-1) part to add so that the largest weighted error is least.

    The error is already small, so double precision is enough; a linear program needs no
    alternation, which fails here once the constant term is fixed on an interval around 0.
    """
    rows = shifted_chebyshev(count - first, low, high)
    scale = max(abs(w * e) for w, e in zip(weights, error))
    if scale == 0:
        return [mp.mpf(0)] * count
    basis = np.array(
        [
            [float(w * x**first * mp.polyval(row[::-1], x)) for row in rows]
            for x, w in zip(xs, weights)
        ]
    )
    size = np.abs(basis).max(axis=0)
    basis /= size
    target = np.array([float(w * e / scale) for w, e in zip(weights, error)])
    ones = np.ones((len(xs), 1))
    n = len(rows)
    answer = linprog(
        np.r_[np.zeros(n), 1],
        A_ub=np.block([[basis, -ones], [-basis, -ones]]),
        b_ub=np.r_[target, -target],
        bounds=[(None, None)] * n + [(0, None)],
    )
    out = [mp.mpf(0)] * count
    for a, s, row in zip(answer.x, size, rows):
        for i, c in enumerate(row):
            out[first + i] += mp.mpf(a) / mp.mpf(s) * scale * c
    return out


def fit(f, low, high, count, weight, kind="d", rounded=4, fixed=()):
    """Coefficients 0 .. count-1; the first ones may be given in `fixed`."""
    size = 24 * (count + 2)
    low, high = mp.mpf(low), mp.mpf(high)
    xs = [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (i + mp.mpf("0.5")) / size)
        for i in range(size)
    ]
    values = [mp.mpf(f(x)) for x in xs]
    weights = [mp.mpf(weight(x)) for x in xs]
    c, _ = exchange(xs, values, weights, list(range(count)))
    limit = count if kind == "f" else min(count, rounded)
    for k in range(count):
        c[k] = round_to(mp.mpf(fixed[k]) if k < len(fixed) else c[k], kind)
        error = [v - mp.polyval(c[::-1], x) for x, v in zip(xs, values)]
        if k + 1 < limit:
            more = correction(xs, error, weights, k + 1, count, low, high)
            c = [a + b for a, b in zip(c, more)]
    return c, max(abs(w * e) for w, e in zip(weights, error))


ONE = mp.mpf(1)
LN2 = mp.log(2)


def log_tail(z):  # log((1+s)/(1-s)) = 2 s + s z L(z), z = s^2
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def log_tail2(z):  # ... = 2 s + (2/3) s^3 + s^5 L2(z)
    return (log_tail(z) - mp.mpf(2) / 3) / z


def erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


def erfcx_mapped(t, c):
    x = c * (1 + t) / (1 - t)
    return (1 + 2 * x) * erfcx(x)


def inverse_erf_of_w(w):  # erfinv(x) / x, w = -log(1 - x^2)
    w = mp.mpf(w)
    x = mp.sqrt(-mp.expm1(-w))
    if w < mp.mpf("0.5"):
        return mp.erfinv(x) / x
    # erfc is well conditioned in the tail: Newton on log(erfc(y)) = log(1 - x).
    goal = mp.log(mp.exp(-w) / (1 + x))
    y = mp.sqrt(max(w - mp.log(mp.sqrt(w) + 1), mp.mpf("0.1")))
    for _ in range(60):
        e = mp.erfc(y)
        step = (mp.log(e) - goal) * e * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mp.mpf(10) ** -45 * y:
            break
    return y / x


def lgamma_slope(t):
    return mp.loggamma(2 + t) / t if abs(t) > mp.mpf(10) ** -30 else mp.digamma(2)


def stirling(u):  # lgamma(x) = (x - 1/2) (log x - 1) + log(2 pi) / 2 - 1/2 + S(1/x^2) / x
    x = 1 / mp.sqrt(u)
    main = (x - ONE / 2) * (mp.log(x) - 1) + mp.log(2 * mp.pi) / 2 - ONE / 2
    return (mp.loggamma(x) - main) * x


def digamma_tail(u):  # digamma(x) = log x - 1/(2x) - D(1/x^2) / x^2
    x = 1 / mp.sqrt(u)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / u


DIGAMMA_ROOT = mp.findroot(mp.digamma, mp.mpf("1.4616321449683623"))
ERFC_CENTRE = mp.mpf("3.5")

# name: (comment, kind, function of the fit)
POLYNOMIALS = {
    "kExp": (
        "exp(r) = 1 + r + r^2 P(r), |r| <= ln(2)/2",
        "d",
        lambda: fit(
            lambda r: (mp.exp(r) - 1 - r) / r**2,
            "-0.34662",
            "0.34662",
            10,
            lambda r: r**2 / mp.exp(r),
        ),
    ),
    "kExpSingle": (
        "exp(r) = 1 + r + r^2 P(r), |r| <= ln(2)/2, for float32",
        "f",
        lambda: fit(
            lambda r: (mp.exp(r) - 1 - r) / r**2,
            "-0.34662",
            "0.34662",
            5,
            lambda r: r**2 / mp.exp(r),
            kind="f",
        ),
    ),
    "kErfSingle": (
        "erf(x) = x + x P(z), z = x^2, |x| <= 0.92, for float32",
        "f",
        lambda: fit(
            lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, "0.8465", 7, lambda z: 1, kind="f"
        ),
    ),
    "kErfTailSingle": (
        "erfc(x) = exp(-P(x)), 0.92 <= x <= 4, for float32",
        "f",
        lambda: fit(lambda x: -mp.log(mp.erfc(x)), "0.919", "4", 7, lambda x: mp.erfc(x), kind="f"),
    ),
    "kExp2": (
        "2^r = 1 + r P(r), |r| <= 1/2; the rest of the first coefficient is kExp2FirstLow",
        "d",
        lambda: fit(
            lambda r: (mp.mpf(2) ** r - 1) / r,
            "-0.50001",
            "0.50001",
            12,
            lambda r: r / mp.mpf(2) ** r,
            fixed=[LN2],
        ),
    ),
    "kSinh": (
        "sinh(r) = r + r z P(z), z = r^2, |r| <= ln(2)/2",
        "d",
        lambda: fit(
            lambda z: (mp.sinh(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, "0.12016", 5, lambda z: z
        ),
    ),
    "kCosh": (
        "cosh(r) = 1 + z/2 + z^2 P(z), z = r^2, |r| <= ln(2)/2",
        "d",
        lambda: fit(
            lambda z: (mp.cosh(mp.sqrt(z)) - 1 - z / 2) / z**2, 0, "0.12016", 5, lambda z: z**2
        ),
    ),
    "kLog": (
        "log((1+s)/(1-s)) = 2 s + s z P(z), z = s^2, |s| <= 3 - 2 sqrt(2)",
        "d",
        lambda: fit(log_tail, 0, "0.02945", 7, lambda z: z),
    ),
    "kLogTail": (
        "log((1+s)/(1-s)) = 2 s + 2/3 s z + s z^2 P(z)",
        "d",
        lambda: fit(log_tail2, 0, "0.02945", 7, lambda z: z**2),
    ),
    "kSin": (
        "sin(r) = r + r z P(z), z = r^2, |r| <= pi/4",
        "d",
        lambda: fit(
            lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, "0.6169", 6, lambda z: z
        ),
    ),
    "kCos": (
        "cos(r) = 1 - z/2 + z^2 P(z), z = r^2, |r| <= pi/4",
        "d",
        lambda: fit(
            lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 0, "0.6169", 6, lambda z: z**2
        ),
    ),
    "kAsin": (
        "asin(x) = x + x z P(z), z = x^2 <= 1/4",
        "d",
        lambda: fit(
            lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, "0.25", 13, lambda z: z
        ),
    ),
    "kAtan": (
        "atan(x) = x + x z P(z), z = x^2, |x| <= 7/16",
        "d",
        lambda: fit(
            lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, 0, "0.1915", 11, lambda z: z
        ),
    ),
    "kErf": (
        "erf(x) = x + x P(z), z = x^2 <= 1",
        "d",
        lambda: fit(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 0, 1, 14, lambda z: 1),
    ),
    "kErfc": (
        "(1 + 2x) exp(x^2) erfc(x) = P(t), t = (x - 3.5) / (x + 3.5), 1/2 <= x <= 28",
        "d",
        lambda: fit(lambda t: erfcx_mapped(t, ERFC_CENTRE), "-0.75", "0.7778", 22, lambda t: 1),
    ),
    "kErfinvSmall": (
        "erfinv(x) = x P(w - 2.5), w = -log(1 - x^2) <= 5",
        "d",
        lambda: fit(lambda v: inverse_erf_of_w(v + mp.mpf("2.5")), "-2.5", "2.5", 21, lambda v: 1),
    ),
    "kErfinvMiddle": (
        "erfinv(x) = x P(sqrt(w) - 3), 5 <= w <= 16",
        "d",
        lambda: fit(
            lambda v: inverse_erf_of_w((v + 3) ** 2), "-0.764", "1", 24, lambda v: 1, rounded=10
        ),
    ),
    "kErfinvLarge": (
        "erfinv(x) = x P(sqrt(w) - 5), 16 <= w <= 37",
        "d",
        lambda: fit(lambda v: inverse_erf_of_w((v + 5) ** 2), "-1", "1.1", 20, lambda v: 1),
    ),
    "kLgamma": (
        "lgamma(2 + t) = t P(t), |t| <= 1/2",
        "d",
        lambda: fit(lgamma_slope, "-0.5", "0.5", 24, lambda t: 1),
    ),
    "kStirling": (
        "lgamma(x) = (x - 1/2)(log x - 1) + log(2 pi)/2 - 1/2 + P(1/x^2)/x, x >= 8",
        "d",
        lambda: fit(stirling, mp.mpf(10) ** -9, ONE / 64, 8, lambda u: 1),
    ),
    "kDigamma": (
        "digamma(x) = (x - root) P(x - 3/2), 1 <= x <= 2",
        "d",
        lambda: fit(
            lambda v: mp.digamma(v + mp.mpf("1.5")) / (v + mp.mpf("1.5") - DIGAMMA_ROOT),
            "-0.5",
            "0.5",
            23,
            lambda v: 1,
        ),
    ),
    "kDigammaTail": (
        "digamma(x) = log x - 1/(2x) - P(1/x^2)/x^2, x >= 8",
        "d",
        lambda: fit(digamma_tail, mp.mpf(10) ** -9, ONE / 64, 9, lambda u: u),
    ),
}

PAIRS = {
    "kHalfPi": ("pi/2", mp.pi / 2),
    "kTwoOverPi": ("2/pi", 2 / mp.pi),
    "kInverseLn2": ("1 / ln(2)", 1 / LN2),
    "kInverseLn10": ("1 / ln(10)", 1 / mp.log(10)),
    "kLog10Of2": ("log10(2)", mp.log10(2)),
    "kTwoThirds": ("2/3", mp.mpf(2) / 3),
    "kExp2First": ("ln(2)", LN2),
    "kDigammaRoot": ("The positive zero of digamma", DIGAMMA_ROOT),
    "kLogPi": ("log(pi)", mp.log(mp.pi)),
    "kStirlingConstant": ("log(2 pi)/2 - 1/2", mp.log(2 * mp.pi) / 2 - ONE / 2),
}


def literal(value, kind):
    return float(value).hex() + ("f" if kind == "f" else "")


def main(names):
    print(
        "// Printed by tools/derive_polynomials.py, which says how they are found. Lowest power "
        "first.\n#pragma once\n\nnamespace flambeau::loop::math {\n"
    )
    for name, (comment, kind, make) in POLYNOMIALS.items():
        if names and name not in names:
            continue
        coefficients, error = make()
        print(
            f"{name}: {len(coefficients)} coefficients, error 2^{float(mp.log(error, 2)):.1f}",
            file=sys.stderr,
            flush=True,
        )
        print(f"// {comment}; error 2^{float(mp.log(error, 2)):.1f}.")
        type_name = "double" if kind == "d" else "float"
        print(f"inline constexpr {type_name} {name}[] = {{")
        items = [literal(c, kind) + "," for c in coefficients]
        line = "   "
        for item in items:
            if len(line) + len(item) + 1 > 100:
                print(line)
                line = "   "
            line += " " + item
        print(line + "\n};\n")
    for name, (comment, value) in PAIRS.items():
        if not names or name in names:
            print(f"// {comment}")
            for part in ("", "Low", "Tail"):
                print(
                    f"inline constexpr double {name}{part} = {literal(round_to(value, 'd'), 'd')};"
                )
                value -= round_to(value, "d")
            print()
    print("}  // namespace flambeau::loop::math")


if __name__ == "__main__":
    main(sys.argv[1:])
