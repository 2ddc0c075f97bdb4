"""Diagnostics: expected coverage per group, audits of intervals, sample sizes, and recommendations."""
