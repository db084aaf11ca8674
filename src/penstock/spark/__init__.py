"""Spark on Penstock: the data source `penstock` for reading and writing, in batches and as streams."""
