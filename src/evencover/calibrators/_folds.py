"""Which models were fitted without which rows, and the bound on misses that follows."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from evencover._internal.arrays import BoolArray, FloatArray, IntArray
from evencover.guarantees import FoldBound


@dataclass(frozen=True, eq=False)
class Folds:
    """Which models were fitted without which rows.

    Parameters
    ----------
    codes : ndarray of int, shape (R, n)
        The model that was fitted without a row, in each of R repetitions. After a bootstrap, the number of the row.
    n_models : int
        Number of models.
    left_out : ndarray of bool, shape (n, B), optional
        Whether a row is not in each of B bootstrap samples. The mean prediction of the models of these samples is that
        of the model without the row.
    clusters : ndarray of int, shape (n,), optional
        The cluster of each row, if rows of a cluster are left out together.
    complementary : bool
        Whether each model was fitted on all rows, or clusters, that are not in its fold.
    random : bool
        Whether the folds are known to depend neither on the features nor on the targets, as random ones do.
    """

    codes: IntArray
    n_models: int
    left_out: BoolArray | None = None
    clusters: IntArray | None = None
    complementary: bool = False
    random: bool = True

    def check(self, n: int) -> None:
        """Raise ValueError unless these are folds of n rows; for folds from a file."""
        n_codes = self.n_models if self.left_out is None else n
        codes, left_out, clusters = self.codes, self.left_out, self.clusters
        if codes.ndim != 2 or codes.shape[1] != n or not codes.size or codes.min() < 0 or codes.max() >= n_codes:
            raise ValueError(f"folds must be numbers below {n_codes} of {n} rows; got shape {codes.shape}")
        if left_out is not None and (left_out.shape != (n, self.n_models) or left_out.dtype != bool):
            raise ValueError(f"left_out must be true or false for {n} rows and {self.n_models} models")
        if clusters is not None and (clusters.shape != (n,) or clusters.dtype.kind not in "iu"):
            raise ValueError(f"clusters must be numbers of {n} rows")

    @property
    def weights(self) -> FloatArray:
        """The weight of each bootstrap model in the prediction without a row; all models if it is in all samples."""
        counted: BoolArray = np.asarray(self.left_out) | self.in_all_samples[:, None]
        return np.asarray(counted / counted.sum(axis=1, keepdims=True))

    @property
    def in_all_samples(self) -> BoolArray:
        """Whether no bootstrap sample leaves a row out. Shape (n,)."""
        if self.left_out is None:
            return np.zeros(self.codes.shape[1], dtype=bool)
        return np.asarray(~self.left_out.any(axis=1))

    def bound(self, members: IntArray) -> FoldBound | None:
        """Return the bound for a group that is a function of the features; None if nothing is proven.

        k is the number of folds with rows of the group. If each model is fitted on all other rows, in random order, k
        is also 1 if each model leaves out one row, and the number of rows in a fold if there are no groups and all
        folds have equal size. With clusters of m rows each, the numbers of folds and of left-out rows are multiplied by
        m; nothing is proven if the sizes of clusters differ. docs/cross_conformal_guarantee.md has the proofs.

        Parameters
        ----------
        members : ndarray of int
            Positions of the rows of the group.
        """
        size, repeats = self._cluster_size(members), len(self.codes)
        if size is None:
            return None
        k = max(Fraction(1), Fraction(len(np.unique(self.codes[:, members])), repeats)) * size
        block = self._symmetric_block(members, size)
        return FoldBound(len(members), k if block is None else min(k, Fraction(block)), repeats)

    def _cluster_size(self, members: IntArray) -> int | None:
        """Return the number of rows of each cluster in a group; None if clusters differ."""
        if self.clusters is None or not len(members):
            return 1
        sizes = np.unique(np.unique(self.clusters[members], return_counts=True)[1])
        return int(sizes[0]) if len(sizes) == 1 else None

    def _symmetric_block(self, members: IntArray, cluster_size: int) -> int | None:
        """Return the number of rows of the group that are left out at once, if it is the same for all models."""
        if self.left_out is not None or (self.complementary and self._leave_one_out):
            return cluster_size
        sizes = np.bincount(self.codes[0], minlength=self.n_models)
        is_balanced = len(self.codes) == 1 and len(members) == self.codes.shape[1] == len(sizes) * sizes.max()
        return int(sizes.max()) if self.complementary and is_balanced else None

    @property
    def _leave_one_out(self) -> bool:
        """Whether each model leaves out one row, or one cluster."""
        n_units = self.codes.shape[1] if self.clusters is None else len(np.unique(self.clusters))
        return all(len(np.unique(codes)) == n_units for codes in self.codes)
