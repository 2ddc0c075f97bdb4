"""Data sets to learn from: the paper's six by name, and any table file."""

from evencover.datasets.dataset import Dataset, DatasetCard, cards, read_dataset
from evencover.datasets.loading import load_dataset

__all__ = ["Dataset", "DatasetCard", "cards", "load_dataset", "read_dataset"]
