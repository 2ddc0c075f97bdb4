"""The report: one HTML file that needs no network, readable without JavaScript."""
