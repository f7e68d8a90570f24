"""What hypothesis draws for several test files."""

import numpy as np
from hypothesis import strategies as st

from controller.scheduling.schedule import Schedule, Slot


@st.composite
def permutations(draw, ports):
    """A permutation with some inputs dark; fixed points always are, since a host sends nothing to itself."""
    outputs = draw(st.permutations(range(ports)))
    lit = draw(st.lists(st.booleans(), min_size=ports, max_size=ports))
    return tuple(j if lit[i] and i != j else -1 for i, j in enumerate(outputs))


@st.composite
def schedules(draw, delays_s=(0.0, 0.01, 0.5), shortest_s=0.001):
    """A schedule of one to three switches."""
    ports = draw(st.integers(1, 5))
    slot = st.builds(Slot, permutations(ports), st.floats(shortest_s, 1.0))
    switches = draw(st.lists(st.lists(slot, max_size=4).map(tuple), min_size=1, max_size=3))
    return Schedule(draw(st.sampled_from(delays_s)), tuple(switches))


@st.composite
def demands_bytes(draw, largest=60_000):
    """Payload bytes of two to five hosts, at least one of them positive, the diagonal zero."""
    n = draw(st.integers(2, 5))
    cells = draw(st.lists(st.just(0) | st.integers(1, largest), min_size=n * n, max_size=n * n))
    demand = np.array(cells, dtype=np.int64).reshape(n, n)
    np.fill_diagonal(demand, 0)
    demand[0, 1] = max(1, demand[0, 1])
    return demand
