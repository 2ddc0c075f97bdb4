"""Benchmarks of speed and memory: evencover next to plain numpy and other packages."""
