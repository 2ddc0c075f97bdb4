"""Tables of random numbers for what the packages lack: text of up to 20 000 values, a million rows, 2000 columns.

The truth of each table is known: its docstring says how the target is made, and which R2 the true mean has.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

_N_DISTRICTS, _SCHOOLS_PER_DISTRICT = 60, 20


def generated_frame(item: str) -> Any:
    """Return a generated table as a pandas frame; the same one each time."""
    import pandas as pd

    return pd.DataFrame(GENERATORS[item](np.random.default_rng(0)))


def states(rng: np.random.Generator) -> dict[str, Any]:
    """Return 3000 rows of 60 states: the target is the state's own number and a numeric effect; R2 0.98."""
    n = 3000
    codes, size = rng.integers(60, size=n), rng.normal(size=n)
    noise = 0.35 * rng.normal(size=n)
    return {"state": _names("state", codes), "size": size, "y": 3 * rng.normal(size=60)[codes] + size + noise}


def customers(rng: np.random.Generator) -> dict[str, Any]:
    """Return 200 000 rows of 20 000 customers, of which a few have most rows: half of the variance is the customer's.

    Most customers are rare, and the mean of a rare one has to be shrunk; the region says something about it. R2 0.82.
    """
    n, n_customers = 200_000, 20_000
    weights = 1 / np.arange(10, n_customers + 10) ** 0.8
    codes = rng.choice(n_customers, size=n, p=weights / weights.sum())
    region_of = rng.integers(50, size=n_customers)
    own = 0.6 * rng.normal(size=50)[region_of] + 0.8 * rng.normal(size=n_customers)
    price = rng.lognormal(sigma=0.5, size=n)
    y = own[codes] - np.log(price) * 1.5 + 0.6 * rng.normal(size=n)
    return {"customer": _names("C", codes), "region": _names("region", region_of[codes]), "price": price, "y": y}


def schools(rng: np.random.Generator) -> dict[str, Any]:
    """Return 12 000 rows of 1200 schools in 60 districts: each district has its own slope; R2 0.89."""
    n, n_schools = 12_000, _N_DISTRICTS * _SCHOOLS_PER_DISTRICT
    school = rng.integers(n_schools, size=n)
    district = school // _SCHOOLS_PER_DISTRICT
    hours, age = rng.uniform(-2, 2, size=n), rng.integers(6, 19, size=n)
    slopes, levels = rng.normal(size=_N_DISTRICTS), rng.normal(size=_N_DISTRICTS)
    y = levels[district] + 0.7 * rng.normal(size=n_schools)[school] + slopes[district] * hours + 0.1 * age
    columns = {"district": _names("district", district), "school": _names("school", school)}
    return {**columns, "hours": hours, "age": age, "y": y + 0.6 * rng.normal(size=n)}


def machines(rng: np.random.Generator) -> dict[str, Any]:
    """Return 10 000 rows of 200 machines: the machine changes only the noise, from 0.1 to 3; R2 of the mean 0.54."""
    n = 10_000
    codes, load = rng.integers(200, size=n), rng.uniform(0, 4, size=n)
    noise = np.exp(rng.uniform(np.log(0.1), np.log(3), size=200))[codes] * rng.normal(size=n)
    return {"machine": _names("M", codes), "load": load, "y": load + np.sin(2 * load) + noise}


def million(rng: np.random.Generator) -> dict[str, Any]:
    """Return a million rows with a column of 5000 products and one of 60 shops, crossed, and three numbers; R2 0.82."""
    n = 1_000_000
    product, shop = rng.integers(5000, size=n), rng.integers(60, size=n)
    a, b, c = rng.normal(size=(3, n))
    y = rng.normal(size=5000)[product] + 0.7 * rng.normal(size=60)[shop] + a + np.sin(2 * b) + 0.8 * rng.normal(size=n)
    return {"product": _names("P", product), "shop": _names("shop", shop), "a": a, "b": b, "c": c, "y": y}


def wide(rng: np.random.Generator) -> dict[str, Any]:
    """Return 400 rows of 2000 numbers, of which ten matter linearly; R2 0.91."""
    X = rng.normal(size=(400, 2000))
    y = X[:, :10].sum(axis=1) + rng.normal(size=400)
    return {**{f"x{position}": values for position, values in enumerate(X.T)}, "y": y}


GENERATORS: Mapping[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    function.__name__: function for function in (states, customers, schools, machines, million, wide)
}


def _names(prefix: str, codes: Any) -> Any:
    """Return codes as text, such as state_07, in which no order of the effects can be seen."""
    digits = len(str(int(codes.max())))
    return np.array([f"{prefix}_{code:0{digits}}" for code in range(int(codes.max()) + 1)], dtype=object)[codes]
