"""``gluon.loss``: losses as blocks; each gives one number for each record."""

from __future__ import annotations

from typing import Any

from netweave.errors import UsageError
from netweave.mxnet.gluon.block import HybridBlock

LEAST = 1e-12
"""Added to a probability before its logarithm."""


class Loss(HybridBlock):
    """A loss; a subclass has ``hybrid_forward(F, pred, label, sample_weight)``.

    Args:
        weight: Factor of the loss; None for 1.
        batch_axis: Axis of the records.
        kwargs: As for all blocks.
    """

    def __init__(self, weight: float | None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._weight, self._batch_axis = weight, batch_axis

    def _mean(self, F: Any, loss: Any, sample_weight: Any, factor: float = 1.0) -> Any:
        if sample_weight is not None:
            loss = F.broadcast_mul(loss, sample_weight)
        whole = factor * (1.0 if self._weight is None else self._weight)
        return F.mean(loss * whole if whole != 1.0 else loss, axis=self._batch_axis, exclude=True)


def _like(F: Any, label: Any, pred: Any) -> Any:
    return F.reshape_like(label, pred)


class L2Loss(Loss):
    """Half the squared difference."""

    def __init__(self, weight: float = 1.0, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """Compute the loss of each record."""
        return self._mean(F, F.square(pred - _like(F, label, pred)), sample_weight, 0.5)


class L1Loss(Loss):
    """The absolute difference."""

    def __init__(self, weight: float | None = None, batch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(weight, batch_axis, **kwargs)

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """Compute the loss of each record."""
        return self._mean(F, F.abs(pred - _like(F, label, pred)), sample_weight)


class SigmoidBinaryCrossEntropyLoss(Loss):
    """The cross entropy of each element with a label between 0 and 1.

    Args:
        from_sigmoid: Whether the predictions are probabilities already.
        weight: Factor of the loss.
        batch_axis: Axis of the records.
        kwargs: As for all blocks.
    """

    def __init__(
        self, from_sigmoid: bool = False, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_sigmoid = from_sigmoid

    def hybrid_forward(
        self, F: Any, pred: Any, label: Any, sample_weight: Any = None, pos_weight: Any = None
    ) -> Any:
        """Compute the loss of each record."""
        if pos_weight is not None:
            raise UsageError(
                "SigmoidBinaryCrossEntropyLoss with pos_weight is not supported; use sample_weight"
            )
        label = _like(F, label, pred)
        if self._from_sigmoid:
            loss = -(F.log(pred + LEAST) * label + F.log(1.0 - pred + LEAST) * (1.0 - label))
        else:
            loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        return self._mean(F, loss, sample_weight)


SigmoidBCELoss = SigmoidBinaryCrossEntropyLoss


class SoftmaxCrossEntropyLoss(Loss):
    """The cross entropy of the softmax with class numbers, or with probabilities.

    Args:
        axis: Where the classes are.
        sparse_label: Whether labels are class numbers.
        from_logits: Whether the predictions are logarithms of probabilities already.
        weight: Factor of the loss.
        batch_axis: Axis of the records.
        kwargs: As for all blocks.
    """

    def __init__(
        self,
        axis: int = -1,
        sparse_label: bool = True,
        from_logits: bool = False,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._axis, self._sparse, self._from_logits = axis, sparse_label, from_logits

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """Compute the loss of each record."""
        logs = pred if self._from_logits else F.log_softmax(pred, axis=self._axis)
        if self._sparse:
            loss = -F.pick(logs, label, axis=self._axis, keepdims=True)
        else:
            loss = -F.sum(logs * _like(F, label, logs), axis=self._axis, keepdims=True)
        return self._mean(F, loss, sample_weight)


SoftmaxCELoss = SoftmaxCrossEntropyLoss


class KLDivLoss(Loss):
    """The divergence of predicted logarithms from probabilities."""

    def __init__(
        self,
        from_logits: bool = True,
        axis: int = -1,
        weight: float | None = None,
        batch_axis: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._from_logits, self._axis = from_logits, axis

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """Compute the loss of each record."""
        logs = pred if self._from_logits else F.log_softmax(pred, axis=self._axis)
        loss = label * (F.log(label + LEAST) - logs)
        if sample_weight is not None:
            loss = F.broadcast_mul(loss, sample_weight)
        total = F.sum(loss, axis=self._batch_axis, exclude=True)  # a sum, unlike the other losses
        return total if self._weight is None else total * self._weight


class HuberLoss(Loss):
    """Squared near zero, and linear beyond ``rho``."""

    def __init__(
        self, rho: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._rho = rho

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """Compute the loss of each record."""
        size = F.abs(pred - _like(F, label, pred))
        loss = F.where(size > self._rho, size - 0.5 * self._rho, (0.5 / self._rho) * F.square(size))
        return self._mean(F, loss, sample_weight)


class HingeLoss(Loss):
    """max(0, margin - pred label), labels being -1 and 1."""

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """Compute the loss of each record."""
        return self._mean(F, F.relu(self._margin - pred * _like(F, label, pred)), sample_weight)


class SquaredHingeLoss(HingeLoss):
    """The square of the hinge loss."""

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """Compute the loss of each record."""
        return self._mean(F, F.square(F.relu(self._margin - pred * _like(F, label, pred))), sample_weight)


class LogisticLoss(Loss):
    """log(1 + e^(-pred label)), labels being -1 and 1, or 0 and 1 (``binary``)."""

    def __init__(
        self, weight: float | None = None, batch_axis: int = 0, label_format: str = "signed", **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        if label_format not in {"signed", "binary"}:
            raise UsageError(f"label_format is {label_format!r}, expected 'signed' or 'binary'")
        self._label_format = label_format

    def hybrid_forward(self, F: Any, pred: Any, label: Any, sample_weight: Any = None) -> Any:
        """Compute the loss of each record."""
        label = _like(F, label, pred)
        if self._label_format == "signed":
            label = (label + 1.0) / 2.0
        loss = F.relu(pred) - pred * label + F.Activation(-F.abs(pred), act_type="softrelu")
        return self._mean(F, loss, sample_weight)


class TripletLoss(Loss):
    """max(0, margin + |pred - positive|^2 - |pred - negative|^2)."""

    def __init__(
        self, margin: float = 1, weight: float | None = None, batch_axis: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(weight, batch_axis, **kwargs)
        self._margin = margin

    def hybrid_forward(
        self, F: Any, pred: Any, positive: Any, negative: Any, sample_weight: Any = None
    ) -> Any:
        """Compute the loss of each record."""
        positive, negative = _like(F, positive, pred), _like(F, negative, pred)
        gap = F.square(positive - pred) - F.square(negative - pred)
        loss = F.relu(F.sum(gap, axis=self._batch_axis, exclude=True) + self._margin)
        if sample_weight is not None:
            loss = F.broadcast_mul(loss, sample_weight)
        return loss if self._weight is None else loss * self._weight


class CTCLoss(Loss):
    """Connectionist temporal classification; blank is the last class, and -1 pads labels.

    Args:
        layout: ``NTC`` or ``TNC``, of the predictions.
        label_layout: ``NT`` or ``TN``.
        weight: Factor of the loss; None for 1.
        kwargs: As for all blocks.

    Raises:
        UsageError: There is no such layout.
    """

    def __init__(
        self, layout: str = "NTC", label_layout: str = "NT", weight: float | None = None, **kwargs: Any
    ) -> None:
        if layout not in {"NTC", "TNC"} or label_layout not in {"NT", "TN"}:
            raise UsageError(
                f"layout is {layout!r} and label_layout {label_layout!r}, expected 'NTC' or 'TNC', and 'NT' "
                "or 'TN'"
            )
        self._layout, self._label_layout = layout, label_layout
        super().__init__(weight, label_layout.find("N"), **kwargs)

    def hybrid_forward(
        self,
        F: Any,
        pred: Any,
        label: Any,
        pred_lengths: Any = None,
        label_lengths: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Compute the loss of each sequence."""
        if self._layout == "NTC":
            pred = F.swapaxes(pred, dim1=0, dim2=1)
        if self._label_layout == "TN":
            label = F.swapaxes(label, dim1=0, dim2=1)
        lengths = {"data_lengths": pred_lengths, "label_lengths": label_lengths}
        loss = F.CTCLoss(
            pred,
            label,
            **{name: value for name, value in lengths.items() if value is not None},
            use_data_lengths=pred_lengths is not None,
            use_label_lengths=label_lengths is not None,
            blank_label="last",
        )
        if sample_weight is not None:
            loss = F.broadcast_mul(loss, sample_weight)
        return loss if self._weight is None else loss * self._weight


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("gluon.loss", name, [key for key in globals() if key.endswith("Loss")])
