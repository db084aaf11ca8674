"""Pipelines: loading a program's file, running and stopping its queries, and showing other processes what runs."""
