"""A lower bound on the makespan that is never below the paper's (arXiv 2603.07373, section IV), and mostly above it.

What all parts start from. Let T > δ be a makespan that some schedule reaches. A switch that plays nothing may as well
play a dark slot, and one that is ready early may play its last slot for longer, so that each of the s switches has at
least one slot and a load of exactly T: a switch of c slots then plays for A(c) = T − cδ in all.

A line is a row or a column of the demand; of a line, a slot serves at most one entry. The k nonzeros of a line are
x1 ≥ … ≥ xk, their sum is w, and Xj = x1 + … + xj. The durations of all K slots are α1 ≥ … ≥ αK. None is above A(1), so
that entry i takes at least pi = ceil(xi / A(1)) slots, and a line has e = K − Σ pi slots more than that.

Every part is a proof that some T cannot be reached. What cannot be reached at T cannot be reached below T either, so
bisection ends at a lower bound even where a part happens to deny one T and not a smaller one.
"""

from dataclasses import dataclass

import numpy as np

from controller.scheduling.bounds import lower_bound_s

# Both relative. No T is denied for what rounding may have done; bisection ends where the bound is known to the second.
SLACK, PRECISION = 1e-11, 1e-9
# What takes longer is left out, or done for fewer lines: the bound is weaker then, and still a bound.
MOST_GROUPED, MOST_GROUPINGS = 7, 100_000
MOST_CUT_LINES, MOST_TOPS, MOST_EXTRA = 16, 16, 4
MOST_WAYS, MOST_STEPS, STEPS_A_SWITCH = 4_000, 10_000_000, 5_000


def tight_lower_bound_s(demand_s, switches, delta_s):
    """A lower bound on the makespan of any schedule, at least `lower_bound_s`.

    The largest of the paper's bound (arXiv 2603.07373, section IV) and of two that are proved where they are made: one
    for each line alone (`OneLine`), one for all lines on the slots that they share (`SharedSlots`).

    Parameters
    ----------
    demand_s : array_like, shape (n, n)
        Seconds of link time.
    switches : int
    delta_s : float

    Returns
    -------
    float
        Seconds; 0 where there is no demand.

    Notes
    -----
    Some thirty steps of bisection for each part, of O(n·k) for a demand of degree k and each number of slots in question.
    """
    paper_s = lower_bound_s(demand_s, switches, delta_s)
    # Without delays the paper's bound is exact: doubly stochastic matrices are mixtures of permutations (Birkhoff).
    if paper_s == 0 or delta_s <= 1e-9 * paper_s:
        return paper_s
    lines_s = sorted_lines(demand_s)
    bound_s = largest_denied(OneLine(lines_s, switches, delta_s).possible, paper_s, delta_s / switches)
    return float(largest_denied(SharedSlots(lines_s, switches, delta_s).possible, bound_s, delta_s / switches))


def sorted_lines(demand_s):
    """The rows and columns with any demand, each by falling size; as many columns as the largest number of nonzeros.

    Equal lines are there once, and the order of lines does not depend on that of the hosts.
    """
    demand_s = np.asarray(demand_s, dtype=float)
    lines = -np.sort(-np.concatenate([demand_s, demand_s.T]), axis=1)
    lines = lines[:, :(lines > 0).sum(axis=1).max()]
    return np.unique(lines[lines[:, 0] > 0], axis=0)[::-1]


def largest_denied(possible, low_s, step_s):
    """The largest makespan that `possible` was seen to deny, or `low_s`, a lower bound to start from.

    Parameters
    ----------
    possible : callable
        Whether a makespan, in seconds, can be reached for all that is known; False only where that is proved.
    low_s : float
    step_s : float
        How far above `low_s` to look first.

    Returns
    -------
    float
        Less than PRECISION, relative, below a makespan that is not denied.
    """
    high_s = low_s * (1 + PRECISION)
    while not possible(high_s):
        low_s, high_s, step_s = high_s, high_s + step_s, 2 * step_s
    while high_s - low_s > PRECISION * low_s:
        middle_s = (low_s + high_s) / 2
        if possible(middle_s):
            high_s = middle_s
        else:
            low_s = middle_s
    return low_s


