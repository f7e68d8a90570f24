"""Schedulers by name. Each is a function `(demand_s, switches, delta_s) -> Schedule`."""

from controller.scheduling.spectra import spectra

SCHEDULERS = {
    "spectra": spectra,
}
