"""Losses of networks, each with its gradient, written with methods of PyTorch tensors."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


class Loss(Protocol):
    """A loss of the outputs, shape (networks, n, n_outputs), given the targets, shape (networks, n, 1)."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network for one row."""

    def value(self, outputs: Any, y: Any) -> Any:
        """Return the mean loss of each network. Shape (networks,)."""

    def gradient(self, outputs: Any, y: Any, out: Any) -> Any:
        """Write the derivative of each row's loss with respect to each output to `out`, and return `out`."""


@dataclass(frozen=True)
class Pinball:
    """The sum of the pinball losses at several quantile levels, plus the squared error of the mean if there is one.

    The outputs are the quantiles in order, then the mean. The pinball loss at level q is (y − f) (q − 1[y < f]). The
    q-quantile of y minimises its expectation.
    """

    levels: tuple[float, ...]
    mean: bool = False

    @property
    def n_outputs(self) -> int:
        """One for each quantile, and one for the mean if there is one."""
        return len(self.levels) + self.mean

    def value(self, outputs: Any, y: Any) -> Any:
        """Return the mean loss of each network. Shape (networks,)."""
        losses = (outputs - y) * self.gradient(outputs, y, outputs.new_empty(outputs.shape))
        if self.mean:
            losses[..., -1] *= 0.5  # error times derivative is 2 (f − y)²
        return losses.sum(2).mean(1)

    def gradient(self, outputs: Any, y: Any, out: Any) -> Any:
        """Write 1[y < f] − q for each quantile, 2 (f − y) for the mean."""
        out.copy_(outputs).gt_(y)
        for position, level in enumerate(self.levels):  # creating a tensor of levels is impossible in a CUDA graph
            out[..., position].sub_(level)
        if self.mean:
            out[..., -1:].copy_(outputs[..., -1:]).sub_(y).mul_(2)
        return out


@dataclass(frozen=True)
class GaussianLikelihood:
    """The negative log-likelihood of a normal target, (log v + (y − μ)² / v) / 2, for outputs μ and s; v = eˢ + ε.

    Without ε, the variance of rows with residual zero would go to zero, and the gradient to infinity.
    """

    stabilizer: ClassVar[float] = 1e-3
    n_outputs: ClassVar[int] = 2

    def value(self, outputs: Any, y: Any) -> Any:
        """Return the mean loss of each network. Shape (networks,)."""
        mean, variance = outputs[..., :1], outputs[..., 1:].exp() + self.stabilizer
        return 0.5 * (variance.log() + (y - mean) ** 2 / variance).mean((1, 2))

    def gradient(self, outputs: Any, y: Any, out: Any) -> Any:
        """Write w for the mean and (eˢ / v − w² eˢ) / 2 for s, where w = (μ − y) / v."""
        (mean, log_variance), (by_mean, by_log_variance) = outputs.unbind(2), out.unbind(2)
        exponential = log_variance.exp()
        variance = exponential + self.stabilizer
        by_mean.copy_(mean).sub_(y[..., 0]).div_(variance)
        by_log_variance.copy_(variance.reciprocal_()).addcmul_(by_mean, by_mean, value=-1).mul_(exponential).mul_(0.5)
        return out
