"""What networks learn by: each loss with its gradient, written in tensors' own methods."""

from dataclasses import dataclass
from typing import Any, Protocol


class Loss(Protocol):
    """A loss of the outputs, shape (networks, n, n_outputs), given the targets, shape (networks, n, 1)."""

    @property
    def n_outputs(self) -> int:
        """How many numbers a network gives for a row."""

    def value(self, outputs: Any, y: Any) -> Any:
        """Return each network's mean loss. Shape (networks,)."""

    def gradient(self, outputs: Any, y: Any) -> Any:
        """Return the derivative of each row's loss by each output. Shape of the outputs."""


@dataclass(frozen=True)
class Pinball:
    """The sum of the pinball losses at some quantile levels and, if there is a mean, its squared error.

    The outputs are the quantiles in order, then the mean. The pinball loss at q is (y − f) (q − 1[y < f]), whose
    minimum is the q-quantile of y.
    """

    levels: tuple[float, ...]
    mean: bool = False

    @property
    def n_outputs(self) -> int:
        """One for each quantile, and one for the mean."""
        return len(self.levels) + self.mean

    def value(self, outputs: Any, y: Any) -> Any:
        """Return each network's mean loss. Shape (networks,)."""
        error = y - outputs
        losses = (error * self.gradient(outputs, y)).neg()
        if self.mean:
            losses[..., -1] *= 0.5  # the square of the error, not its error times its slope
        return losses.sum(2).mean(1)

    def gradient(self, outputs: Any, y: Any) -> Any:
        """Return 1[y < f] − q for each quantile, 2 (f − y) for the mean."""
        slopes = (y < outputs).to(outputs.dtype)
        for place, level in enumerate(self.levels):  # a tensor of them could not be made inside a CUDA graph
            slopes[..., place] -= level
        if self.mean:
            slopes[..., -1:] = 2 * (outputs[..., -1:] - y)
        return slopes


@dataclass(frozen=True)
class GaussianLikelihood:
    """Minus the log-likelihood of a normal target: (s + (y − μ)² / (eˢ + ε)) / 2, for outputs μ and s = log σ².

    ε keeps a row that is met exactly from pulling σ to zero.
    """

    stabilizer: float = 1e-3
    n_outputs: int = 2

    def value(self, outputs: Any, y: Any) -> Any:
        """Return each network's mean loss. Shape (networks,)."""
        mean, log_variance = outputs[..., :1], outputs[..., 1:]
        error = y - mean
        return 0.5 * (log_variance + error * error / (log_variance.exp() + self.stabilizer)).mean((1, 2))

    def gradient(self, outputs: Any, y: Any) -> Any:
        """Return −w for the mean and (1 − w² eˢ) / 2 for s, where w = (y − μ) / (eˢ + ε)."""
        mean, log_variance = outputs.unbind(2)
        variance = log_variance.exp()
        ratio = (y[..., 0] - mean) / (variance + self.stabilizer)
        slopes = outputs.new_empty(outputs.shape)
        slopes[..., 0] = -ratio
        slopes[..., 1] = 0.5 - 0.5 * ratio * ratio * variance
        return slopes
