"""Streams and tables: a typed DSL whose topologies Spark runs."""
