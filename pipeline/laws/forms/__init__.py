"""The laws, a file each: formula, parameters with bounds and grid, solver, part in the model average, paper."""
