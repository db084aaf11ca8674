"""Members of groups in a simulation, and the books in which the coordinator's promises to them are kept."""