def whole_slots(time_s, most_s, some=False):
    """How many slots of at most `most_s` it takes to carry `time_s`, one at least where `some`; elementwise.

    What may be rounding does not count.
    """
    return np.maximum(np.ceil(time_s / most_s * (1 - SLACK) - SLACK), some).clip(0).astype(int)


def groupings(count):
    """All ways to part `count` items into groups: an array of bit masks, a way a row, filled up with 0."""
    ways = [[]]
    for item in range(count):
        ways = [way[:g] + [way[g] | 1 << item] + way[g + 1:] if g < len(way) else way + [1 << item]
                for way in ways for g in range(len(way) + 1)]
    return np.array([way + [0] * (count - len(way)) for way in ways])


class OneLine:
    """Part 1: a line alone, by the groups of entries that share switches.

    Join switch h and entry i where h has a slot for i. On a cycle, time can be moved round (more on one edge, less on
    the next) with no change to any switch's or entry's sum, until an edge has none left and its slots are dropped: so
    let there be no cycles. A tree of a switches and b entries has a + b − 1 edges, each one slot at least, so entries B
    in one tree give a·T ≥ Σ_B x + δ(a + b − 1), or

        a ≥ a(B) = ceil((Σ_B (x + δ) − δ) / (T − δ)).

    This holds for some of the entries of a tree too, whatever else is in it. The trees of a line have k + Σ (a − 1)
    slots or more. So if T can be reached, the largest entries can be parted into groups B with Σ a(B) ≤ s, and the line
    takes k + Σ (a(B) − 1) slots or more, for which s·T ≥ w + δ·slots. All ways to part them are tried.

    Parameters
    ----------
    lines_s : ndarray, shape (lines, k)
        As `sorted_lines` gives them.
    switches : int
    delta_s : float
    """

    def __init__(self, lines_s, switches, delta_s):
        self.switches, self.delta_s = switches, delta_s
        count = min(lines_s.shape[1], MOST_GROUPED)
        self.ways = groupings(count)
        heaviest = np.argsort(-lines_s[:, :count].sum(axis=1), kind="stable")[:MOST_GROUPINGS // self.ways.size]
        lines_s = lines_s[heaviest]
        self.sums_s, self.counts = lines_s.sum(axis=1), (lines_s > 0).sum(axis=1)
        largest_s = (lines_s + delta_s * (lines_s > 0))[:, :count]
        self.group_s = largest_s @ (np.arange(2**count)[:, None] >> np.arange(count) & 1).T

    def possible(self, makespan_s):
        """Whether no line denies a makespan; of the lines, those with the largest sums of largest entries are asked."""
        need = whole_slots(self.group_s - self.delta_s, makespan_s - self.delta_s, self.group_s > 0)[:, self.ways]
        slots = self.counts[:, None] + (need - 1).clip(0).sum(axis=2)
        load_s = self.sums_s[:, None] + self.delta_s * slots
        few_enough = need.sum(axis=2) <= self.switches
        return bool((few_enough & (load_s <= self.switches * makespan_s * (1 + SLACK))).any(axis=1).all())


def most_taken(values, most, slots):
    """The most that N slots of at most `most` each can take of a line, if each serves one entry.

    From an entry, each slot takes `most` until less is left; so N slots take the N largest of these pieces.

    Parameters
    ----------
    values : ndarray, shape (lines, k)
    most : float
    slots : int

    Returns
    -------
    ndarray, shape (lines, slots + 1)
        For N = 0, 1, …, slots.
    """
    whole = np.floor(values / most)
    rests = np.cumsum(-np.sort(whole * most - values, axis=1), axis=1)
    rests = np.concatenate([np.zeros((len(values), 1)), rests], axis=1)
    whole = whole.sum(axis=1).astype(int)[:, None]
    slots = np.arange(slots + 1)
    return np.minimum(slots, whole) * most + np.take_along_axis(rests, (slots - whole).clip(0, values.shape[1]), axis=1)


@dataclass(frozen=True)
class Durations:
    """What is known of the durations of K slots.

    Parameters
    ----------
    least_s : ndarray, shape (K,)
        Lower bounds β1 ≥ … ≥ βK on α1 ≥ … ≥ αK.
    rest_s : ndarray, shape (K + 1,)
        `rest_s[N]` is a lower bound on α(N+1) + … + αK, hence on the sum of any K − N slots.
    """

    least_s: np.ndarray
    rest_s: np.ndarray


class SharedSlots:
    """Part 2: all lines on the same slots.

    If T can be reached, it is with some number K of slots: at least one a switch and Σ pi of every line, and since
    s·T ≥ w + δK for the largest w, whichever line it is of, only so many. For each such K, `durations` says what the
    slots must hold, and `fits` whether s switches can share them out.

    Parameters
    ----------
    lines_s : ndarray, shape (lines, k)
        As `sorted_lines` gives them.
    switches : int
    delta_s : float
    """

    def __init__(self, lines_s, switches, delta_s):
        self.lines_s, self.switches, self.delta_s = lines_s, switches, delta_s
        self.counts = (lines_s > 0).sum(axis=1)
        self.tops_s = np.concatenate([np.zeros((len(lines_s), 1)), np.cumsum(lines_s, axis=1)], axis=1)
        heaviest = np.argsort(-self.tops_s[:, -1], kind="stable")
        most = np.argsort(-self.counts, kind="stable")
        self.some_s = lines_s[np.unique(np.concatenate([order[:MOST_CUT_LINES] for order in (heaviest, most)]))]
        self.uncut, self.steps = {}, 0

    def possible(self, makespan_s):
        """Whether some number of slots does not deny a makespan."""
        lit_s = makespan_s - self.delta_s
        first = max(self.switches, self._pieces(self.lines_s, lit_s).sum(axis=1).max())
        load_s = self.switches * makespan_s * (1 + SLACK)
        last = int((load_s - self.tops_s[:, -1].max()) / self.delta_s * (1 + SLACK))
        return any(self.steps > MOST_STEPS or self.fits(slots, makespan_s) for slots in range(first, last + 1))

    @staticmethod
    def _pieces(lines_s, lit_s):
        """pi of every entry."""
        return whole_slots(lines_s, lit_s, lines_s > 0)

    def durations(self, slots, lit_s):
        """Part 2a: what the lines demand of K slots of at most `lit_s` = A(1) each.

        Entries 1 … j of a line have at most m = K − Σ_{i>j} pi slots, for the others need pi each. Of these slots take
        away any N ≤ m, and m − N are left at most, which carry Xj less what N slots can take (`most_taken`; if no
        entry is above A(1), the N largest entries). The K − m smallest slots are apart from them, so

            α(N+1) + … + αK ≥ Xj − taken(N) + β(m+1) + … + βK,

        also if some of the N largest slots serve no entry among 1 … j: then take others away for them. With N = 0 and no
        entry above A(1), the largest right side is the optimum of the linear program min Σα, αj ≥ βj, the first m
        durations ≥ Xj: all of the surplus goes to α1.

        Returns
        -------
        Durations
        """
        cut = self.lines_s[0, 0] > lit_s
        if not cut and slots in self.uncut:
            return self.uncut[slots]
        self.steps += self.lines_s.size
        least_s = self._least_s(slots)
        if cut:
            least_s = np.maximum(least_s, self._least_by_cut_lines_s(slots, lit_s))
        ends_s = np.append(np.cumsum(least_s[::-1])[::-1], 0.0)
        rest_s = np.maximum(ends_s, self._rest_s(slots, lit_s, ends_s))
        if cut:
            rest_s = np.maximum(rest_s, self._rest_by_cut_lines_s(slots, lit_s, ends_s))
        found = Durations(least_s, rest_s)
        if not cut:
            self.uncut[slots] = found
        return found

    def _least_s(self, slots):
        """β by whole entries: with d = K − k, at most d of a line's entries have two slots or more, so that among its
        j + d largest at least j have one slot alone, and αj ≥ x(j+d)."""
        padded_s = np.pad(self.lines_s, ((0, 0), (0, 1)))
        place = np.arange(slots)[None, :] + (slots - self.counts)[:, None]
        return np.take_along_axis(padded_s, place.clip(0, self.lines_s.shape[1]), axis=1).max(axis=0)

    def _least_by_cut_lines_s(self, slots, lit_s):
        """β by lines with an entry that one slot cannot carry.

        If m slots carry an entry x and t of them are ≥ v, then t·A(1) + (m − t)·v > x, or t = m: t is more than
        (x − m·v) / (A(1) − v), and not 0 if x ≥ m·v. Added up over a line with m = pi, that is the number of slots ≥ v,
        less what the line's e slots more can change: q more for one entry cost it at most the q-fold of the largest
        t(p) − t(p + q') by q' ≤ e. Done for the v that can matter, and e ≤ MOST_EXTRA.
        """
        lines_s = self.some_s[self.some_s[:, 0] > lit_s]
        pieces = self._pieces(lines_s, lit_s)
        extra = slots - pieces.sum(axis=1)
        lines_s, pieces, extra = (part[extra <= MOST_EXTRA] for part in (lines_s, pieces, extra))
        # Slightly less, and not near A(1), so that rounding is nothing beside the denominator.
        some = np.maximum(pieces, 1)
        sizes_s = np.concatenate([lines_s - (some - 1) * lit_s, lines_s / some], axis=1).clip(0)
        sizes_s = np.minimum(sizes_s * (1 - 1e-8), lit_s * (1 - 1e-3))
        self.steps += sizes_s.size * lines_s.shape[1]

        def so_large(more):
            spare_s = lines_s[:, None, :] - (pieces + more[:, None])[:, None, :] * sizes_s[:, :, None]
            count = np.floor(spare_s / (lit_s - sizes_s)[:, :, None] - SLACK) + 1
            return np.where((spare_s > 0) & (lines_s > 0)[:, None, :], np.maximum(count, 1), 0)

        alone = so_large(np.zeros(len(lines_s)))
        loss = np.zeros(sizes_s.shape)
        for more in range(1, MOST_EXTRA + 1):
            lost = (alone - so_large(np.full(len(lines_s), more))).max(axis=2, initial=0) / more
            loss = np.where(extra[:, None] >= more, np.maximum(loss, lost), loss)
        count = np.ceil(alone.sum(axis=2) - loss * extra[:, None] - SLACK).clip(0, slots).astype(int)
        least_s = np.zeros(slots + 1)
        np.maximum.at(least_s, count, sizes_s)
        return np.maximum.accumulate(least_s[::-1])[::-1][1:]

    def _slots_of_tops(self, lines_s, slots, lit_s):
        """m of `durations` for j = 0 … k, with pi ≥ 1 for every entry; shape (lines, k + 1)."""
        after = np.cumsum(self._pieces(lines_s, lit_s)[:, ::-1], axis=1)[:, ::-1]
        return slots - np.pad(after, ((0, 0), (0, 1)))

    def _rest_s(self, slots, lit_s, ends_s):
        """The right side of `durations` where N slots take N whole entries, for all lines, N and j at once."""
        tops_s = self.tops_s + ends_s[self._slots_of_tops(self.lines_s, slots, lit_s)]
        tops_s = np.maximum.accumulate(tops_s[:, ::-1], axis=1)[:, ::-1]
        rest_s = np.zeros(slots + 1)
        rest_s[:self.tops_s.shape[1]] = (tops_s - self.tops_s).max(axis=0)
        return rest_s

    def _rest_by_cut_lines_s(self, slots, lit_s, ends_s):
        """The right side of `durations` for some lines with an entry that one slot cannot carry, and some j."""
        lines_s = self.some_s[self.some_s[:, 0] > lit_s]
        entries = lines_s.shape[1]
        tops = np.append(np.arange(1, min(MOST_TOPS, entries)), entries)
        # One row for each line and j, with x1 … xj alone.
        tops_s = (lines_s[:, None, :] * (np.arange(entries) < tops[:, None])).reshape(-1, entries)
        self.steps += tops_s.size
        left = self._slots_of_tops(lines_s, slots, lit_s)[:, tops].ravel()
        rest_s = tops_s.sum(axis=1)[:, None] - most_taken(tops_s, lit_s, slots) + ends_s[left][:, None]
        return np.where(left[:, None] >= np.arange(slots + 1), rest_s, 0).max(axis=0, initial=0)

    def fits(self, slots, makespan_s):
        """Part 2b: whether s switches can share out K slots, for all that is known.

        Let the switches have c1 ≥ … ≥ cs ≥ 1 slots, K in all. For each h, the first h switches have M = c1 + … + ch slots
        and the others N = K − M.

        - Their load is h·T, and any M slots hold α(N+1) + … + αK or more: h·T ≥ δM + that.
        - None of their slots is above A(ch): all with βj > A(ch) are among the N.
        - Each line has its entries on M slots of at most A(ch) and N of at most A(1) (`_fewest_beside`).

        One switch after the other is given its c; of what was given before, only the last c and M matter.
        """
        delta_s, slack_s = self.delta_s, SLACK * self.switches * makespan_s
        durations = self.durations(slots, makespan_s - delta_s)
        fewest = {}
        last, given = np.array([slots]), np.array([0])
        for h in range(1, self.switches + 1):
            c = np.arange(1, min(last.max(), int(makespan_s / delta_s * (1 + SLACK))) + 1)
            total, c = np.broadcast_arrays(given[:, None] + c, c)
            others = slots - total
            fine = (c <= last[:, None]) & (others >= self.switches - h) & (others <= (self.switches - h) * c)
            fine &= durations.rest_s[others.clip(0)] + delta_s * total <= h * makespan_s + slack_s
            self.steps += fine.size + STEPS_A_SWITCH
            last, given = np.divmod(np.unique(c[fine] * (slots + 1) + total[fine]), slots + 1)
            if len(last) > MOST_WAYS:
                return True
            keep = np.zeros(len(last), dtype=bool)
            for c in np.unique(last):
                if c not in fewest:
                    fewest[c] = self._fewest_beside(c, slots, makespan_s)
                too_long = (durations.least_s > makespan_s - c * delta_s + slack_s).sum()
                here = last == c
                total = given[here]
                keep[here] = (slots - total >= too_long) & (total >= fewest[c][slots - total])
            last, given = last[keep], given[keep]
            if not len(last):
                return False
        return True

    def _fewest_beside(self, c, slots, makespan_s):
        """The fewest slots of at most A(c) that some line needs beside N of at most A(1), for N = 0 … K.

        Without the N, entry i takes f = ceil(xi / A(c)); each of the N spares it ceil(A(1) / A(c)) of these at most, and
        never more than f in all.
        """
        small_s, large_s = makespan_s - c * self.delta_s, makespan_s - self.delta_s
        if small_s <= SLACK * makespan_s:
            # Such slots carry next to nothing; what they cannot do is left to the other tests.
            return np.zeros(slots + 1)
        alone = self._pieces(self.some_s, small_s)
        spared = most_taken(alone, whole_slots(large_s, small_s), slots)
        self.steps += spared.size
        return (alone.sum(axis=1)[:, None] - spared).max(axis=0)
