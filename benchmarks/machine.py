"""The machine and the versions that measurements are from."""

import os
import platform
from collections.abc import Iterable
from pathlib import Path

from evencover.inputs.optional import package_versions


def machine(packages: Iterable[str]) -> str:
    """Return the processor, the system and the versions of Python and of packages."""
    versions = ", ".join(f"{name} {version}" for name, version in package_versions(packages).items())
    return (
        f"{os.cpu_count()} cores, {_processor()}, {platform.system()}; Python {platform.python_version()}, {versions}"
    )


def _processor() -> str:
    """Return the name of the processor, if the system has one."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
