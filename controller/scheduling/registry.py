"""Schedulers by name. Each is a function `(demand_s, switches, delta_s) -> Schedule`."""

from controller.scheduling import optimal as exact
from controller.scheduling.eclipse import spectra_eclipse
from controller.scheduling.less import less, less_even
from controller.scheduling.packing import spectra_pack
from controller.scheduling.rotor import rotor
from controller.scheduling.solstice import solstice
from controller.scheduling.spectra import spectra, spectra_no_equalize
from controller.scheduling.spectra_lp import spectra_lp
from controller.scheduling.spectra_plus import spectra_plus
from controller.scheduling.tms import tms

SCHEDULERS = {
    "spectra": spectra,
    "spectra-plus": spectra_plus,
    "spectra-pack": spectra_pack,
    "spectra-lp": spectra_lp,
    "spectra-no-equalize": spectra_no_equalize,
    "spectra-eclipse": spectra_eclipse,
    "less": less,
    "less-even": less_even,
    "solstice": solstice,
    "tms": tms,
    "rotor": rotor,
    "optimal": exact.optimal,
}


def refusal(name, ports, switches):
    """Why a scheduler cannot do a number of ports and switches, or None where it can.

    Parameters
    ----------
    name : str
    ports, switches : int

    Returns
    -------
    str or None
    """
    if name == "optimal" and (ports > exact.MAX_PORTS or switches > exact.MAX_SWITCHES):
        return (f"it is exact, and does at most {exact.MAX_PORTS} hosts and {exact.MAX_SWITCHES} switches, not "
                f"{ports} and {switches}")
    return None
