"""Every method by its name, and which one `auto` means."""

from pipeline.core.input_settings import InputSettings
from pipeline.inputs.methods.gp import GP
from pipeline.inputs.methods.laws import LAWS_METHOD
from pipeline.inputs.methods.nearest import NEAREST
from pipeline.inputs.methods.network import NETWORK
from pipeline.inputs.methods.trees import TREES
from pipeline.inputs.training import Method

METHODS: dict[str, Method] = {one.name: one for one in (GP, TREES, NETWORK, LAWS_METHOD, NEAREST)}


def chosen_method(settings: InputSettings, n_runs: int) -> str:
    """The method of the settings; auto: gp up to `gp_rows` runs, trees above."""
    if settings.method != "auto":
        return settings.method
    return "gp" if n_runs <= settings.gp_rows else "trees"
