"""Data sets to learn from: the paper's six by name, and any table file."""

from evencover.datasets.dataset import Dataset, read_dataset
from evencover.datasets.loading import load_dataset
from evencover.datasets.registry import DatasetCard, cards

__all__ = ["Dataset", "DatasetCard", "cards", "load_dataset", "read_dataset"]
