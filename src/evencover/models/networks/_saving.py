"""Networks on disk: the fitted estimator as an object that skops wrote; reading it needs no PyTorch."""

from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from evencover._internal.saved_files import Archive, IncompatibleFileError, file_errors, read_archive, write_archive
from evencover._internal.saved_objects import dump_objects, load_objects


class SavingMixin:
    """The methods `save` and `load` of networks and their ensembles."""

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, without pickle; `load` reads it.

        A `random_state` that is a generator is saved as None. Everything else is saved as it is.
        """
        check_is_fitted(self)
        content, untrusted = dump_objects(_without_random_generators(self), "network")
        foreign = [name for name in untrusted if name != _class_path(type(self))]
        if foreign:
            raise TypeError(f"settings must be numbers, text or sequences of them to be saved; got {foreign[0]}")
        write_archive(path, "network", Archive({"class": type(self).__name__}, {}, content))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the fitted model in a file that `save` wrote; PyTorch is not needed."""
        archive = read_archive(path, "network")
        with file_errors(path, "network"):
            saved = archive.header["class"]
            if saved != cls.__name__:
                raise IncompatibleFileError(f"the file holds a {saved}: use {saved}.load")
        model = load_objects(archive.objects, path, "network", [_class_path(cls)])
        with file_errors(path, "network"):
            if type(model) is not cls:
                raise TypeError(f"the object in it is a {type(model).__name__}")
            return model


def _class_path(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _without_random_generators(model: Any) -> Any:
    """Return a shallow copy with None for every `random_state` that is a generator, also in estimators inside."""
    copied = copy(model)
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.random.RandomState):
            setattr(copied, name, None)
        elif isinstance(value, BaseEstimator):
            setattr(copied, name, _without_random_generators(value))
    return copied
