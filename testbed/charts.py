"""Charts of sweeps, by matplotlib: legible in print and by colour-blind readers."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from testbed.files import whole

# The colours of Okabe and Ito, each with a line and a marker of its own.
_LOOKS = {
    "spectra": ("#0072B2", "-", "o"),
    "spectra-plus": ("#CC3311", "-", "p"),
    "spectra-pack": ("#882255", "--", "h"),
    "spectra-lp": ("#56B4E9", "--", "v"),
    "spectra-no-equalize": ("#56B4E9", "--", "s"),
    "spectra-eclipse": ("#009E73", "-.", "^"),
    "less": ("#D55E00", "--", "D"),
    "less-even": ("#E69F00", ":", "P"),
    "solstice": ("#CC79A7", "-.", "X"),
    "tms": ("#8C6D1F", "--", "<"),
    "rotor": ("#666666", ":", ">"),
    "optimal": ("#000000", "-", "*"),
}
_LABELS = {"less": "less (few entries split)", "less-even": "less-even (every entry split)",
           "spectra-no-equalize": "spectra without Equalize"}
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.3,
          "legend.frameon": False, "svg.hashsalt": "spectra-testbed", "svg.fonttype": "none"}


def look(scheduler):
    """(colour, line style, marker) of a scheduler in every chart."""
    return _LOOKS[scheduler]


def save(figure, path):
    """Write a figure as PATH.png and PATH.svg; the same figure gives the same bytes."""
    for ending, options in ((".png", {"dpi": 150, "metadata": {"Software": None}}),
                            (".svg", {"metadata": {"Date": None}})):
        with whole(path + ending) as part, matplotlib.rc_context(STYLE):
            figure.savefig(part, format=ending[1:], **options)


def lines(panels, schedulers, x_label, y_label, log_x=True, log_y=False, with_bound=True):
    """Means over seeds against one quantity, a panel for each set of rows, with a band from the least to the largest.

    Parameters
    ----------
    panels : list of list of (str, list of dict)
        Rows of panels: title, and rows of a sweep's table, each with `x`.
    schedulers : sequence of str
    x_label, y_label : str
    log_x, log_y : bool
    with_bound : bool
        Draw the mean lower bound too.

    Returns
    -------
    matplotlib.figure.Figure
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1 + 3.2 * len(panels[0]), 0.8 + 2.5 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), len(panels[0]), squeeze=False)
        for axis, (title, rows) in zip(axes.flat, [panel for line in panels for panel in line]):
            axis.set_title(title)
            axis.set_xscale("log" if log_x else "linear")
            axis.set_yscale("log" if log_y else "linear")
            for scheduler in schedulers:
                _line(axis, [row for row in rows if row["scheduler"] == scheduler], scheduler)
            if with_bound:
                for column, label, dots in (("lower_bound_periods", "lower bound", (0, (1, 1))),
                                            ("tight_lower_bound_periods", "tight lower bound", (0, (4, 2)))):
                    x, values = _by_x(rows, column)
                    axis.plot(x, [np.mean(each) for each in values], color="black", linewidth=1, linestyle=dots, label=label)
            if not log_y:
                axis.set_ylim(bottom=0)
        for axis in axes[-1]:
            axis.set_xlabel(x_label)
        for axis in axes[:, 0]:
            axis.set_ylabel(y_label)
        handles, labels = _entries(axes.flat)
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    return figure


def _line(axis, rows, scheduler):
    colour, style, marker = look(scheduler)
    x, values = _by_x(rows, "makespan_periods")
    axis.plot(x, [np.mean(each) for each in values], color=colour, linestyle=style, marker=marker, markersize=4,
              linewidth=1.3, label=_LABELS.get(scheduler, scheduler))
    axis.fill_between(x, [min(each) for each in values], [max(each) for each in values], color=colour, alpha=0.15,
                      linewidth=0)
    for trusted, face in ((True, colour), (False, "none")):
        shown = [row for row in rows if row["measured_makespan_periods"] is not None and row["trustworthy"] is trusted]
        if shown:
            axis.plot([row["x"] for row in shown], [row["measured_makespan_periods"] for row in shown], color=colour,
                      linestyle="none", marker=marker, markersize=9, markerfacecolor=face, markeredgecolor="black",
                      label=f"{scheduler}, measured" + ("" if trusted else " (not trustworthy)"))


def _by_x(rows, column):
    """Values of x, rising, and what the rows of each have in a column."""
    x = sorted({row["x"] for row in rows})
    return x, [[row[column] for row in rows if row["x"] == value] for value in x]


def _entries(axes):
    """Legend entries of all axes, each once."""
    found = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def heatmaps(matrices, label="demand / period"):
    """Demand matrices side by side; white where there is no demand.

    Parameters
    ----------
    matrices : list of (str, ndarray)
        Title and demand.
    label : str
        Of the colours.

    Returns
    -------
    matplotlib.figure.Figure
    """
    with matplotlib.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(4.0 * len(matrices), 3.7), layout="constrained")
        for axis, (title, matrix) in zip(figure.subplots(1, len(matrices), squeeze=False).flat, matrices):
            shown = np.where(matrix > 0, matrix, np.nan)
            image = axis.imshow(shown, cmap="viridis_r", interpolation="nearest",
                                extent=(0.5, len(shown) + 0.5, len(shown) + 0.5, 0.5),
                                norm=matplotlib.colors.LogNorm(np.nanmin(shown), np.nanmax(shown)))
            axis.set_title(title)
            axis.set_xlabel("destination")
            axis.set_ylabel("source")
            figure.colorbar(image, ax=axis, shrink=0.8, label=label)
    return figure
